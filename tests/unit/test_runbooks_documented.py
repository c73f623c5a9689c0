"""docs/deploy/runbooks.md: each has all its parts; the alerts, tests and metrics that it names are there."""

import re
from pathlib import Path
from typing import Final

import pytest
import yaml  # type: ignore[import-untyped]

from tests.documentation import ROOT
from tests.real import test_runbooks as tried
from tests.runbooks import runbooks
from tests.unit.test_delivery import NAMED, existing, sections
from warpmeter import selfmetrics
from warpmeter.alerts.rule import builtin

PAGES: Final = [ROOT / "docs" / "deploy" / name for name in ("runbooks.md", "capacity.md")]
PARTS: Final = ("Symptom", "Confirm", "Do", "Over when", "Lost", "Tried by")
RUNBOOKS: Final = {name: text for name, text in sections(PAGES[0].read_text()).items() if name != "Runbooks"}
RULES: Final = yaml.safe_load((ROOT / "deploy" / "prometheus" / "warpmeter.rules.yml").read_text())
ALERTS: Final = {rule["alert"] for group in RULES["groups"] for rule in group["rules"]}


def test_there_are_at_least_ten() -> None:
    assert len(RUNBOOKS) >= 10


@pytest.mark.parametrize("name", RUNBOOKS)
def test_each_has_its_parts_in_order_and_was_tried(name: str) -> None:
    assert tuple(re.findall(r"^- \*\*([^*]+)\*\*:", RUNBOOKS[name], re.MULTILINE)) == PARTS
    tried = RUNBOOKS[name].split("- **Tried by**:")[1]
    assert set(NAMED.findall(tried)), "a test that causes it"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_named_is_there(page: Path) -> None:
    text = page.read_text()
    assert not set(NAMED.findall(text)) - existing()
    assert not set(re.findall(r"`(Warpmeter[A-Za-z]+)`", text)) - ALERTS
    metrics = set(selfmetrics.TABLE)
    assert not set(re.findall(r"`(warpmeter_[a-z_]+)`", text)) - metrics


def test_rules_of_symptoms_are_ours() -> None:
    for name, text in RUNBOOKS.items():
        symptom = text.split("- **Symptom**:")[1].split("- **Confirm**:")[0]
        assert not set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", symptom)) - set(builtin()), name


def test_no_runbook_is_without_a_test_that_goes_through_it() -> None:
    assert set(tried.TRIED) == set(runbooks()) == set(RUNBOOKS)
    for heading, name in tried.TRIED.items():
        assert name in existing(), f"{heading}: {name} is not there"
        first, *_ = NAMED.findall(runbooks()[heading].parts["Tried by"])
        assert first == name, f"{heading} names {first} first"
