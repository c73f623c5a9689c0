"""docs/sources.md names every source of the agent, with its period and the setting that turns it off."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

import pytest

from warpmeter.producers.agent import all_sources
from warpmeter.settings import Agent, Scrape

PAGE: Final = (Path(__file__).parents[2] / "docs/sources.md").read_text()
EVERYTHING: Final = Agent(scrape=(Scrape("x", "http://127.0.0.1:1/"),))
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("## ")[0].splitlines()
    if line.startswith("| `")
]


def test_every_source_is_there_with_its_period() -> None:
    written = {
        name: float(seconds)
        for cells in ROWS
        for name, seconds in zip(re.findall(r"`([^`]+)`", cells[0]), re.findall(r"(\d+) s", cells[2]), strict=True)
    }
    found = {source.name.replace("scrape/x", "scrape/<name>"): source.period_s for source in all_sources(EVERYTHING)}
    assert written == found


def test_settings_that_it_names_exist() -> None:
    known = {field.name for part in (Agent, Scrape) for field in fields(part)}
    named = {name for cells in ROWS for cell in cells[2:4] for name in re.findall(r"`(\w+)(?: = false)?`", cell)}
    assert named <= known


@pytest.mark.parametrize("name", ["rdma", "mounts", "numa", "cpu_counters", "gpu", "stacks"])
def test_what_is_switched_off_is_not_there(name: str) -> None:
    assert f"`{name} = false`" in PAGE
    assert name not in {source.name for source in all_sources(replace(EVERYTHING, **{name: False}))}  # type: ignore[arg-type]
