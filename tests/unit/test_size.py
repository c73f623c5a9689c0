"""`warpmeter size`: DESIGN's figure comes out, constants are those of the code, more of anything never needs less."""

import json
import math
from collections import Counter
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.documentation import ROOT
from tests.full_rows import full_row
from warpmeter import wire
from warpmeter.cli.app import app
from warpmeter.cli.sizing import shown
from warpmeter.schemas.topics import TOPICS
from warpmeter.simulate.fleet import Fleet as Simulated
from warpmeter.simulate.simulation import Simulation
from warpmeter.sizing import CONSTANTS, LIMITS, Fleet, Size, SizeError

LARGE: Final = Fleet(hosts=10_000, gpus=8, interval_s=1.0)
TOLERANCE: Final = 0.15
"""Of the design's 12 MB/s: what Kafka adds to each message is in ours."""
MORE: Final = (
    *("hosts", "gpus", "jobs", "processes", "devices", "stacks", "series", "retention_h", "replication"),
    *("partitions", "replicas", "viewers", "raw_days", "minute_days", "hour_days"),
)
LESS: Final = ("interval_s", "scrape_s")
EXAMPLES: Final = (1, 100, 1_000, 10_000)
PAGE: Final = ROOT / "docs" / "deploy" / "capacity.md"
GROWS: Final = (
    *("rows", "messages", "bus", "brokers' disk", "partitions", "inserts", "CPU of inserts", "ingest processes"),
    *("ingest memory", "store's disk", "store's cores", "store's memory", "shards", "agent's CPU", "agent's memory"),
)


def figures(fleet: Fleet) -> dict[str, float]:
    """By name."""
    return {each.name: each.value for each in Size(fleet).figures}


def test_the_designs_figure_comes_out() -> None:
    flow = next(each for each in Size(LARGE).flows if each.topic == "gpu-samples")
    assert flow.rows_per_s == 80_000
    assert flow.bus_bytes_per_s == pytest.approx(12e6, rel=TOLERANCE)


def test_constants_are_what_simulated_messages_are() -> None:
    sizes, packed, rows, count = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    codec, ticks, fleet = pa.Codec("zstd", compression_level=3), 61, Simulated(hosts=8, faults_per_hour=0)
    for _, tick in zip(range(ticks), Simulation(fleet, 1_800_000_000.0), strict=False):
        for each in tick.envelopes:
            sizes[each.topic] += len(each.value)
            packed[each.topic] += len(codec.compress(each.value, asbytes=True))
            rows[each.topic] += each.rows
            count[each.topic] += 1
    assert packed["gpu-samples"] / rows["gpu-samples"] < CONSTANTS["gpu_row_bus"].value
    kinds = {"host-samples": "host", "job-events": "job", "stack-samples": "stack", "source-health": "health"}
    for topic, kind in kinds.items():
        assert sizes[topic] / rows[topic] == pytest.approx(CONSTANTS[f"{kind}_row"].value, rel=0.2), topic
        if f"{kind}_zstd" in CONSTANTS:
            assert packed[topic] / sizes[topic] == pytest.approx(CONSTANTS[f"{kind}_zstd"].value, rel=0.25), topic
    assert sizes["device-samples"] / rows["device-samples"] < CONSTANTS["device_row"].value
    assert count["gpu-samples"] == 8 * ticks


def test_constants_of_full_rows_are_theirs() -> None:
    for topic, kind in (("gpu-samples", "gpu_row"), ("gpu-processes", "process_row")):
        value = wire.pack(TOPICS[topic], "gpu01", [full_row(topic)]).value
        assert len(value) == pytest.approx(CONSTANTS[kind].value, rel=0.1), topic


def drawn(name: str) -> st.SearchStrategy[Any]:
    """An argument within its limits, not beyond what a test has time for."""
    low, high = LIMITS[name]
    if isinstance(getattr(Fleet(), name), float):
        return st.floats(low, high)
    return st.integers(int(low), int(min(high, 20_000)))


