"""docs/profiling.md says of each reason what it means and what to do, and names what can be set and asked."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from typer.main import get_command

from warpmeter import config
from warpmeter.captures import REASONS, wishes
from warpmeter.captures.schedules import objection
from warpmeter.captures.wishes import Request
from warpmeter.cli.app import app
from warpmeter.producers.kineto.endpoint import FOLDER_MAX
from warpmeter.producers.kineto.files import VARIABLES
from warpmeter.settings import Agent, Schedule, Scheduler, Traces

PAGE: Final = (Path(__file__).parents[2] / "docs/profiling.md").read_text()
OF_OTHERS: Final = {"--nproc-per-node"}


def table(heading: str) -> Iterator[list[str]]:
    """Cells of the rows of the table below a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    yield from ([cell.strip() for cell in row.strip("|").split(" | ")] for row in rows)


def test_every_reason_is_explained_in_the_words_of_the_code_with_what_to_do() -> None:
    found = {cells[0].strip("`"): cells[1:] for cells in table("When there is no trace")}
    assert {reason: cells[0] for reason, cells in found.items()} == dict(REASONS)
    assert all(len(cells) == 2 and len(cells[1]) > 5 for cells in found.values())


def test_every_variable_and_setting_is_named_and_no_other() -> None:
    assert [cells[0].strip("`") for cells in table("Set up a job")] == list(VARIABLES)
    named = set(re.findall(r"`(\w+\.\w+)`", "".join(cells[0] for cells in table("Settings"))))
    of_agent = {each.name for each in fields(Agent) if each.name.startswith(("kineto", "rpc", "command_wait"))}
    of_scheduler = {each.name for each in fields(Scheduler)} - {"schedules"}
    wanted = {"agent": of_agent, "traces": {each.name for each in fields(Traces)}, "scheduler": of_scheduler}
    assert named == {f"{part}.{name}" for part, names in wanted.items() for name in names}


def test_the_schedule_that_it_shows_loads_and_every_key_is_named(tmp_path: Path) -> None:
    file = tmp_path / "warpmeter.toml"
    file.write_text(PAGE.partition("```toml\n")[2].partition("```")[0])
    (loaded,) = config.load(file, {}).scheduler.schedules
    assert (loaded.name, loaded.cron, loaded.duration_ms, objection(loaded)) == ("nightly", "0 3 * * *", 1000, "")
    named = set(re.findall(r"`(\w+)`", "".join(cells[0] for cells in table("Schedules"))))
    assert named == {each.name for each in fields(Schedule)}


def test_every_option_that_it_names_is_one() -> None:
    commands: Any = get_command(app)
    found = [*commands.commands.values(), *commands.commands["captures"].commands.values()]
    known = {name for each in found for option in each.params for name in (*option.opts, *option.secondary_opts)}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) - OF_OTHERS
    assert named - known == set()


def test_its_numbers_are_those_of_the_code() -> None:
    assert f"may have {FOLDER_MAX} bytes" in PAGE
    assert f"begins about {wishes.lead_s(Request(duration_ms=500)):.0f} s after" in PAGE
    assert f"at most {wishes.LONGEST_TRACE_MS // 60_000} min" in PAGE
    assert f"at most {wishes.LONGEST_S // 86_400} days" in PAGE
    assert f"`{Agent().kineto_socket_dir}`" in PAGE
    assert f"`{Traces().url}`" in PAGE
