"""Overview: how the fleet is doing, and where to look."""

from typing import Final

from warpmeter.web.pages import host, job
from warpmeter.web.pages.columns import HOSTS, JOBS, RATIO, few
from warpmeter.web.pages.frame import frame
from warpmeter.web.panels.alerts import Alarms
from warpmeter.web.panels.heatmap import Heatmap
from warpmeter.web.panels.panel import WINDOW
from warpmeter.web.panels.series import Lines, Series
from warpmeter.web.panels.states import States
from warpmeter.web.panels.stats import Stats, Tile

HEADLINES: Final = (
    Tile("gpu_util", "GPU utilisation", RATIO),
    Tile("sm_active", "SM active", RATIO),
    Tile("tensor_active", "Tensor active", RATIO),
    Tile("fb_used", "Memory used", RATIO),
    Tile("power_watts", "Power of a GPU", "W"),
    Tile("gpu_hours", "GPU hours"),
    Tile("idle_gpu_hours", "Idle GPU hours"),
)
LINES: Final = (
    Lines("/api/v1/series?by=fleet&topic=gpu-samples&metric=gpu_util", name="fleet"),
    Lines("/api/v1/series?by=host&topic=gpu-samples&metric=gpu_util&top=20"),
)
NO_ROOM: Final = (
    "gpus",
    "gpus_gone",
    "cpu_util",
    "mem_available_bytes",
    "last_seen_at",
    "hosts",
    "duration_s",
    "started_at",
)
ROWS: Final = 10


def show() -> None:
    """The whole fleet over the chosen window."""
    with frame("overview", "Overview"):
        Stats("/api/v1/fleet/statistics", "The fleet over the window", HEADLINES)
        States("/api/v1/fleet/states", "GPUs now")
        Alarms()
        Series("By host", LINES, follows=(*WINDOW, "metric"), link="host")
        Heatmap("/api/v1/heatmap", "By GPU")
        host.hosts(few(HOSTS, *NO_ROOM), ROWS).classes("wm-half")
        job.jobs(few(JOBS, *NO_ROOM), ROWS, sort="-gpu_hours").classes("wm-half")
