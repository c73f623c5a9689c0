"""The benchmark of a fleet through Kafka, very small: what it says of a few hosts is what was sent, landed and kept."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Final

import pytest

from benchmarks.kafka_fleet import Asked, asked_for, build, measure
from benchmarks.kafka_found import GPUS, Found, Load, report
from tests.brokers import KafkaCluster
from tests.engine.template import with_tables

pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(600)]

LOAD: Final = Load(hosts=4, interval_s=1.0)
PARTS: Final = {"broker", "ingest", "engine", "simulator"}


@pytest.fixture(scope="module")
def found(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Found]:
    folder = tmp_path_factory.mktemp("fleet")
    asked = Asked([LOAD], warm_s=2, seconds=6, ingests=2, alone=True, prefix="benched")
    with ExitStack() as stack:
        engine = stack.enter_context(closing(with_tables(folder / "engine")))
        yield measure(asked, LOAD, build(stack, kafka, engine, asked, folder), folder)


def test_every_row_is_there_once_whoever_counts(found: Found) -> None:
    assert found.exact, (found.sums, found.gpu_sums)
    assert set(found.sums) == {"sent", "tables", "book"}
    assert set(found.gpu_sums) == {"sent", "table", "different", "rollup"}
    assert found.gpu_sums["sent"] >= 8 * LOAD.hosts * GPUS


def test_what_is_told_is_of_the_parts_and_of_the_bus(found: Found) -> None:
    assert set(found.cores) == set(found.peak_bytes) == PARTS
    assert all(cores > 0 for cores in found.cores.values())
    assert min(found.peak_bytes.values()) > 10 << 20
    assert 20 < found.gpu_row_bytes < 300, "of a GPU's row in the broker's log"
    assert 0 < found.delays["to the row, p50"] <= found.delays["to the row, p99"] < float("inf")
    assert all(ratio > 0 for ratio in found.ratios.values())


def test_it_is_told_as_tables_and_as_json(found: Found, capsys: pytest.CaptureFixture[str]) -> None:
    report([found], as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["found"][0]["exact"] is True
    assert told["found"][0]["sums"] == found.sums
    report([found], as_json=False)
    tables = capsys.readouterr().out
    assert f" {found.sums['sent']:,} |" in tables
    assert "warpmeter size" in tables


def test_two_fleets_are_the_default_and_others_may_be_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked, as_json = asked_for([])
    assert (list(asked.loads), as_json) == ([Load(1000, 1.0), Load(10_000, 10.0)], False)
    assert list(asked_for(["--fleet", "50@0.5"])[0].loads) == [Load(50, 0.5)]
    for wrong in ("50", "0@1", "5@0", "x@1"):
        with pytest.raises(SystemExit):
            asked_for(["--fleet", wrong])
    assert "fleet" in capsys.readouterr().err
