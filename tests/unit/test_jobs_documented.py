"""docs/jobs.md names every variable that is read, every label that is sent, and the expression in force."""

import re
from pathlib import Path
from typing import get_args

from warpmeter.producers.jobs.pattern import DEFAULT
from warpmeter.producers.jobs.scheduler import NAMES, Scheduler
from warpmeter.schemas.labels import LABELS

PAGE = (Path(__file__).parents[2] / "docs/jobs.md").read_text()


def test_every_variable_that_is_read_is_named_and_no_other() -> None:
    table = PAGE.partition("| of | variables |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([A-Z_]+)`", table)) == set(NAMES)


def test_every_label_is_named_with_its_source() -> None:
    for label, source in LABELS.items():
        assert f"| `{label}` | {source} |" in PAGE


def test_the_default_expression_and_every_scheduler_are_named() -> None:
    assert f"\n{DEFAULT}\n" in PAGE
    assert all(f"`{scheduler}`" in PAGE for scheduler in get_args(Scheduler))