@settings(max_examples=50)
@given(data=st.data())
def test_more_of_anything_never_needs_less(data: Any) -> None:
    within = {name: drawn(name) for name in LIMITS}
    fleet = Fleet(**{name: data.draw(each, name) for name, each in within.items()})
    name = data.draw(st.sampled_from((*MORE, *LESS)), "changed")
    changed = data.draw(within[name], "to")
    few, many = sorted((getattr(fleet, name), changed), reverse=name in LESS)
    less, more = (figures(replace(fleet, **{name: each})) for each in (few, many))
    for figure in GROWS:
        assert less[figure] <= more[figure] * (1 + 1e-9), figure


@settings(max_examples=50)
@given(hosts=st.integers(1, 1_000_000), gpus=st.integers(0, 64))
def test_what_is_advised_fits_together(hosts: int, gpus: int) -> None:
    found = figures(Fleet(hosts=hosts, gpus=gpus))
    assert found["partitions"] >= max(found["ingest processes"], found["shards"], 12)
    assert all(value > 0 for value in found.values())


@pytest.mark.parametrize("name", LIMITS)
def test_what_no_fleet_has_is_refused(name: str) -> None:
    low, high = LIMITS[name]
    for value in (low - 1, high + 1, -1, math.nan, math.inf):
        given: dict[str, Any] = {name: value}
        with pytest.raises(SizeError, match=f"{name} is .*: it may be"):
            Fleet(**given)


@pytest.mark.parametrize("options", [["--hosts", "0"], ["--interval", "nan"], ["--raw-days", "-3"], ["--gpus", "1e3"]])
def test_the_command_refuses_it_with_status_2(options: list[str]) -> None:
    assert CliRunner().invoke(app, ["size", *options]).exit_code == 2


def test_json_has_what_the_help_says() -> None:
    found = json.loads(CliRunner().invoke(app, ["size", "--hosts", "10", "--json"]).output)
    assert set(found) == {"fleet", "figures", "topics", "tables"}
    assert {each["name"] for each in found["figures"]} == set(figures(Fleet(hosts=10)))
    assert found["fleet"]["hosts"] == 10
    explained = json.loads(CliRunner().invoke(app, ["size", "--explain", "--json"]).output)
    assert {each["name"] for each in explained["constants"]} == set(CONSTANTS)
    assert all(each["formula"] for each in explained["figures"])


def test_explained_formulas_name_constants_that_there_are_and_every_constant_is_in_one() -> None:
    named = {name for each in Size(LARGE).figures for name in each.constants}
    assert named == set(CONSTANTS)
    assert all(each.source and each.meaning for each in CONSTANTS.values())
    assert {each.kind for each in CONSTANTS.values()} == {"measured", "design", "code", "assumed"}


def table() -> str:
    """The constants, as the page has them."""
    rows = [f"| `{c.name}` | {c.value:g} {c.unit} | {c.meaning} | {c.kind} | {c.source} |" for c in CONSTANTS.values()]
    return "\n".join(("| constant | value | of | how known | where from |", "|---|---|---|---|---|", *rows))


def examples() -> str:
    """The worked examples, as the page has them."""
    sizes = [[*Size(Fleet(hosts=hosts)).figures] for hosts in EXAMPLES]
    rows = [
        f"| {same[0].name} | {shown(same[0])[1]} | " + " | ".join(shown(each)[0] for each in same) + " |"
        for same in zip(*sizes, strict=True)
    ]
    heads = " | ".join(f"{hosts:,}" for hosts in EXAMPLES)
    return "\n".join((f"| hosts | | {heads} |", "|---" * (len(EXAMPLES) + 2) + "|", *rows))


def formulas() -> str:
    """The formulas, as the page has them."""
    rows = [f"| {each.name} | {each.formula} |" for each in Size(LARGE).figures]
    return "\n".join(("| figure | formula |", "|---|---|", *rows))


@pytest.mark.parametrize("part", [table, examples, formulas])
def test_the_page_has_it(part: Any) -> None:
    assert part() in PAGE.read_text(), f"docs/deploy/capacity.md should have:\n{part()}"
