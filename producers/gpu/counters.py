"""Performance counters of one GPU: GPM where it has it, else field values, else the throughput call of PCIe."""

from collections.abc import Iterable

from warpmeter.producers.gpu import nvml, table
from warpmeter.producers.gpu.calls import Prepared, took
from warpmeter.producers.gpu.found import Found
from warpmeter.producers.gpu.nvml import Handle, Problem
from warpmeter.producers.gpu.throughput import Throughput


class Means:
    """GPM of one GPU or MIG instance. What it does not support is told to the caller, who may know another way."""

    def __init__(self, parent: Handle, gpu_instance: int | None) -> None:
        self._gpm: nvml.Gpm | None = nvml.Gpm(parent, gpu_instance)
        self._metrics = table.METRICS
        self._asked = tuple(metric.metric for metric in self._metrics)

    def read(self, found: Found) -> dict[str, Problem] | Problem:
        """The columns that turned out unsupported in this read; a Problem ends the read of this GPU."""
        if self._gpm is None:
            return {}
        got = self._gpm.read(self._asked)
        if isinstance(got, Problem):
            if got.fatal:
                return got
            return self._sort_out(((metric, got) for metric in self._metrics), found)
        failed: list[tuple[table.Metric, Problem]] = []
        for metric, value in zip(self._metrics, got or (), strict=False):
            if isinstance(value, Problem):
                failed.append((metric, value))
            else:
                found.took(metric.column, metric.factor, value, "gpm")
        return self._sort_out(failed, found) if failed else {}

    def _sort_out(self, failed: Iterable[tuple[table.Metric, Problem]], found: Found) -> dict[str, Problem]:
        unsupported: dict[str, Problem] = {}
        for metric, why in failed:
            if why.state == "unsupported":
                unsupported[metric.column] = why
            else:
                found.failed((metric.column,), why)
        self._metrics = tuple(metric for metric in self._metrics if metric.column not in unsupported)
        self._asked = tuple(metric.metric for metric in self._metrics)
        if not self._metrics:
            self.close()
        return unsupported

    def rest(self) -> None:
        """A profiler has the counters: no mean spans this."""
        if self._gpm is not None:
            self._gpm.forget()

    def close(self) -> None:
        """Gives the samples back."""
        if self._gpm is not None:
            self._gpm.close()
        self._gpm = None


class FieldReader:
    """Field values of one GPU, all in one call."""

    def __init__(self, gpu: Handle) -> None:
        self._gpu, self._fields = gpu, table.GAUGES
        self._prepared: nvml.Fields | None = None

    def add(self, fields: Iterable[table.Field]) -> None:
        """More of them from the next read on."""
        self._fields, self._prepared = (*self._fields, *fields), None

    def read(self, found: Found) -> dict[str, Problem] | Problem:
        """The columns that turned out unsupported in this read; a Problem ends the read of this GPU."""
        if not self._fields:
            return {}
        if self._prepared is None:
            self._prepared = nvml.Fields(self._gpu, tuple((each.field, each.scope) for each in self._fields))
        got = self._prepared.read()
        if isinstance(got, Problem):
            if got.fatal:
                return got
            got = [got] * len(self._fields)
        return self._sort_out(got, found)

    def _sort_out(self, got: list[nvml.Single], found: Found) -> dict[str, Problem]:
        unsupported: dict[str, Problem] = {}
        for each, value in zip(self._fields, got, strict=True):
            if not isinstance(value, Problem):
                (found.counted if each.counter else found.took)(each.column, each.factor, value)
            elif value.state == "unsupported":
                unsupported[each.column] = value
            else:
                found.failed((each.column,), value)
        if unsupported:
            self._fields = tuple(each for each in self._fields if each.column not in unsupported)
            self._prepared = None
        return unsupported


class Counters:
    """The chain of the three for a whole GPU; a MIG instance has GPM alone."""

    def __init__(self, gpu: Handle, uuid: str, throughput: Throughput) -> None:
        self._gpu, self._uuid, self._throughput = gpu, uuid, throughput
        self._means = Means(gpu, None)
        self._fields = FieldReader(gpu)

    def read(self, found: Found, profiling: bool) -> Problem | None:
        """Reads them all; without `profiling` not GPM, which a profiler has. A Problem ends the read of this GPU."""
        if not profiling:
            self._means.rest()
            return self._read_fields(found)
        unsupported = self._means.read(found)
        if isinstance(unsupported, Problem):
            return unsupported
        if unsupported:
            self._fields.add(each for each in table.COUNTERS if each.column in unsupported)
            counted = {each.column for each in table.COUNTERS}
            found.unsupported.update({column: why for column, why in unsupported.items() if column not in counted})
        return self._read_fields(found)

    def _read_fields(self, found: Found) -> Problem | None:
        unsupported = self._fields.read(found)
        if isinstance(unsupported, Problem):
            return unsupported
        for column, why in unsupported.items():
            call = next((call for call in table.THROUGHPUT if column in call.columns), None)
            if call is None:
                found.failed((column,), why)
            else:
                self._throughput.join(self._uuid, Prepared(call, self._gpu))
        self._take_throughput(found)
        return None

    def _take_throughput(self, found: Found) -> None:
        for call, got in self._throughput.take(self._uuid):
            if isinstance(got, Problem):
                found.failed(call.columns, got)
            else:
                took(call, got, found)

    def close(self) -> None:
        """Gives back what NVML holds for it."""
        self._means.close()
        self._throughput.leave(self._uuid)
