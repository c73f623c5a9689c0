"""Builds and scripts the NVML stand-in (`nvml_stub.c`), which the real nvidia-ml-py then loads.

    with NvmlStub(tmp_path, gpus=8) as stub:
        stub.gpus[2].set(power=sine(400_000, 50_000, period_s=60))
        stub.gpus[3].lost = True
        stub.fail("nvmlDeviceGetPowerUsage", pynvml.NVML_ERROR_UNKNOWN, gpu=4)
        subprocess.run([...], env=stub.environment())      # in another process
        with stub.loaded():                                # or in this one
            pynvml.nvmlInit()

What is set is what the next call sees: the library and this object share one mapped file. Its layout is that of
the C file's first half; the sizes are compared when the library is built.
"""

from __future__ import annotations

import ctypes
import hashlib
import mmap
import os
import subprocess
import tempfile
import time
from _ctypes import dlclose
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pynvml

from tests.nvml.layout import (
    MAGIC,
    MAX_EVENTS,
    NONE,
    SOURCES,
    VALUES,
    RawControl,
    RawGpu,
    RawMig,
    RawValue,
)

ANY: Final = -1
"""Every GPU, where a GPU is asked for."""

MIB: Final = 1 << 20


@dataclass(frozen=True)
class Shape:
    """A value as a function of time, in seconds since the stub was made (or `NvmlStub.time_s`)."""

    kind: int
    a: float
    b: float = 0.0
    c: float = 1.0
    d: float = 0.0


def constant(value: float) -> Shape:
    """Always `value`; a plain number means the same."""
    return Shape(1, value)


def sine(mean: float, amplitude: float, period_s: float, phase: float = 0.0) -> Shape:
    """mean + amplitude * sin(2 pi (t / period_s + phase)), phase in turns."""
    return Shape(2, mean, amplitude, period_s, phase)


def ramp(start: float, per_s: float) -> Shape:
    """A counter: start + per_s * t."""
    return Shape(3, start, per_s)


def square(first: float, second: float, period_s: float) -> Shape:
    """`first` for half of each period, then `second`."""
    return Shape(4, first, second, period_s)


@dataclass(frozen=True)
class Process:
    """A process on a GPU; `used_bytes=None` is what NVML calls not available."""

    pid: int
    used_bytes: int | None = 1024 * MIB
    kind: int = 1
    gpu_instance: int = NONE
    compute_instance: int = NONE
    sm_util: int = 0
    memory_util: int = 0


COMPUTE, GRAPHICS, MPS = 1, 2, 3


def _put(value: RawValue, to: float | Shape) -> None:
    shape = to if isinstance(to, Shape) else constant(to)
    value.error = 0
    value.a, value.b, value.c, value.d = shape.a, shape.b, shape.c, shape.d
    value.shape = shape.kind


class Mig:
    """A MIG instance of a GPU, its own memory and GPM metrics."""

    def __init__(self, raw: RawMig) -> None:
        self._raw = raw

    @property
    def uuid(self) -> str:
        """As `nvmlDeviceGetUUID` gives it."""
        return str(self._raw.uuid.decode())

    def set_memory(self, total: float | Shape, used: float | Shape, reserved: float | Shape = 0) -> None:
        """Bytes of device memory."""
        _put(self._raw.memory_total, total)
        _put(self._raw.memory_used, used)
        _put(self._raw.memory_reserved, reserved)

    def set_gpm(self, metric: int, to: float | Shape) -> None:
        """A GPM metric (NVML_GPM_METRIC_*) of its GPU instance."""
        _put(self._raw.gpm[metric], to)

    def remove(self) -> None:
        """Destroys the instance."""
        self._raw.present = 0


