"""docs/stacks.md names what there is: columns, queries, settings, formats, options."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Final, get_args

import pytest
from typer.main import get_command

from warpmeter import queries
from warpmeter.cli.app import app
from warpmeter.schemas.topics import TOPICS, row_type
from warpmeter.settings import Agent
from warpmeter.stacks import Unit
from warpmeter.stacks.profile import unit_of
from warpmeter.stacks.reading import Format

PAGE: Final = (Path(__file__).parents[2] / "docs/stacks.md").read_text()
CODE: Final = set(re.findall(r"`([^`\n]+)`", PAGE))


def test_every_column_is_explained() -> None:
    table = PAGE.partition("### Tables")[2].partition("### Grafana")[0]
    named = {
        name
        for line in table.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert {field.name for field in row_type(TOPICS["stack-samples"].envelope).fields} | {"estimate"} == named


def test_named_queries_and_settings_exist() -> None:
    table = PAGE.partition("## Ask")[2].partition("### Tables")[0]
    named = set(re.findall(r"^\| `(stack_\w+)` \|", table, re.MULTILINE))
    assert named == {name for name in queries.names() if name.startswith("stack_")} - {"stack_seen"}
    settings = {field.name for field in fields(Agent)}
    assert set(re.findall(r"\b(stacks_[a-z_]+)\b", PAGE)) <= settings
    assert {name.removeprefix("agent.").split(" ")[0] for name in CODE if name.startswith("agent.")} <= settings


@pytest.mark.parametrize("format_", get_args(Format))
def test_formats_and_units_are_named(format_: str) -> None:
    assert format_ in PAGE
    assert all(unit in PAGE and unit_of(unit) == (unit, 1.0) for unit in get_args(Unit))


def test_options_that_it_shows_exist() -> None:
    for line in re.findall(r"warpmeter (?:flame|stacks import|queries)[^\n`]*", PAGE):
        command = get_command(app)
        for word in line.partition("#")[0].split()[1:]:
            command = getattr(command, "commands", {}).get(word, command)
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert set(re.findall(r"(?<!\S)(-{1,2}[a-z][a-z-]*)", line.partition("#")[0])) <= known, line


def test_a_turn_is_as_the_settings_have_it() -> None:
    agent = Agent()
    assert f"{agent.stacks_sampling_s:.0f} s of it" in PAGE
    assert f"{agent.stacks_rate_hz} times a second" in PAGE
    assert f"({agent.stacks_processes}) Python processes" in PAGE
    assert agent.stacks_interval_s == 60
