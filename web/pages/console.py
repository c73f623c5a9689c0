"""SQL: a console that only reads, for operators."""

from typing import Final

from warpmeter.web.pages.frame import frame
from warpmeter.web.panels.console import Console

FIRST: Final = """SELECT
    host, gpu, max(ts) AS last, avg(gpu_util) AS busy, max(fb_used_bytes) / pow(2, 30) AS fb_used_gib
FROM gpu_samples
WHERE ts > now() - INTERVAL 5 MINUTE
GROUP BY host, gpu
ORDER BY busy DESC
LIMIT 50"""


def show() -> None:
    """The console and what it answers."""
    with frame("sql", "SQL", window=False):
        Console("/api/v1/sql", "One statement that reads", FIRST)