class Gpu:
    """One GPU of the stub: what it is, what its calls give."""

    def __init__(self, raw: RawGpu) -> None:
        self._raw = raw

    @property
    def uuid(self) -> str:
        """As `nvmlDeviceGetUUID` gives it."""
        return str(self._raw.uuid.decode())

    @uuid.setter
    def uuid(self, value: str) -> None:
        self._raw.uuid = value.encode()

    @property
    def name(self) -> str:
        """As `nvmlDeviceGetName` gives it."""
        return str(self._raw.name.decode())

    @name.setter
    def name(self, value: str) -> None:
        self._raw.name = value.encode()

    @property
    def lost(self) -> bool:
        """Fallen off the bus: every call on it gives NVML_ERROR_GPU_IS_LOST."""
        return bool(self._raw.lost)

    @lost.setter
    def lost(self, value: bool) -> None:
        self._raw.lost = value

    @property
    def present(self) -> bool:
        """In the count; a GPU that is not has invalid handles."""
        return bool(self._raw.present)

    @present.setter
    def present(self, value: bool) -> None:
        self._raw.present = value

    def _value(self, name: str) -> RawValue:
        return self._raw.values[VALUES.index(name)]  # type: ignore[no-any-return]

    def set(self, **values: float | Shape) -> None:
        """Sets plain values by their names in `values.def`."""
        for name, to in values.items():
            _put(self._value(name), to)

    def unset(self, *names: str) -> None:
        """Makes values that this GPU does not support."""
        for name in names:
            self._value(name).shape = 0
            self._value(name).error = 0

    def fail(self, name: str, error: int) -> None:
        """Makes one plain value an error, whichever call reads it."""
        self._value(name).error = error

    def reads(self, name: str) -> int:
        """How often a plain value was asked for."""
        return int(self._value(name).reads)

    def set_field(self, field: int, to: float | Shape) -> None:
        """A field value (NVML_FI_*)."""
        _put(self._raw.fields[field], to)

    def fail_field(self, field: int, error: int) -> None:
        """Makes one field an error; 0 mends it."""
        self._raw.fields[field].error = error

    def field_reads(self, field: int) -> int:
        """How often a field was asked for."""
        return int(self._raw.fields[field].reads)

    def set_gpm(self, metric: int, to: float | Shape) -> None:
        """A GPM metric (NVML_GPM_METRIC_*)."""
        _put(self._raw.gpm[metric], to)

    def fail_gpm(self, metric: int, error: int) -> None:
        """Makes one GPM metric an error; 0 mends it."""
        self._raw.gpm[metric].error = error

    def unset_gpm(self, metric: int) -> None:
        """Makes a GPM metric that this GPU does not support."""
        self._raw.gpm[metric].shape = 0

    def gpm_reads(self, metric: int) -> int:
        """How often a GPM metric was asked for."""
        return int(self._raw.gpm[metric].reads)

    def set_processes(self, *processes: Process) -> None:
        """All processes on it, of every kind."""
        for slot in self._raw.processes:
            slot.kind = 0
        for slot, process in zip(self._raw.processes, processes, strict=False):
            slot.pid = process.pid
            slot.used_bytes = 2**64 - 1 if process.used_bytes is None else process.used_bytes
            slot.gpu_instance, slot.compute_instance = process.gpu_instance, process.compute_instance
            slot.sm_util, slot.memory_util, slot.seen_us = process.sm_util, process.memory_util, 1
            slot.kind = process.kind

    def add_mig(self, index: int, gpu_instance: int, compute_instance: int = 0, memory_mib: int = 9856) -> Mig:
        """Makes a MIG instance and turns MIG mode on; `index` as in `nvmlDeviceGetMigDeviceHandleByIndex`."""
        self.set(mig_mode=1)
        raw: RawMig = self._raw.migs[index]
        raw.uuid = f"MIG-{self.uuid[4:-4]}{self.uuid[-2:]}{gpu_instance:x}{compute_instance:x}".encode()
        raw.name = f"{self.name} MIG 1g.10gb".encode()
        raw.gpu_instance, raw.compute_instance = gpu_instance, compute_instance
        raw.multiprocessors, raw.memory_mib, raw.present = 16, memory_mib, 1
        mig = Mig(raw)
        mig.set_memory(memory_mib * MIB, 0)
        return mig


def build(without: tuple[str, ...] = ()) -> Path:
    """The library, compiled if this source was not yet; `without` leaves functions out, as an old driver does."""
    content = b"".join(source.read_bytes() for source in SOURCES) + repr(without).encode()
    folder = Path(tempfile.gettempdir()) / f"warpmeter-nvml-stub-{os.getuid()}"
    library = folder / hashlib.sha256(content).hexdigest()[:16] / "libnvidia-ml.so.1"
    if not library.exists():
        _compile(library, without)
    return library


