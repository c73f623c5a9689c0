"""docs/analysis.md and docs/analysis.schema.json say what the JSON holds."""

import json
from dataclasses import fields
from pathlib import Path

from tests.unit.test_findings import CASES
from warpmeter.analysis.causes import Gaps
from warpmeter.analysis.report import IdleCauses, RankReport
from warpmeter.analysis.schema import TARGET, text

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "analysis.md"
OF_RANKS = ("straggler_rank", "straggler_ranks", "load_imbalance", "slow_link", "missing_ranks")


def test_the_schema_is_that_of_the_code() -> None:
    assert TARGET.read_text() == text(), (
        "run `make docs`; raise SCHEMA_VERSION when a field went or means another thing"
    )


def test_every_field_of_a_rank_is_required_and_told_of() -> None:
    properties = json.loads(text())["$defs"]["RankReport"]
    assert set(properties["properties"]) == {field.name for field in fields(RankReport)}
    words = DOCUMENT.read_text()
    missing = [field.name for field in fields(RankReport) if f"`{field.name}`" not in words]
    assert missing == []


def test_every_finding_is_told_of() -> None:
    words = DOCUMENT.read_text()
    assert [finding for finding in (*CASES, *OF_RANKS) if f"`{finding}`" not in words] == []


def test_idle_causes_are_those_of_the_gaps() -> None:
    causes = {field.name.removesuffix("_ns") for field in fields(IdleCauses)} - {"unknown"}
    assert causes <= {field.name for field in fields(Gaps)}
