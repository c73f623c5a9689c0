"""Hosts: the list of them, and one: what it does, what runs on it, what happened, and what cannot be read."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import quote, urlencode

from nicegui import ui

from warpmeter.web.pages.columns import GPUS as GPUS_NOW
from warpmeter.web.pages.columns import HOST_FACTS, HOSTS
from warpmeter.web.pages.frame import frame, section
from warpmeter.web.panels.alerts import Alerts
from warpmeter.web.panels.band import Band
from warpmeter.web.panels.events import Events
from warpmeter.web.panels.facts import Facts
from warpmeter.web.panels.flame import Flame
from warpmeter.web.panels.panel import WINDOW
from warpmeter.web.panels.series import Lines, Parts, Questions, Series, shared
from warpmeter.web.panels.sources import Sources
from warpmeter.web.panels.table import Choice, Column, Listing, Table

API: Final = "/api/v1"

QUESTIONS: Final[Questions] = {
    "gpus": {"by": "gpu"},
    "host": {"by": "host", "topic": "host-samples"},
    "all devices": {"by": "host", "topic": "device-samples"},
    "devices": {"by": "device"},
    "all sockets": {"by": "host", "kind": "socket"},
    "sockets": {"by": "device", "kind": "socket"},
}
"""Whose metrics: all of what one question has on the page are one request."""
SEEDS: Final[Mapping[str, Parts]] = {
    "GPU Utilization": {"": ("gpus", "gpu_util")},
    "GPU SM Activity": {"": ("gpus", "sm_active")},
    "CPU Utilization": {"busy": ("host", "cpu_util"), "waits for I/O": ("host", "cpu_iowait")},
    "Memory Bandwidth": {
        "read": ("all sockets", "mem_read_bytes_per_s"),
        "written": ("all sockets", "mem_write_bytes_per_s"),
    },
    "L2 Cache Hit Ratio": {"": ("sockets", "l2_hit_ratio")},
    "L3 Cache Hit Ratio": {"": ("sockets", "l3_hit_ratio")},
    "Network Bandwidth": {"received": ("all devices", "rx_bytes_per_s"), "sent": ("all devices", "tx_bytes_per_s")},
    "Storage Bandwidth": {"read": ("all devices", "read_bytes_per_s"), "written": ("all devices", "write_bytes_per_s")},
}
"""The eight panels that a host has had since AIBooster: docs/metrics.md says of what each is made."""

GPUS: Final[Mapping[str, Parts]] = {
    "Tensor cores active": {"": ("gpus", "tensor_active")},
    "Memory used": {"": ("gpus", "fb_used_bytes")},
    "Memory active": {"": ("gpus", "dram_active")},
    "Power": {"": ("gpus", "power_watts")},
    "Temperature": {"": ("gpus", "temperature_celsius")},
    "Temperature of the memory": {"": ("gpus", "mem_temperature_celsius")},
    "SM clock": {"": ("gpus", "sm_clock_hertz")},
    "Memory clock": {"": ("gpus", "mem_clock_hertz")},
    "PCIe received": {"": ("gpus", "pcie_rx_bytes_per_s")},
    "PCIe sent": {"": ("gpus", "pcie_tx_bytes_per_s")},
    "NVLink received": {"": ("gpus", "nvlink_rx_bytes_per_s")},
    "NVLink sent": {"": ("gpus", "nvlink_tx_bytes_per_s")},
}
HOST: Final[Mapping[str, Parts]] = {
    "Memory": {
        "available": ("host", "mem_available_bytes"),
        "cached": ("host", "mem_cached_bytes"),
        "swap used": ("host", "swap_used_bytes"),
    },
    "Pressure: some task waits for": {
        "CPU": ("host", "psi_cpu_some"),
        "memory": ("host", "psi_memory_some"),
        "I/O": ("host", "psi_io_some"),
    },
    "Load": {"1 minute": ("host", "load1"), "15 minutes": ("host", "load15")},
    "CPU time": {"user": ("host", "cpu_user"), "system": ("host", "cpu_system")},
    "Disks read": {"": ("devices", "read_bytes_per_s")},
    "Disks written": {"": ("devices", "write_bytes_per_s")},
    "Network received by device": {"": ("devices", "rx_bytes_per_s")},
    "Network sent by device": {"": ("devices", "tx_bytes_per_s")},
}

NO_GPU: Final = "This host has no GPU that its agent could read: the sources of the agent, below, say why."
HINTS: Final = {
    "GPU Utilization": "It needs a GPU that the agent can read.",
    "GPU SM Activity": "It needs a GPU that the agent can read.",
    "Memory Bandwidth": "It comes from uncore counters (perf) or an Intel PCM exporter on the host.",
    "L2 Cache Hit Ratio": "It comes from CPU counters (perf) or an Intel PCM exporter on the host.",
    "L3 Cache Hit Ratio": "It comes from CPU counters (perf) or an Intel PCM exporter on the host.",
}
"""What a host needs for a panel, said where it has nothing to show."""


def listing() -> None:
    """Every host that was ever seen."""
    with frame("hosts", "Hosts"):
        hosts(HOSTS, limit=50)


def hosts(columns: Sequence[Column], limit: int) -> Table:
    """The table of hosts."""
    states = Choice("state", "State", ("ok", "failing", "silent"))
    empty = "No agent has reported yet. Start one on a host: `warpmeter agent`."
    listing = Listing(f"{API}/hosts", "Hosts", columns, "hosts", "host", "name", (states,), limit, empty=empty)
    return Table(listing, (*WINDOW, "gpus"))


def show(host: str) -> None:
    """One host over the chosen window."""
    ui.page_title(f"{host} · warpmeter")
    of_host = f"{API}/hosts/{quote(host, safe='')}"
    with frame("hosts", host):
        Facts(of_host, "Host", HOST_FACTS)
        Alerts(host=host, limit=5)
        Band(f"{of_host}/jobs")
        lines = shared({**SEEDS, **GPUS, **HOST}, QUESTIONS, host=host)
        _panels(SEEDS, lines, of_host)
        section("GPUs")
        of_gpus = f"{API}/gpus?{urlencode({'host': host})}"
        now = Listing(of_gpus, "GPUs now", GPUS_NOW, "gpu", "uuid", limit=16, sort="gpu", empty=NO_GPU)
        Table(now).classes("wm-gpus-now")  # where it has nothing, what is of GPUs is not shown
        Band(f"{of_host}/events", "Throttling", of="throttle").classes("wm-of-gpus")
        _panels(GPUS, lines, of_host, "wm-of-gpus")
        section("System")
        _panels(HOST, lines, of_host)
        section("Where the time went")
        Flame({"host": host}, why=f"{of_host}/sources")
        section("What happened, and what is not known")
        Events(f"{of_host}/events").classes("wm-half")
        Sources(f"{of_host}/sources").classes("wm-half")


def _panels(titles: Iterable[str], lines: Mapping[str, Sequence[Lines]], of_host: str, of: str = "") -> None:
    for title in titles:
        Series(title, lines[title], why=f"{of_host}/sources", hint=HINTS.get(title, "")).classes(f"wm-quarter {of}")
