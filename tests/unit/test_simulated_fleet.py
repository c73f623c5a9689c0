"""A simulated fleet tells what real agents would: the same messages, consistent with each other."""

from argparse import ArgumentTypeError
from collections import defaultdict
from itertools import islice, pairwise
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter import wire
from warpmeter.schemas.metrics import of_topic
from warpmeter.schemas.topics import TOPICS
from warpmeter.simulate import encode
from warpmeter.simulate.__main__ import parse, seconds
from warpmeter.simulate.fleet import Fleet, slots
from warpmeter.simulate.run import Pace, _due
from warpmeter.simulate.simulation import Simulation, Tick
from warpmeter.stacks import identity
from warpmeter.wire import Envelope

START: Final = 1_780_000_000.0
HOUR_TICKS: Final = 720
SMALL: Final = Fleet(hosts=6, gpus=4, interval_s=5.0, faults_per_hour=12)


@pytest.fixture(scope="module")
def hour() -> list[Tick]:
    """An hour of a small fleet with many faults."""
    return list(islice(Simulation(SMALL, START), HOUR_TICKS))


def rows(tick: Tick, topic: str) -> list[Any]:
    return [row for each in tick.envelopes if each.topic == topic for row in wire.unpack(TOPICS[topic], each.value)]


@given(st.lists(st.lists(st.integers(-1, (1 << 35) - 1), min_size=7, max_size=7), min_size=1, max_size=20))
def test_columns_encode_what_protobuf_reads(table: list[list[int]]) -> None:
    topic = TOPICS["gpu-samples"]
    names = [
        "gpu_util_permille",
        "energy_joules",
        "throttle_reasons",
        "pcie_replays",
        "processes",
        "fan_permille",
        "gpu",
    ]
    small = [
        [min(value, (1 << 32) - 1) if at not in (1, 2, 3) else value for at, value in enumerate(row)] for row in table
    ]
    columns = {name: np.array([row[at] for row in small], np.int64) for at, name in enumerate(names)}
    pieces = encode.rows([b""] * len(small), b"", encode.Columns(topic, names).encode(columns))
    for row, decoded in zip(small, wire.unpack(topic, b"".join(pieces)), strict=True):
        for name, value in zip(names[:-1], row, strict=False):
            assert (getattr(decoded, name) if decoded.HasField(name) else encode.ABSENT) == value


def test_a_value_that_no_field_holds_is_refused() -> None:
    columns = encode.Columns(TOPICS["gpu-samples"], ["energy_joules"])
    for value in (-2, 1 << 35):
        with pytest.raises(ValueError, match="simulated value"):
            columns.encode({"energy_joules": np.array([0, value])})


def test_the_same_fleet_and_start_give_the_same_bytes() -> None:
    first, second = (list(islice(Simulation(SMALL, START), 50)) for _ in range(2))
    assert first == second
    assert first != list(islice(Simulation(Fleet(hosts=6, gpus=4, interval_s=5.0, seed=8), START), 50))


@pytest.mark.parametrize("gpus", [1, 2, 3, 8])
@pytest.mark.parametrize("hosts", [1, 2, 3, 4, 17])
def test_any_size_of_fleet_is_divided_without_a_rest(hosts: int, gpus: int) -> None:
    fleet = Fleet(hosts=hosts, gpus=gpus)
    assert [gpu for slot in slots(fleet) for gpu in slot.gpus] == list(range(fleet.size))
    tick = Simulation(fleet, START).tick()
    assert len(rows(tick, "gpu-samples")) == fleet.size
    assert len(rows(tick, "host-samples")) == hosts


