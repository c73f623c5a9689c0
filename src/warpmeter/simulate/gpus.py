"""The GPUs: from what their jobs do to the numbers that NVML would give.

Shapes (plateaus, checkpoints, evaluation, ramps, power from pipes, temperature from power, clocks from power) follow
what DCGM shows on H100 clusters; the noise is autocorrelated over about 45 s.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from warpmeter.schemas.metrics import of_topic
from warpmeter.simulate.encode import ABSENT, Numbers
from warpmeter.simulate.faults import Faults
from warpmeter.simulate.fleet import Flags, Fleet, Floats, Slot
from warpmeter.simulate.jobs import Profile

COLUMNS: Final = tuple(metric.column for metric in of_topic("gpu-samples") if metric.rolled_up)

MEMORY_MIB: Final = 81_559  # an 80 GB H100, as NVML counts it
RESERVED_MIB: Final = 527
POWER_LIMIT_W: Final = 700.0
SM_CLOCK_MHZ: Final = 1980
IDLE_CLOCK_MHZ: Final = 345
MEM_CLOCK_MHZ: Final = 2619
HOT_CLOCK_MHZ: Final = 810
IDLE_REASON: Final = 0x1  # nvmlClocksEventReasons bits
POWER_CAP_REASON: Final = 0x4
HOT_REASONS: Final = 0x20 | 0x40
MEMORY_S: Final = 45.0  # how long the noise remembers
COOLING_S: Final = 80.0


class Load:
    """What the jobs of all slots do at an instant: `level` of their usual work, and what else holds."""

    def __init__(self, fleet: Fleet, slots: Sequence[Slot]) -> None:
        self._rng = fleet.random(4)
        self._interval_s = fleet.interval_s
        self._phase = self._rng.uniform(0, 2 * np.pi, len(slots))
        self._on: Flags = self._rng.random(len(slots)) < 0.3
        self.level: Floats = np.zeros(len(slots))
        self.evaluating: Flags = np.zeros(len(slots), bool)
        self.saving: Flags = np.zeros(len(slots), bool)
        self.hung: Flags = np.zeros(len(slots), bool)
        self.ramp: Floats = np.zeros(len(slots))

    def step(self, now: float, profile: Profile[Floats], started_at: Floats) -> None:
        """Move on to `now`."""
        since = now - started_at
        self._burst(profile)
        self.saving = since % profile.checkpoint_every_s >= profile.checkpoint_every_s - profile.checkpoint_s
        self.evaluating = since % profile.evaluate_every_s >= profile.evaluate_every_s - profile.evaluate_s
        self.hung = since >= profile.hang_after_s
        self.ramp = np.clip(since / np.minimum(profile.startup_s, 120.0), 0.0, 1.0)
        wave = 1 - profile.wave * (0.5 + 0.5 * np.sin(2 * np.pi * now / profile.wave_s + self._phase))
        fed = 1 - profile.starve * (0.7 + 0.3 * np.sin(since / 40 + self._phase))
        level = wave * fed * np.where(self.saving, 0.02, 1.0) * self._on
        self.level = np.where(self.hung, 0.0, level * (since >= profile.startup_s))

    def _burst(self, profile: Profile[Floats]) -> None:
        chance = self._rng.random(len(self._on)) * np.where(self._on, profile.burst_on_s, profile.burst_off_s)
        self._on ^= chance < self._interval_s
        self._on |= profile.burst_off_s == 0


class Gpus:
    """State of all GPUs of the fleet."""

    def __init__(self, fleet: Fleet, slots: Sequence[Slot]) -> None:
        self._fleet = fleet
        self._rng = rng = fleet.random(5)
        self._slot_of = np.repeat(np.arange(len(slots)), [len(slot.gpus) for slot in slots])
        size = fleet.size
        self._noise: Floats = rng.normal(size=(4, size))
        self._offset: Floats = rng.normal(0, 0.012, size)
        self._idle_watts: Floats = rng.normal(72, 4, size)
        self._inlet: Floats = 29 + rng.normal(0, 1.5, size)
        self._temperature: Floats = self._inlet + 10
        self._energy: Floats = rng.uniform(1e7, 2e9, size)
        self._replays = np.where(rng.random(size) < 0.01, rng.integers(1, 400, size), 0)
        self._idle_mib = rng.choice([0, 4, 4, 560], size)
        self.watts: Floats = self._idle_watts

    def step(self, load: Load, profile: Profile[Floats], faults: Faults) -> dict[str, Numbers]:
        """The next tick: every column of `gpu-samples` that is rolled up, one number a GPU."""
        self._move_noise()
        shares = self._shares(load, profile, faults)
        self._heat(shares, faults)
        return self._utilisation(shares) | self._state(load, profile, faults) | self._traffic(load, profile)

    def _move_noise(self) -> None:
        keep = float(np.exp(-self._fleet.interval_s / MEMORY_S))
        self._noise *= keep
        self._noise += (1 - keep * keep) ** 0.5 * self._rng.standard_normal(self._noise.shape)

    def _shares(self, load: Load, profile: Profile[Floats], faults: Faults) -> dict[str, Floats]:
        s, (a, b, c, _) = self._slot_of, self._noise
        level, sd, hung = load.level[s], profile.noise[s], load.hung[s]
        level = level * (1 + self._offset + sd * a)
        tensor_level = level * np.where(load.evaluating, 0.45, 1.0)[s] * np.where(faults.hot, 0.5, 1.0)
        shares = {
            "sm": np.where(hung, 0.998, profile.sm[s] * level),
            "tensor": profile.sm[s] * profile.tensor[s] * tensor_level * (1 + sd * b),
            "dram": np.where(hung, 0.001, profile.dram[s] * level * (1 + sd * c)),
            "fp32": profile.fp32[s] * level * (1 + 2 * sd * b),
            "fp16": 0.2 * profile.fp32[s] * level,
            "busy": np.where(hung, 1.0, 1.8 * level),
        }
        shares = {name: np.clip(share, 0.0, 1.0) for name, share in shares.items()}
        return shares | {"occupancy": np.where(hung, 0.03, shares["sm"] * profile.occupancy[s])}

    def _heat(self, shares: dict[str, Floats], faults: Faults) -> None:
        pipes = 0.75 * shares["tensor"] + 0.3 * shares["dram"] + 0.3 * shares["sm"]
        watts = self._idle_watts + 640 * pipes * (1 + 0.015 * self._noise[3])
        self.watts = np.minimum(watts, POWER_LIMIT_W + self._noise[3])
        self._energy[faults.rebooted] = 0
        self._energy += self.watts * self._fleet.interval_s
        target = np.where(faults.hot, 88.0, self._inlet + 0.055 * self.watts)
        self._temperature += (1 - np.exp(-self._fleet.interval_s / COOLING_S)) * (target - self._temperature)

    def _utilisation(self, shares: dict[str, Floats]) -> dict[str, Numbers]:
        none = np.zeros(self._fleet.size, np.int64)
        return {
            "gpu_util_permille": 10 * _whole(100 * shares["busy"]),  # NVML gives whole per cent
            "mem_copy_util_permille": 10 * _whole(80 * shares["dram"]),
            "sm_active_permille": _whole(1000 * shares["sm"]),
            "sm_occupancy_permille": _whole(1000 * shares["occupancy"]),
            "tensor_active_permille": _whole(1000 * shares["tensor"]),
            "dram_active_permille": _whole(1000 * shares["dram"]),
            "fp16_active_permille": _whole(1000 * shares["fp16"]),
            "fp32_active_permille": _whole(1000 * shares["fp32"]),
            "graphics_active_permille": _whole(1000 * shares["busy"]),
            "fp64_active_permille": none,
            "encoder_util_permille": none,
            "decoder_util_permille": none,
        }

    def _state(self, load: Load, profile: Profile[Floats], faults: Faults) -> dict[str, Numbers]:
        s, size = self._slot_of, self._fleet.size
        held = profile.memory[s] > 0
        used = profile.memory[s] * (0.3 + 0.7 * load.ramp[s]) * (1 + self._offset) * (MEMORY_MIB - RESERVED_MIB)
        clock = SM_CLOCK_MHZ - 15 * _whole(np.clip((self.watts - 560) / 18, 0, 20))
        return {
            "fb_used_mebibytes": np.where(held, _whole(used) & ~1, self._idle_mib),
            "fb_total_mebibytes": np.full(size, MEMORY_MIB),
            "fb_reserved_mebibytes": np.full(size, RESERVED_MIB),
            "power_deciwatts": np.where(faults.unread, ABSENT, _whole(10 * self.watts)),
            "power_limit_deciwatts": np.full(size, round(10 * POWER_LIMIT_W)),
            "energy_joules": self._energy.astype(np.int64),
            "temperature_celsius": _whole(self._temperature),
            "mem_temperature_celsius": _whole(self._temperature * 1.08 + 4),
            "fan_permille": np.full(size, ABSENT),  # SXM boards have none
            "sm_clock_megahertz": np.where(faults.hot, HOT_CLOCK_MHZ, np.where(held, clock, IDLE_CLOCK_MHZ)),
            "mem_clock_megahertz": np.full(size, MEM_CLOCK_MHZ),
            "throttle_reasons": np.where(faults.hot, HOT_REASONS, 0)
            | np.where(held, 0, IDLE_REASON)
            | np.where(self.watts > POWER_LIMIT_W - 5, POWER_CAP_REASON, 0),
            "performance_state": np.zeros(size, np.int64),
            "ecc_corrected_errors": faults.corrected,
            "ecc_uncorrected_errors": faults.uncorrected,
            "remapped_rows_corrected": np.zeros(size, np.int64),
            "remapped_rows_uncorrected": faults.uncorrected,
            "processes": held.astype(np.int64),
        }

    def _traffic(self, load: Load, profile: Profile[Floats]) -> dict[str, Numbers]:
        s, size = self._slot_of, self._fleet.size
        nvlink = profile.nvlink[s] * load.level[s] * (1 + 0.08 * self._noise[2])
        pcie = profile.pcie[s] * np.maximum(load.level[s], 0.1) * (1 + 0.25 * self._noise[3])
        return {
            "nvlink_tx_megabytes_per_s": _megabytes(nvlink),
            "nvlink_rx_megabytes_per_s": _megabytes(nvlink * (1 + 0.01 * self._noise[1])),
            "pcie_tx_megabytes_per_s": _megabytes(0.6 * pcie),
            "pcie_rx_megabytes_per_s": _megabytes(pcie),
            "pcie_link_generation": np.full(size, 5),
            "pcie_link_width": np.full(size, 16),
            "pcie_replays": self._replays,
            "nvlink_crc_errors": np.zeros(size, np.int64),
        }


def _whole(values: Floats) -> Numbers:
    return np.rint(np.maximum(values, 0)).astype(np.int64)


def _megabytes(bytes_per_s: Floats) -> Numbers:
    return _whole(bytes_per_s / 1e6)
