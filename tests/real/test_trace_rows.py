"""What analysis says of a trace is what SQL says of it: built traces, and the real ones beside the checkout."""

from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.captures import two_ranks
from tests.tables import ask, one
from tests.trace_mutants import good, mutant
from tests.traces import needs_traces, references
from warpmeter import landing
from warpmeter.analysis import rows
from warpmeter.analysis.job import extract, job
from warpmeter.analysis.job.rows import collectives
from warpmeter.analysis.read import TraceError, read
from warpmeter.analysis.report import Material, RankReport, material, report
from warpmeter.landing import Process
from warpmeter.settings import Store
from warpmeter.store import Client, connect

REAL = {name: path for name, path, _ in references()}


@cache
def analysed(path: Path) -> tuple[Material, RankReport]:
    on = material(read(str(path)))
    return on, report(on)


def land(client: Client, store: Store, capture: str, found: list[tuple[Material, RankReport]]) -> None:
    """As the command does: the ranks of a capture together."""
    load = landing.begin(client, capture, "job")
    extracts = [extract(on.trace, on.links) for on, _ in found]
    began = [on.trace.epoch_ns + rows.began_ns(on.trace) for on, _ in found]
    puts = []
    for (on, about), met in zip(found, collectives(extracts, began), strict=True):
        process = Process(about.rank, "ant", True, rows.captured_at_ns(on.trace))
        tables: landing.Tables = {**rows.rows(on, about), "trace_collectives": [met]}
        puts.append(landing.put(client, store, load, process, tables))
    landing.publish(client, store, load, puts, lambda _: None)


@pytest.fixture(scope="module")
def store(shared_tables: Client, embedded: Store) -> Store:
    assert shared_tables.database == "shared"
    return Store(dsn=embedded.dsn, database="shared")


@pytest.fixture(scope="module")
def client(store: Store) -> Iterator[Client]:
    with closing(connect(store)) as client:
        yield client


@needs_traces
@pytest.mark.parametrize("name", REAL)
def test_a_real_trace_reads_in_sql_as_in_its_report(client: Client, store: Store, name: str) -> None:
    on, about = analysed(REAL[name])
    land(client, store, name, [(on, about)])
    parts = ("gpu_events", "span_ns", "busy_ns", "idle_ns", "compute_ns", "comm_ns", "mem_ns", "exposed_comm_ns")
    found = ask(client, f"SELECT {', '.join(parts)} FROM trace_ranks WHERE capture_id = {{c:String}}", c=name)
    assert found == [tuple(getattr(about, part) for part in parts)]
    kernels = "SELECT name, count, total_ns, min_ns, max_ns, p50_ns, share, operator FROM trace_kernels "
    assert sorted(ask(client, f"{kernels} WHERE capture_id = {{c:String}}", c=name)) == sorted(
        (k.name, k.count, k.total_ns, k.min_ns, k.max_ns, k.p50_ns, k.share, k.operators[0].name if k.operators else "")
        for k in about.kernels
    )
    streams = "SELECT device, stream, gpu_events, busy_ns, host_wait_ns FROM trace_streams"
    assert sorted(ask(client, f"{streams} WHERE capture_id = {{c:String}}", c=name)) == sorted(
        (s.device, s.stream, s.gpu_events, s.busy_ns, s.idle.host_wait_ns) for s in about.streams
    )
    steps = "SELECT name, duration_ns, busy_ns, gpu_events FROM trace_steps WHERE capture_id = {c:String} ORDER BY step"
    assert ask(client, steps, c=name) == [
        (s.name, s.duration_ns, s.work.busy_ns, s.work.gpu_events) for s in about.steps
    ]
    events = "SELECT count(), sum(duration_ns), min(start_ns) >= 0 FROM trace_timeline WHERE capture_id = {c:String}"
    tables = (on.trace.gpu, on.trace.calls, on.trace.operators, on.trace.annotations, on.trace.waits, on.trace.frames)
    whole = (sum(map(len, tables)), sum(int(each.duration.sum()) for each in tables), True)
    assert ask(client, events, c=name) == [whole]