@pytest.mark.parametrize(
    "size", [{"hosts": 0}, {"gpus": 0}, {"gpus": 65}, {"interval_s": 0.01}, {"faults_per_hour": -1}]
)
def test_what_makes_no_fleet_is_refused(size: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a fleet has"):
        Fleet(**size)


def test_every_envelope_is_as_an_agent_writes_it(hour: list[Tick]) -> None:
    for tick in hour[::60]:
        for each in tick.envelopes:
            unpacked: list[Any] = wire.unpack(TOPICS[each.topic], each.value)
            assert len(unpacked) == each.rows > 0
            assert each.message == TOPICS[each.topic].message
            assert {row.host for row in unpacked} == {each.key.decode()}
            assert {row.ts for row in unpacked} == {tick.ts}
        assert len({(each.topic, each.key) for each in tick.envelopes}) == len(tick.envelopes)


def test_ticks_lie_on_the_schedule(hour: list[Tick]) -> None:
    assert [tick.ts for tick in hour] == [START + 5 * number for number in range(HOUR_TICKS)]


def test_numbers_are_within_what_they_mean(hour: list[Tick]) -> None:
    for tick in hour[::20]:
        for topic in ("gpu-samples", "host-samples", "device-samples"):
            for row in rows(tick, topic):
                assert row.period_ms == 5000
                for metric in of_topic(topic):
                    assert metric.kind != "ratio" or getattr(row, metric.column) <= 1000, metric.column
        for gpu in rows(tick, "gpu-samples"):
            assert gpu.fb_used_mebibytes <= gpu.fb_total_mebibytes
            assert gpu.power_deciwatts <= 7100
            assert 20 <= gpu.temperature_celsius <= 95
            assert not gpu.HasField("fan_permille")


def test_counters_only_grow_but_for_a_restart(hour: list[Tick]) -> None:
    last: dict[str, int] = {}
    restarts = 0
    for tick in hour:
        for gpu in rows(tick, "gpu-samples"):
            restarts += gpu.energy_joules < last.get(gpu.uuid, 0)
            last[gpu.uuid] = gpu.energy_joules
    lost = {row.subject for tick in hour for row in rows(tick, "source-health") if row.state == "gone"}
    assert restarts <= len(lost) * SMALL.gpus


def test_one_job_runs_over_several_hosts_from_the_first_minute(hour: list[Tick]) -> None:
    hosts = defaultdict(set)
    for event in rows(hour[0], "job-events"):
        hosts[event.job_id].add(event.host)
        assert event.event == "started"
        assert event.started_at < START
    assert max(len(each) for each in hosts.values()) >= 2


def test_a_job_holds_idle_gpus_from_the_first_minute(hour: list[Tick]) -> None:
    held = [gpu for gpu in rows(hour[12], "gpu-samples") if gpu.job_ids and gpu.gpu_util_permille == 0]
    assert held
    assert all(gpu.fb_used_mebibytes > 1000 for gpu in held)
    ids = {gpu.uuid for gpu in held}
    still = [gpu for tick in hour[12:36] for gpu in rows(tick, "gpu-samples") if gpu.uuid in ids]
    assert {gpu.uuid for gpu in still if gpu.gpu_util_permille} < ids


def test_jobs_start_run_and_end_in_order(hour: list[Tick]) -> None:
    life: dict[tuple[str, str], list[str]] = defaultdict(list)
    for tick in hour:
        for event in rows(tick, "job-events"):
            life[event.host, event.job_id].append(event.event)
            assert event.started_at <= tick.ts
            assert event.event != "running" or event.period_ms == 10_000
    silent = silent_hosts(hour)
    complete = {key: events for key, events in life.items() if key[0] not in silent}
    assert any(events[-1] == "ended" for events in complete.values())
    for events in complete.values():
        assert events[0] == "started"
        assert events.count("started") == 1
        assert "ended" not in events[:-1]


def silent_hosts(ticks: list[Tick]) -> set[str]:
    return {name for tick in ticks for name in set(SMALL.host_names) - {row.host for row in rows(tick, "host-samples")}}


def test_gpus_carry_the_jobs_that_run_on_them(hour: list[Tick]) -> None:
    running: dict[tuple[str, int], str] = {}
    silent = silent_hosts(hour)
    for tick in hour:
        for event in rows(tick, "job-events"):
            for gpu in event.gpus:
                if event.event == "ended":
                    running.pop((event.host, gpu), None)
                else:
                    running[event.host, gpu] = event.job_id
        for gpu in rows(tick, "gpu-samples"):
            if gpu.host not in silent:
                expected = running.get((gpu.host, gpu.gpu))
                assert list(gpu.job_ids) == ([expected] if expected else [])


def test_a_running_job_is_told_every_ten_seconds(hour: list[Tick]) -> None:
    told = defaultdict(list)
    for tick in hour[:120]:
        for event in rows(tick, "job-events"):
            if event.event == "running":
                told[event.host, event.job_id].append(tick.ts)
    gaps = [later - sooner for times in told.values() for sooner, later in pairwise(times)]
    assert gaps
    assert all(gap == 10 or gap > 60 for gap in gaps)  # or the host was silent


def test_what_goes_wrong_is_told_apart(hour: list[Tick]) -> None:
    seen = {tick.ts: rows(tick, "source-health") for tick in hour}
    troubles = [row for each in seen.values() for row in each]
    assert {"ok", "unsupported", "failed", "gone"} == {row.state for row in troubles}
    assert silent_hosts(hour)
    for tick in hour:
        gpus = {gpu.uuid: gpu for gpu in rows(tick, "gpu-samples")}
        for row in seen[tick.ts]:
            if row.state == "gone":
                assert row.subject not in gpus
            if row.state == "failed":
                assert not gpus[row.subject.partition("/")[0]].HasField("power_deciwatts")


def test_what_a_gpu_does_not_have_is_told_at_first_and_every_ten_minutes(hour: list[Tick]) -> None:
    told = defaultdict(list)
    for tick in hour:
        for row in rows(tick, "source-health"):
            if row.state == "unsupported":
                told[row.subject].append(tick.ts)
    assert len(told) == len({gpu.uuid for gpu in rows(hour[0], "gpu-samples")})
    assert min(min(times) for times in told.values()) < hour[0].ts + 10
    gaps = [later - sooner for times in told.values() for sooner, later in pairwise(times[1:])]
    assert gaps
    assert all(gap >= 595 for gap in gaps)


def test_a_hot_gpu_is_slow_and_says_why(hour: list[Tick]) -> None:
    hot = [gpu for tick in hour for gpu in rows(tick, "gpu-samples") if gpu.throttle_reasons & 0x40]
    assert hot
    assert all(gpu.sm_clock_megahertz < 1000 for gpu in hot)


def test_training_has_a_plateau_and_pauses(hour: list[Tick]) -> None:
    load = [gpu.sm_active_permille for tick in hour for gpu in rows(tick, "gpu-samples") if gpu.uuid == SMALL.uuids[0]]
    busy = [share for share in load if share > 400]
    assert len(busy) > len(load) / 2
    assert min(load) < 100


@pytest.mark.parametrize(
    ("pace", "ts", "rows_sent", "due"),
    [
        (Pace(), START + 5, 10**9, START + 5),  # never before its own time
        (Pace(backfill_s=3600), START - 3000, 10**9, START - 3000),  # history is due at once
        (Pace(backfill_s=3600, speedup=60), START - 3000, 0, START + 10),
        (Pace(backfill_s=3600, speedup=60), START + 500, 0, START + 500),
        (Pace(backfill_s=3600, max_rate=100), START - 3000, 700, START + 7),
    ],
)
def test_history_goes_fast_and_the_present_in_time(pace: Pace, ts: float, rows_sent: int, due: float) -> None:
    assert _due(pace, START, START - pace.backfill_s, ts, rows_sent) == pytest.approx(due)


def test_the_command_line_takes_durations() -> None:
    fleet, pace, dry_run = parse(
        ["--hosts", "3", "--interval", "5s", "--backfill", "6h", "--duration", "1.5m", "--dry-run"]
    )
    assert (fleet.hosts, fleet.interval_s, pace.backfill_s, pace.duration_s, dry_run) == (3, 5.0, 21600.0, 90.0, True)
    for text in ("fast", "-5s", "", "1w"):
        with pytest.raises(ArgumentTypeError, match="is no duration; write"):
            seconds(text)
    with pytest.raises(SystemExit):
        parse(["--speedup", "-1"])


def test_rows_of_a_tick_are_counted() -> None:
    assert Tick(1.0, [Envelope("t", b"k", b"", "T", 3), Envelope("t", b"l", b"", "T", 4)]).rows == 7


def stacks_of(hour: list[Tick], kind: str) -> dict[str, float]:
    """Shares of the weight of main threads of ranks of jobs whose command has a text in it, by innermost function."""
    commands = {row.job_id: row.command for tick in hour for row in rows(tick, "job-events")}
    frames, weights = dict[int, list[str]](), defaultdict[str, int](int)
    for tick in hour:
        for sample in rows(tick, "stack-samples"):
            frames.setdefault(sample.stack, list(sample.frames))
            if kind in commands.get(sample.job_id, "") and sample.process != "pt_data_worker":
                weights[frames[sample.stack][-1]] += sample.weight
    return {name: weight / sum(weights.values()) for name, weight in weights.items()}


def test_ranks_of_jobs_are_seen_at_work_once_a_minute(hour: list[Tick]) -> None:
    turns = defaultdict(list)
    told = defaultdict[tuple[str, str], set[int]](set)
    for tick in hour:
        for sample in rows(tick, "stack-samples"):
            turns[sample.host, sample.pid, sample.job_id].append((sample.ts, sample.samples))
            assert (sample.period_ms, sample.sampled_ms, sample.source) == (60_000, 10_000, "py-spy")
            assert sample.weight == sample.samples * 52_632 > 0
            assert not sample.frames or identity(sample.frames) == sample.stack
            if sample.frames:
                told[sample.host, sample.job_id].add(sample.stack)
            assert sample.stack in told[sample.host, sample.job_id]
    assert turns
    for seen in turns.values():
        samples = defaultdict[float, int](int)
        for ts, count in seen:
            samples[ts] += count
        assert set(samples.values()) == {190}
        assert all(later - sooner >= 60 for sooner, later in pairwise(samples))


def test_a_starved_job_waits_for_its_data_and_another_does_not() -> None:
    fleet = Fleet(hosts=24, gpus=2, interval_s=30.0, faults_per_hour=0)
    some = list(islice(Simulation(fleet, START), 120))
    starved, fed = stacks_of(some, "/nfs/imagenet"), stacks_of(some, "train")
    assert starved["wait (threading.py:359)"] > 0.3
    assert fed["wait (threading.py:359)"] < 0.05
    assert fed["wait (torch/distributed/distributed_c10d.py:505)"] > 0.03
    assert fed["_engine_run_backward (torch/autograd/graph.py:841)"] > 0.15
