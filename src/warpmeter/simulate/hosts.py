"""The hosts around the GPUs: CPU, memory, pressure, network and disks, as far as their jobs need them."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from warpmeter.schemas.metrics import of_topic
from warpmeter.simulate.encode import ABSENT, Numbers
from warpmeter.simulate.fleet import Fleet, Floats, Slot
from warpmeter.simulate.gpus import Load
from warpmeter.simulate.jobs import Profile

COLUMNS: Final = tuple(metric.column for metric in of_topic("host-samples") if metric.rolled_up)
DEVICE_COLUMNS: Final = (
    "rx_kilobytes_per_s", "tx_kilobytes_per_s", "rx_packets_per_s", "tx_packets_per_s", "rx_errors_milli_per_s",
    "tx_errors_milli_per_s", "rx_drops_milli_per_s", "tx_drops_milli_per_s", "link_megabits_per_s", "link_up",
    "read_kilobytes_per_s", "write_kilobytes_per_s", "reads_milli_per_s", "writes_milli_per_s", "busy_permille",
    "queue_centi", "read_latency_microseconds", "write_latency_microseconds",
)  # fmt: skip
DEVICES: Final = (("nic", "eth0"), ("nic", "eth1"), ("disk", "nvme0n1"))  # storage, between hosts, scratch

CORES: Final = 192
MEMORY_MIB: Final = 2_063_850
SYSTEM_MIB: Final = 14_000
LINK_MEGABITS: Final = 200_000
DISK_BYTES_PER_S: Final = 6e9
CHECKPOINT_BYTES_PER_S: Final = 4e8  # written by each GPU of a job that saves
REQUEST_BYTES: Final = 131_072


class Hosts:
    """State of all hosts; `cores_used` and `rss_mebibytes` are of the jobs, per GPU of the fleet."""

    def __init__(self, fleet: Fleet, slots: Sequence[Slot]) -> None:
        self._fleet = fleet
        self._rng = fleet.random(7)
        self._slot_of = np.repeat(np.arange(len(slots)), [len(slot.gpus) for slot in slots])
        self._wide = np.array([len(slot.gpus) > fleet.gpus for slot in slots])
        self._uptime: Floats = self._rng.uniform(86_400, 90 * 86_400, fleet.hosts)
        self._load: Floats | None = None
        self.cores_used: Floats = np.zeros(fleet.size)
        self.rss_mebibytes: Floats = np.zeros(fleet.size)
        self.read: Floats = np.zeros(fleet.size)
        self.written: Floats = np.zeros(fleet.size)
        self._network: Floats = np.zeros(fleet.size)

    def step(self, load: Load, profile: Profile[Floats], rebooted: Numbers) -> dict[str, Numbers]:
        """The next tick: every column of `host-samples` that is rolled up, one number a host."""
        s = self._slot_of
        self.cores_used = profile.cores[s] * (0.2 + 0.8 * load.level[s])
        self.rss_mebibytes = profile.rss_mebibytes[s] * (0.4 + 0.6 * load.ramp[s])
        self.read = profile.load[s] * np.where(load.level[s] > 0, load.level[s] + 0.2, 0.0)
        self.written = np.where(load.saving[s] & (load.ramp[s] >= 1), CHECKPOINT_BYTES_PER_S, 0.0)
        self._network = profile.network[s] * load.level[s] * self._wide[s]
        self._uptime += self._fleet.interval_s
        self._uptime[rebooted] = 0
        busy = np.minimum((self._sum(self.cores_used) + self._jitter(2.0, 0.4)) / CORES, 1.0)
        return self._cpu(busy) | self._memory() | self._pressure(busy)

    def devices(self) -> dict[str, Numbers]:
        """The same tick: `DEVICE_COLUMNS` of `device-samples`, one number a device, `DEVICES` of each host in turn."""
        hosts = self._fleet.hosts
        table = {column: np.full((hosts, len(DEVICES)), ABSENT) for column in DEVICE_COLUMNS}
        received, sent = self._sum(self.read), self._sum(self.written)
        between = self._sum(self._network)
        self._nic(table, 0, received + 2e4, sent + 2e4)
        self._nic(table, 1, between + 1e3, between + 1e3)
        self._disk(table, 2, 0.1 * received, 0.3 * sent + self._jitter(2e5, 0.5))
        return {column: numbers.reshape(-1) for column, numbers in table.items()}

    def _sum(self, per_gpu: Floats) -> Floats:
        return np.asarray(per_gpu.reshape(self._fleet.hosts, self._fleet.gpus).sum(axis=1))

    def _jitter(self, mean: float, share: float) -> Floats:
        return mean * (1 + share * (self._rng.random(self._fleet.hosts) - 0.5))

    def _cpu(self, busy: Floats) -> dict[str, Numbers]:
        keep = np.exp(-self._fleet.interval_s / np.array([[60.0], [300.0], [900.0]]))
        before = np.tile(busy * CORES, (3, 1)) if self._load is None else self._load
        self._load = load = keep * before + (1 - keep) * busy * CORES
        waiting = np.minimum(self._sum(self.written) / 1e11, 0.05)
        hosts, cores = self._fleet.hosts, busy * CORES
        none = np.zeros(hosts, np.int64)
        return {
            "uptime_s": _whole(self._uptime),
            "cores": np.full(hosts, CORES),
            "cpu_util_permille": _permille(busy),
            "cpu_user_permille": _permille(0.86 * busy),
            "cpu_nice_permille": none,
            "cpu_system_permille": _permille(0.13 * busy),
            "cpu_iowait_permille": _permille(waiting),
            "cpu_irq_permille": none,
            "cpu_softirq_permille": _permille(0.01 * busy),
            "cpu_steal_permille": none,
            "cpu_idle_permille": _permille(1 - busy - waiting),
            "core_busy_min_permille": none,
            "core_busy_p50_permille": _permille(0.2 * busy),
            "core_busy_p90_permille": _permille(2.5 * busy),
            "core_busy_max_permille": _permille(np.where(cores > 3, 0.98, 0.3)),
            "load1_centi": _whole(100 * load[0]),
            "load5_centi": _whole(100 * load[1]),
            "load15_centi": _whole(100 * load[2]),
            "procs_running": _whole(cores + 1),
            "procs_blocked": _whole(40 * waiting),
            "processes": _whole(1800 + 14 * cores),
            "context_switches_per_s": _whole(9_000 + 2_600 * cores),
            "interrupts_per_s": _whole(7_000 + 1_400 * cores),
            "forks_per_s": _whole(self._jitter(12, 1.0)),
        }

    def _memory(self) -> dict[str, Numbers]:
        used = np.minimum(SYSTEM_MIB + self._sum(self.rss_mebibytes), 0.95 * MEMORY_MIB)
        cached = 0.6 * (MEMORY_MIB - used)
        none = np.zeros(self._fleet.hosts, np.int64)
        return {
            "mem_total_mebibytes": np.full(self._fleet.hosts, MEMORY_MIB),
            "mem_available_mebibytes": _whole(MEMORY_MIB - used),
            "mem_free_mebibytes": _whole(MEMORY_MIB - used - cached),
            "mem_cached_mebibytes": _whole(cached),
            "mem_buffers_mebibytes": np.full(self._fleet.hosts, 2_100),
            "mem_dirty_mebibytes": _whole(4 + self._sum(self.written) / 1e6),
            "mem_shared_mebibytes": _whole(0.2 * used),
            "swap_total_mebibytes": none,
            "swap_used_mebibytes": none,
            "swap_in_kilobytes_per_s": none,
            "swap_out_kilobytes_per_s": none,
            "major_faults_per_s": none,
            "oom_kills": none,
            "tcp_retransmits_milli_per_s": none,
        }

    def _pressure(self, busy: Floats) -> dict[str, Numbers]:
        waiting = np.minimum(self._sum(self.written) / 8e9, 0.6)
        none = np.zeros(self._fleet.hosts, np.int64)
        return {
            "psi_cpu_some_permille": _permille(0.2 * busy * busy),
            "psi_cpu_full_permille": none,
            "psi_memory_some_permille": none,
            "psi_memory_full_permille": none,
            "psi_io_some_permille": _permille(waiting),
            "psi_io_full_permille": _permille(0.6 * waiting),
        }

    def _nic(self, table: dict[str, Numbers], at: int, received: Floats, sent: Floats) -> None:
        most = LINK_MEGABITS * 1e6 / 8
        for way, rate in (("rx", np.minimum(received, most)), ("tx", np.minimum(sent, most))):
            table[f"{way}_kilobytes_per_s"][:, at] = _whole(rate / 1e3)
            table[f"{way}_packets_per_s"][:, at] = _whole(rate / 4_000)
            table[f"{way}_errors_milli_per_s"][:, at] = 0
            table[f"{way}_drops_milli_per_s"][:, at] = 0
        table["link_megabits_per_s"][:, at] = LINK_MEGABITS
        table["link_up"][:, at] = 1

    def _disk(self, table: dict[str, Numbers], at: int, read: Floats, written: Floats) -> None:
        busy = np.minimum((read + written) / DISK_BYTES_PER_S, 1.0)
        table["read_kilobytes_per_s"][:, at] = _whole(read / 1e3)
        table["write_kilobytes_per_s"][:, at] = _whole(written / 1e3)
        table["reads_milli_per_s"][:, at] = _whole(1e3 * read / REQUEST_BYTES)
        table["writes_milli_per_s"][:, at] = _whole(1e3 * written / REQUEST_BYTES)
        table["busy_permille"][:, at] = _permille(busy)
        table["queue_centi"][:, at] = _whole(800 * busy)
        table["read_latency_microseconds"][:, at] = _whole(90 + 900 * busy)
        table["write_latency_microseconds"][:, at] = _whole(25 + 1_500 * busy)


def _whole(values: Floats) -> Numbers:
    return np.rint(np.maximum(values, 0)).astype(np.int64)


def _permille(shares: Floats) -> Numbers:
    return _whole(1000 * np.clip(shares, 0, 1))