@needs_traces
@pytest.mark.parametrize("name", REAL)
def test_operators_and_memory_of_a_real_trace(client: Client, store: Store, name: str) -> None:
    on, about = analysed(REAL[name])
    land(client, store, f"{name}/operators", [(on, about)])
    whole = "FROM trace_ops WHERE capture_id = {c:String} AND NOT by_shape"
    assert about.operators is not None
    told = about.operators
    own = sum(each.cpu_self_ns for each in told.by_name), sum(each.gpu_self_ns for each in told.by_name)
    sums = f"SELECT sum(cpu_self_ns), sum(gpu_self_ns), count() {whole}"
    assert ask(client, sums, c=f"{name}/operators") == [(*own, len(told.by_name))]
    rated = sum(each.flops for each in about.roofline.operators) if about.roofline else 0
    assert one(client, f"SELECT sum(flops) {whole}", c=f"{name}/operators") in (rated, None)
    memory = "SELECT device_type, device, allocated_bytes FROM trace_memory WHERE capture_id = {c:String} AND peak"
    devices = [("cpu" if each.device_type == 0 else "gpu", each.device, each.peak_bytes) for each in about.memory or ()]
    assert sorted(ask(client, memory, c=f"{name}/operators")) == sorted(devices)


def test_a_straggler_is_in_the_collectives_rows(client: Client, store: Store, tmp_path: Path) -> None:
    ranks = [analysed(path) for path in two_ranks(tmp_path)]
    land(client, store, "straggler", ranks)
    told = job([extract(on.trace, on.links) for on, _ in ranks]).stragglers
    sql = (
        "SELECT rank, countIf(last), sum(late_ns), sum(cost_ns), max(late_ns), sum(wait_ns), sumMap(late_by) "
        "FROM trace_collectives WHERE capture_id = 'straggler' GROUP BY rank HAVING countIf(last) > 0 ORDER BY rank"
    )
    found: list[tuple[Any, ...]] = ask(client, sql)
    assert [row[:6] for row in found] == [
        (each.rank, each.last, each.late_ns, each.cost_ns, each.worst_ns, each.waited_ns) for each in told
    ]
    assert found[0][0] == 1
    both = "SELECT seq, meeting, met, bytes, kind, transfer_ns, wait_ns FROM trace_collectives"
    by_rank = [ask(client, f"{both} WHERE capture_id = 'straggler' AND rank = {rank} ORDER BY seq") for rank in (0, 1)]
    assert [row[:6] for row in by_rank[0]] == [row[:6] for row in by_rank[1]]
    assert by_rank[0][0][1:6] == (0, 2, 4000, "all_reduce", 100_000)
    assert [row[6] for row in by_rank[0]] == [300_000] * 4
    assert one(client, "SELECT max(bus_bytes_per_s) FROM trace_collectives WHERE capture_id = 'straggler'") == 4e7


@pytest.mark.long
def test_broken_traces_land_or_are_refused_as_traces(client: Client, store: Store, tmp_path: Path) -> None:
    load, kept = landing.begin(client, "broken"), []
    for seed in range(40):
        path = tmp_path / f"{seed}.json"
        path.write_bytes(mutant(seed, good(seed)).data)
        try:
            on, about = analysed(path)
        except TraceError:
            continue
        (met,) = collectives([extract(on.trace, on.links)], [on.trace.epoch_ns + rows.began_ns(on.trace)])
        process = Process(seed, "ant", True, rows.captured_at_ns(on.trace))
        kept.append(landing.put(client, store, load, process, {**rows.rows(on, about), "trace_collectives": [met]}))
    assert len(kept) > 30
    landing.publish(client, store, load, kept, lambda _: None)
    counts = "SELECT count(), sum(row_counts['trace_kernels']) FROM trace_ranks WHERE capture_id = 'broken'"
    kernels = one(client, "SELECT count() FROM trace_kernels WHERE capture_id = 'broken'")
    assert ask(client, counts) == [(len(kept), kernels)]
