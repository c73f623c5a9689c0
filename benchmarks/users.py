"""Many people looking at once: what each waits for, against one alone, and what they cost the web's process.

Each user opens the Overview over HTTP, holds its real websocket (socket.io, as a browser does), and asks what its live
panels ask, all at once, every five seconds. Printed for one user and for many: median and 95th percentile of the
time until all of one look's answers are there, the ratio, and the process's memory. `--url` and `--pid` take a web that
runs; without them a `warpmeter up --demo` is started for it.
"""

import argparse
import asyncio
import re
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aiohttp
import psutil
import socketio
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `tests`, when run as a file

from tests.real.up import up
from tests.wait import until

EVERY_S: Final = 5.0
CLIENT: Final = re.compile(r"""['"]client_id['"]:\s*['"]([0-9a-f-]+)""")
LOOK: Final = (
    "fleet/statistics?since=-1h",
    "fleet/states",
    "series?metric=gpu_util&by=host&since=-1h",
    "heatmap?metric=gpu_util&since=-1h",
    "hosts?limit=50",
    "jobs?limit=50",
)


@dataclass
class Seen:
    """Of one crowd: seconds of each look, and the memory of the web's process after it, in MiB."""

    users: int
    looks: list[float] = field(default_factory=list)
    failed: int = 0
    rss_mib: float = 0.0

    def quantile(self, share: float) -> float:
        """Milliseconds."""
        ordered = sorted(self.looks)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def user(url: str, rounds: int, start_s: float, seen: Seen) -> None:
    """One person: the page, its websocket, then look after look on an absolute schedule."""
    async with aiohttp.ClientSession() as http:
        async with http.get(url) as page:
            found = CLIENT.search(await page.text())
        assert found, f"{url} is no page of warpmeter's"
        socket = socketio.AsyncClient()
        query = (
            f"client_id={found[1]}&tab_id={found[1]}&document_id={found[1]}&next_message_id=0&implicit_handshake=true"
        )
        await socket.connect(f"{url}?{query}", socketio_path="/_nicegui_ws/socket.io", transports=["websocket"])
        due = time.monotonic() + start_s
        for _ in range(rounds):
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due += EVERY_S
            began = time.monotonic()
            answers = await asyncio.gather(*(ask(http, f"{url}/api/v1/{each}") for each in LOOK))
            seen.looks.append(time.monotonic() - began)
            seen.failed += answers.count(False)
        await socket.disconnect()


async def ask(http: aiohttp.ClientSession, url: str) -> bool:
    """Whether the whole answer came."""
    async with http.get(url) as answer:
        await answer.read()
        return answer.status == 200


async def crowd(url: str, users: int, rounds: int, pid: int) -> Seen:
    """So many, spread evenly over the interval."""
    seen = Seen(users)
    await asyncio.gather(*(user(url, rounds, EVERY_S * n / users, seen) for n in range(users)))
    seen.rss_mib = psutil.Process(pid).memory_info().rss / (1 << 20)
    return seen


@contextmanager
def web(url: str, pid: int) -> Iterator[tuple[str, int]]:
    """Address and process of the web that is looked at."""
    if url:
        yield url.rstrip("/"), pid
        return
    with TemporaryDirectory(prefix="users-") as folder, up(Path(folder) / "data", ["--demo"], page=True) as running:
        until(lambda: running.value("SELECT count() FROM gpu_heatmap_1m") > 10_000, "the demo's last hour", 120)
        yield f"http://127.0.0.1:{running.web}", running.parts["web"]


def show(found: Sequence[Seen]) -> None:
    """One table."""
    table = Table("users", "looks", "failed", "p50 ms", "p95 ms", "p95 / one user's", "RSS MiB")
    for seen in found:
        ratio = seen.quantile(0.95) / found[0].quantile(0.95)
        cells = (seen.users, len(seen.looks), seen.failed, f"{1000 * statistics.median(seen.looks):.0f}")
        table.add_row(*map(str, cells), f"{seen.quantile(0.95):.0f}", f"{ratio:.2f}", f"{seen.rss_mib:.0f}")
    Console().print(table)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--users", type=int, default=50)
    asked.add_argument("--rounds", type=int, default=12, help="looks a user")
    asked.add_argument("--url", default="", help="of a web that runs")
    asked.add_argument("--pid", type=int, default=0, help="of its process")
    options = asked.parse_args()
    with web(options.url, options.pid) as (url, pid):
        alone = asyncio.run(crowd(url, 1, options.rounds, pid))
        many = asyncio.run(crowd(url, options.users, options.rounds, pid))
        later = asyncio.run(crowd(url, options.users, options.rounds, pid))
    show([alone, many, later])


if __name__ == "__main__":
    main()