def _compile(library: Path, without: tuple[str, ...]) -> None:
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        symbols, made = Path(scratch) / "symbols.map", Path(scratch) / library.name
        hidden = "".join(f"{name}; " for name in without)
        symbols.write_text(f"{{ global: nvml*; {'local: ' if hidden else ''}{hidden}}};")
        options = ["-shared", "-fPIC", "-O2", f"-Wl,-soname,{library.name},--version-script,{symbols}"]
        done = subprocess.run(
            ["cc", *options, "-o", str(made), str(SOURCES[0]), "-lm"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"cc could not build {SOURCES[0]}: {done.stderr}")
        made.replace(library)  # atomic: parallel test workers build at once


class NvmlStub:
    """A host's GPUs under script. Closes its control file when left; processes that mapped it keep it."""

    def __init__(self, folder: Path, gpus: int = 8, without: tuple[str, ...] = ()) -> None:
        self.library = build(without)
        self.control = folder / "nvml-control"
        self.control.write_bytes(b"")
        os.truncate(self.control, ctypes.sizeof(RawControl))
        with self.control.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self._raw = RawControl.from_buffer(self._memory)
        self._raw.generation = 1
        self._raw.epoch_s, self._raw.manual_s = time.monotonic(), -1.0
        self._raw.driver_version, self._raw.nvml_version = b"580.95.05", b"13.580.95.05"
        self._raw.magic = MAGIC
        self.gpus = [Gpu(raw) for raw in self._raw.gpus]
        for index in range(gpus):
            hopper(self.gpus[index], self._raw.gpus[index], index)

    def __enter__(self) -> NvmlStub:
        return self

    def __exit__(self, *_: object) -> None:
        """The mapping goes with the last object that looks into it."""

    def environment(self, base: Mapping[str, str] | None = None) -> dict[str, str]:
        """Variables for a child process that is to find this library and this control file."""
        environment = dict(os.environ if base is None else base)
        path = environment.get("LD_LIBRARY_PATH", "")
        environment["LD_LIBRARY_PATH"] = f"{self.library.parent}:{path}".rstrip(":")
        environment["NVML_STUB_CONTROL"] = str(self.control)
        return environment

    @contextmanager
    def loaded(self) -> Iterator[None]:
        """This library as libnvidia-ml.so.1 of this process: loaded first, it is found by its soname.

        Afterwards nvidia-ml-py is as if never used, and the library is out of the process.
        """
        _forget_library()
        library = ctypes.CDLL(str(self.library))
        if library.nvml_stub_control_size() != ctypes.sizeof(RawControl):
            raise RuntimeError("nvml_stub.c and stub.py disagree on the control file's layout")
        if library.nvml_stub_attach(str(self.control).encode()):
            raise RuntimeError(f"the stub cannot map {self.control}")
        try:
            yield
        finally:
            _forget_library()
            dlclose(library._handle)

    @property
    def time_s(self) -> float | None:
        """The values' time, when it is not the clock's."""
        return None if self._raw.manual_s < 0 else float(self._raw.manual_s)

    @time_s.setter
    def time_s(self, value: float | None) -> None:
        self._raw.manual_s = -1.0 if value is None else value

    def move(self) -> None:
        """Lets the values that move on a GPU at work move: for benchmarks, where constants would flatter."""
        for index, gpu in enumerate(self.gpus):
            gpu.set(
                power=sine(500_000, 150_000, 37, index / 8),
                gpu_util=sine(70, 29, 23, index / 8),
                memory_util=sine(40, 29, 31, index / 8),
                temperature=sine(60, 9, 300, index / 8),
                memory_used=sine(40_000 * MIB, 9_000 * MIB, 60, index / 8),
                clock_sm=sine(1800, 150, 11, index / 8),
            )
            for metric, value in GPM_DEFAULTS.items():
                gpu.set_gpm(metric, sine(value * 0.8, value * 0.2, 10 + metric, index / 8))

    def reload_driver(self, version: str | None = None) -> None:
        """Handles and the initialisation of before are worth nothing: NVML_ERROR_UNINITIALIZED until nvmlInit."""
        self._raw.generation += 1
        if version:
            self._raw.driver_version = version.encode()

    def fail_init(self, error: int) -> None:
        """What nvmlInit gives, e.g. NVML_ERROR_DRIVER_NOT_LOADED; 0 mends it."""
        self._raw.init_error = error

    def fail(self, function: str, error: int, gpu: int = ANY) -> None:
        """Makes a function give an error from now on, on one GPU or all."""
        self._rule(function, gpu, error=error)

    def hang(self, function: str, seconds: float, gpu: int = ANY) -> None:
        """Makes a function take `seconds` from now on, or until `mend`."""
        self._rule(function, gpu, hang_s=seconds)

    def mend(self) -> None:
        """Takes all `fail` and `hang` back."""
        for rule in self._raw.rules:
            rule.active = 0

    def _rule(self, function: str, gpu: int, error: int = 0, hang_s: float = 0.0) -> None:
        rule = next(rule for rule in self._raw.rules if not rule.active)
        rule.function, rule.gpu, rule.error, rule.hang_s = function.encode(), gpu, error, hang_s
        rule.active = 1

    def calls(self, function: str, gpu: int = ANY) -> int:
        """How often a function was called, on one GPU or in all, by every process on this control file."""
        for entry in self._raw.functions:
            if entry.name == function.encode():
                return sum(entry.calls) if gpu == ANY else int(entry.calls[gpu])
        return 0

    def all_calls(self) -> dict[str, int]:
        """Calls by function."""
        return {entry.name.decode(): sum(entry.calls) for entry in self._raw.functions if entry.name}

    def xid(self, gpu: int, xid: int, gpu_instance: int = NONE, compute_instance: int = NONE) -> None:
        """A critical error event of a GPU or MIG instance, for who waits for it."""
        event = self._raw.events[self._raw.events_written % MAX_EVENTS]
        event.gpu, event.xid = gpu, xid
        event.gpu_instance, event.compute_instance = gpu_instance, compute_instance
        self._raw.events_written += 1


def _forget_library() -> None:
    """Sets nvidia-ml-py back to before its first call; it has no call for that."""
    if pynvml.nvmlLib is not None:
        dlclose(pynvml.nvmlLib._handle)
    pynvml.nvmlLib = None
    pynvml._nvmlLib_refcount = 0
    pynvml._nvmlGetFunctionPointer_cache.clear()


# NVML_GPM_METRIC_*: graphics, SM, occupancy, tensor, DRAM, FP64, FP32, FP16 in per cent; PCIe, NVLink in MiB/s.
GPM_DEFAULTS: Final = {1: 95, 2: 80, 3: 40, 5: 60, 10: 50, 11: 1, 12: 20, 13: 10, 20: 800, 21: 1600, 60: 9000, 61: 9500}


def hopper(gpu: Gpu, raw: RawGpu, index: int) -> None:
    """An H100 at work; every GPU's values differ a little, so that a mix-up shows."""
    gpu.uuid = f"GPU-5b1f0e44-7e1d-4c53-9a57-{index:012x}"
    gpu.name = "NVIDIA H100 80GB HBM3"
    raw.bus_id, raw.serial = f"00000000:{0x18 + index:02X}:00.0".encode(), f"16517230{index:05d}".encode()
    gpu.set(
        gpu_util=90 + index, memory_util=50 + index,
        memory_total=81559 * MIB, memory_reserved=(600 + index) * MIB, memory_used=(40_000 + index) * MIB,
        bar1_total=131072 * MIB, bar1_used=9 * MIB,
        temperature=60 + index, threshold_shutdown=90, threshold_slowdown=87, threshold_gpu_max=85,
        power=500_000 + 1000 * index, power_limit=700_000, power_management_limit=700_000,
        power_default_limit=700_000, energy=ramp(1_000_000_000 * (index + 1), 500_000),
        clock_graphics=1980 - index, clock_sm=1980 - index, clock_memory=2619, clock_video=1545,
        max_clock_graphics=1980, max_clock_sm=1980, max_clock_memory=2619, max_clock_video=1545,
        event_reasons=4, pstate=0, pcie_generation=5, pcie_width=16, pcie_max_generation=5, pcie_max_width=16,
        pcie_replays=index, pcie_tx=800_000 + index, pcie_rx=1_600_000 + index,
        encoder_util=0, decoder_util=3 + index, jpeg_util=0, ofa_util=0,
        ecc_mode=1, ecc_corrected_volatile=10 + index, ecc_uncorrected_volatile=index, ecc_corrected_aggregate=100,
        ecc_uncorrected_aggregate=1, remapped_correctable=1 + index, remapped_uncorrectable=index,
        remapped_pending=0, remapped_failure=0, violation_power=0, violation_thermal=0,
        mig_mode=0, gpm_supported=1, architecture=9, compute_capability=90, minor_number=index, numa_node=index // 4,
        persistence_mode=1, compute_mode=0, cores=16896,
        power_min_limit=200_000, power_max_limit=700_000, ecc_corrected_dram=7 + index, ecc_uncorrected_dram=index,
        ecc_corrected_sram=3, ecc_uncorrected_sram=0, nvlinks=18, nvlinks_down=index, nvlink_replay=1,
        nvlink_recovery=2, nvlink_crc_flit=3,
    )  # fmt: skip
    gpu.set_field(pynvml.NVML_FI_DEV_MEMORY_TEMP, 70 + index)
    gpu.set_field(pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, 100 + index)
    gpu.set_field(pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 20 + index)
    gpu.set_field(pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, index)
    for metric, value in GPM_DEFAULTS.items():
        gpu.set_gpm(metric, value + index)
    gpu.set_processes(Process(10_000 + index, (39_000 + index) * MIB))
    gpu.present = True
