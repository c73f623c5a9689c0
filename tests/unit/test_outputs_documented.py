"""docs/outputs.md names settings, labels and metrics that there are."""

import dataclasses
import re
from pathlib import Path

from warpmeter.producers.out.page import INFO, LABELS, OF_THE_JOB
from warpmeter.producers.out.several import MAKERS
from warpmeter.schemas.exposed import CONVENTIONS, WHAT
from warpmeter.settings import Agent

PAGE = (Path(__file__).parents[2] / "docs" / "outputs.md").read_text()


def test_every_setting_that_is_named_exists() -> None:
    named = set(re.findall(r"agent\.([a-z_]+)", PAGE)) | set(re.findall(r"^(\w+) = ", PAGE, re.MULTILINE))
    assert {"outputs", "names", "otlp_url"} <= named
    assert named <= {field.name for field in dataclasses.fields(Agent)}


def test_every_output_is_told() -> None:
    (told,) = re.findall(r"# of ([a-z, ]+);", PAGE)
    assert told.split(", ") == list(MAKERS)


def test_the_labels_are_those_of_the_page() -> None:
    of_what = {what: topic for topic, what in WHAT.items()}
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert {what for what, _ in rows if what in of_what} == set(of_what)
    for what, labels in rows:
        if what in of_what:
            assert {*LABELS[of_what[what]]} <= set(re.findall(r"`(\w+)`", labels)), what


def test_what_is_always_one_is_told_with_its_labels() -> None:
    for name, _, fields in INFO.values():
        assert f"`{name}`" in PAGE
        assert all(f"`{field}`" in PAGE for field in (*fields, *OF_THE_JOB))


def test_the_conventions_that_are_named_are_used() -> None:
    named = set(re.findall(r"`((?:hw|system)\.[a-z.]+)`", PAGE))
    used = {otel.name for table in CONVENTIONS.values() for otel in table.values()}
    assert named & used >= {"hw.gpu.utilization", "hw.power", "hw.energy", "hw.errors", "system.memory.usage"}
