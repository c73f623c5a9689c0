"""Hosts: the list of them, and one: what it does, what runs on it, what happened, and what cannot be read."""

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, urlencode

from nicegui import ui

from warpmeter.web.pages.columns import GPUS as GPUS_NOW
from warpmeter.web.pages.columns import HOST_FACTS, HOSTS
from warpmeter.web.pages.frame import frame, section
from warpmeter.web.panels.band import Band
from warpmeter.web.panels.events import Events
from warpmeter.web.panels.facts import Facts
from warpmeter.web.panels.flame import Flame
from warpmeter.web.panels.panel import WINDOW
from warpmeter.web.panels.series import Series
from warpmeter.web.panels.sources import Sources
from warpmeter.web.panels.table import Choice, Column, Listing, Table

API: Final = "/api/v1"

Parts = Mapping[str, Mapping[str, str]]
"""Lines of a panel: a name ('' where there is but one kind of line) and what is asked of the series."""

SEEDS: Final[Mapping[str, Parts]] = {
    "GPU Utilization": {"": {"metric": "gpu_util", "by": "gpu"}},
    "GPU SM Activity": {"": {"metric": "sm_active", "by": "gpu"}},
    "CPU Utilization": {
        "busy": {"metric": "cpu_util", "by": "host", "topic": "host-samples"},
        "waits for I/O": {"metric": "cpu_iowait", "by": "host", "topic": "host-samples"},
    },
    "Memory Bandwidth": {
        "read": {"metric": "mem_read_bytes_per_s", "by": "host", "kind": "socket"},
        "written": {"metric": "mem_write_bytes_per_s", "by": "host", "kind": "socket"},
    },
    "L2 Cache Hit Ratio": {"": {"metric": "l2_hit_ratio", "by": "device", "kind": "socket"}},
    "L3 Cache Hit Ratio": {"": {"metric": "l3_hit_ratio", "by": "device", "kind": "socket"}},
    "Network Bandwidth": {
        "received": {"metric": "rx_bytes_per_s", "by": "host"},
        "sent": {"metric": "tx_bytes_per_s", "by": "host"},
    },
    "Storage Bandwidth": {
        "read": {"metric": "read_bytes_per_s", "by": "host"},
        "written": {"metric": "write_bytes_per_s", "by": "host"},
    },
}
"""The eight panels that a host has had since AIBooster: docs/metrics.md says of what each is made."""

GPUS: Final[Mapping[str, Parts]] = {
    "Tensor cores active": {"": {"metric": "tensor_active", "by": "gpu"}},
    "Memory used": {"": {"metric": "fb_used_bytes", "by": "gpu"}},
    "Memory active": {"": {"metric": "dram_active", "by": "gpu"}},
    "Power": {"": {"metric": "power_watts", "by": "gpu"}},
    "Temperature": {"": {"metric": "temperature_celsius", "by": "gpu"}},
    "Temperature of the memory": {"": {"metric": "mem_temperature_celsius", "by": "gpu"}},
    "SM clock": {"": {"metric": "sm_clock_hertz", "by": "gpu"}},
    "Memory clock": {"": {"metric": "mem_clock_hertz", "by": "gpu"}},
    "PCIe received": {"": {"metric": "pcie_rx_bytes_per_s", "by": "gpu"}},
    "PCIe sent": {"": {"metric": "pcie_tx_bytes_per_s", "by": "gpu"}},
    "NVLink received": {"": {"metric": "nvlink_rx_bytes_per_s", "by": "gpu"}},
    "NVLink sent": {"": {"metric": "nvlink_tx_bytes_per_s", "by": "gpu"}},
}
HOST: Final[Mapping[str, Parts]] = {
    "Memory": {
        "available": {"metric": "mem_available_bytes", "by": "host"},
        "cached": {"metric": "mem_cached_bytes", "by": "host"},
        "swap used": {"metric": "swap_used_bytes", "by": "host"},
    },
    "Pressure: some task waits for": {
        "CPU": {"metric": "psi_cpu_some", "by": "host"},
        "memory": {"metric": "psi_memory_some", "by": "host"},
        "I/O": {"metric": "psi_io_some", "by": "host"},
    },
    "Load": {
        "1 minute": {"metric": "load1", "by": "host"},
        "15 minutes": {"metric": "load15", "by": "host"},
    },
    "CPU time": {
        "user": {"metric": "cpu_user", "by": "host", "topic": "host-samples"},
        "system": {"metric": "cpu_system", "by": "host", "topic": "host-samples"},
    },
    "Disks read": {"": {"metric": "read_bytes_per_s", "by": "device"}},
    "Disks written": {"": {"metric": "write_bytes_per_s", "by": "device"}},
    "Network received by device": {"": {"metric": "rx_bytes_per_s", "by": "device"}},
    "Network sent by device": {"": {"metric": "tx_bytes_per_s", "by": "device"}},
}

HINTS: Final = {
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
        Band(f"{of_host}/jobs")
        _panels(SEEDS, host, of_host)
        section("GPUs")
        of_gpus = f"{API}/gpus?{urlencode({'host': host})}"
        Table(Listing(of_gpus, "GPUs now", GPUS_NOW, "gpu", "uuid", limit=16, sort="gpu"))
        Band(f"{of_host}/events", "Throttling", of="throttle")
        _panels(GPUS, host, of_host)
        section("System")
        _panels(HOST, host, of_host)
        section("Where the time went")
        Flame({"host": host}, why=f"{of_host}/sources")
        section("What happened, and what is not known")
        Events(f"{of_host}/events").classes("wm-half")
        Sources(f"{of_host}/sources").classes("wm-half")


def _panels(panels: Mapping[str, Parts], host: str, of_host: str) -> None:
    for title, parts in panels.items():
        sources = {name: f"{API}/series?{urlencode({**part, 'host': host})}" for name, part in parts.items()}
        Series(title, sources, why=f"{of_host}/sources", hint=HINTS.get(title, "")).classes("wm-quarter")
