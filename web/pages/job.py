"""Jobs: the list of them, and one: how well it uses its GPUs, and which of its ranks is not like the others."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, urlencode

from fastapi.responses import RedirectResponse
from nicegui import ui

from warpmeter.web.pages.columns import JOB_FACTS, JOBS, RATIO
from warpmeter.web.pages.frame import frame, section
from warpmeter.web.panels.alerts import Alerts
from warpmeter.web.panels.captures import Captures
from warpmeter.web.panels.facts import Facts
from warpmeter.web.panels.flame import Flame
from warpmeter.web.panels.heatmap import Heatmap
from warpmeter.web.panels.launch import Launch
from warpmeter.web.panels.panel import WINDOW
from warpmeter.web.panels.ranks import Ranks
from warpmeter.web.panels.series import Parts, Questions, Series, shared
from warpmeter.web.panels.stats import Stats, Tile
from warpmeter.web.panels.table import Choice, Column, Listing, Table

API: Final = "/api/v1"
EFFICIENCY: Final = (
    Tile("gpu_util", "GPU utilisation", RATIO),
    Tile("sm_active", "SM active", RATIO),
    Tile("tensor_active", "Tensor active", RATIO),
    Tile("dram_active", "Memory active", RATIO),
    Tile("power_watts", "Power of a GPU", "W"),
    Tile("fb_used_bytes_max", "Peak memory", "B"),
    Tile("gpu_hours", "GPU hours"),
    Tile("wasted_gpu_hours", "Wasted GPU hours", note="wasted", note_unit=RATIO),
)
QUESTIONS: Final[Questions] = {
    "gpus": {"by": "gpu", "top": "64"},
    "hosts": {"by": "host", "topic": "host-samples", "top": "64"},
    "devices": {"by": "host", "topic": "device-samples", "top": "64"},
}
PANELS: Final[Mapping[str, Parts]] = {
    "GPU utilisation": {"": ("gpus", "gpu_util")},
    "SM active": {"": ("gpus", "sm_active")},
    "Tensor cores active": {"": ("gpus", "tensor_active")},
    "Memory used": {"": ("gpus", "fb_used_bytes")},
    "Power": {"": ("gpus", "power_watts")},
    "NVLink sent": {"": ("gpus", "nvlink_tx_bytes_per_s")},
    "CPU of its hosts": {"": ("hosts", "cpu_util")},
    "Network received by its hosts": {"": ("devices", "rx_bytes_per_s")},
    "Storage read by its hosts": {"": ("devices", "read_bytes_per_s")},
}


def listing() -> None:
    """Every job that ran in the window."""
    with frame("jobs", "Jobs"):
        jobs(JOBS, limit=50, sort="-started_at")


def jobs(columns: Sequence[Column], limit: int, sort: str) -> Table:
    """The table of jobs."""
    states = Choice("state", "State", ("running", "ended", "lost"))
    empty = "No job ran in this window. A job is a Python process on GPUs, or what Slurm or Kubernetes started."
    search = "id, name or user"
    listing = Listing(f"{API}/jobs", "Jobs", columns, "jobs", "job_id", search, (states,), limit, sort, empty)
    return Table(listing, (*WINDOW, "gpus"))


def show(id: str = "") -> RedirectResponse | None:
    """One job; its window is its run time until another is chosen. Without an id: the list."""
    if not id:
        return RedirectResponse("/jobs")
    ui.page_title(f"{id} · warpmeter")
    of_job = f"{API}/jobs/{quote(id, safe='')}"
    with frame("jobs", f"Job {id}", run=of_job):
        Facts(of_job, "Job", JOB_FACTS).classes("wm-gpus-now")  # where it has none, what is of GPUs is not shown
        Alerts(job=id, limit=5)
        Stats(f"{of_job}/efficiency", "How well it uses its GPUs", EFFICIENCY, follows=()).classes("wm-of-gpus")
        Ranks(f"{of_job}/ranks", "Ranks side by side").classes("wm-of-gpus")
        Launch(id)
        Captures(id, details=False, limit=10)
        section("Over time")
        for title, lines in shared(PANELS, QUESTIONS, job=id).items():
            of_gpus = any(question == "gpus" for question, _ in PANELS[title].values())
            Series(title, lines, link="host").classes("wm-third wm-of-gpus" if of_gpus else "wm-third")
        Heatmap(f"{API}/heatmap?{urlencode({'job': id})}", "By GPU").classes("wm-of-gpus")
        section("Where the time went")
        Flame({"job": id})
    return None
