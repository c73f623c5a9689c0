"""Commands of README and docs that ask only are run on a real `up`, those of the tutorial in their order.

In this process, one after the other: what is run is the command itself, and it finds the `up` as it always does.
"""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from tests.documentation import Command, blocks, commands
from tests.real.up import Up, up
from tests.wait import until
from warpmeter.cli.app import app
from warpmeter.store import Client

pytestmark = pytest.mark.long

ASK: Final = {
    ("alerts", "list"), ("alerts", "rules"), ("alerts", "silences"), ("alerts", "receivers"), ("captures", "list"),
    ("check",), ("config",), ("queries",), ("regressions",), ("reports", "history"), ("reports", "list"), ("sql",),
    ("topics",),
}  # fmt: skip
"""Commands that change nothing, and end."""
FINDINGS: Final = ("status", "doctor", "check")
"""Their status 1 says that they found something: a host without a GPU is one."""
TUTORIAL: Final = "docs/tutorial.md"
NOT_HERE: Final = ("up", "top")
"""`up` runs already; `top` wants a terminal, and is drawn by its own tests."""
EXAMPLES: Final = ("4711", "superset", "metabase", "-p", "--param")
"""What asks for a job, user or host of the examples finds none here."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """`up` in a folder with the tutorial's settings, where every command finds it."""
    home = tmp_path_factory.mktemp("documented")
    (settings,) = (each.text for each in blocks() if each.name == TUTORIAL and each.language == "toml")
    (home / "warpmeter.toml").write_text(settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("XDG_DATA_HOME", str(home))
        with up(home / "warpmeter") as found:
            until(lambda: found.value("SELECT count() FROM host_samples") > 2, "samples")
            yield found


def run(words: Sequence[str]) -> int:
    """The command; its exit status."""
    try:
        status: Any = app(list(words), standalone_mode=False)
    except SystemExit as ended:
        status = ended.code
    return int(status or 0)


def tutorial() -> tuple[Command, ...]:
    """Its commands, in their order."""
    return tuple(each for each in commands() if each.page == TUTORIAL and each.program == "warpmeter")


def asking() -> tuple[tuple[str, ...], ...]:
    """What the other pages ask, each once."""
    found = dict.fromkeys(
        each.words[1:] for each in commands() if each.program == "warpmeter" and each.page != TUTORIAL
    )
    return tuple(
        words
        for words in found
        if (words[:1] in ASK or words[:2] in ASK) and "--create" not in words and not set(EXAMPLES) & set(words)
    )


def test_the_tutorial_does_what_it_says(running: Up, capsys: pytest.CaptureFixture[str]) -> None:
    until(lambda: running.value("SELECT count() FROM alerts_now WHERE state = 'firing'"), "the tutorial's alert")
    said: dict[str, str] = {}
    for command in tutorial():
        words = command.words[1:]
        if words[0] not in NOT_HERE:
            if words[1:] == ("silences",):
                until(lambda: running.value("SELECT count() FROM silences"), "the silence to be stored")
            status = run(words)
            said[shlex.join(words)] = (printed := capsys.readouterr()).out + printed.err
            assert status == 0 or (status == 1 and words[0] in FINDINGS), said
    assert "somebody-works-here" in said["alerts list"]
    assert "it is only the tutorial" in said["alerts silences"]
    assert "gpu_hours_by_user" in said["queries"]
    made = {path.name.partition("-2")[0] for path in Path("reports").iterdir()}
    assert made == {"host-health", "fleet-weekly"}
    assert all((folder / "report.html").is_file() for folder in Path("reports").iterdir())


@pytest.mark.parametrize("words", asking(), ids=" ".join)
def test_what_the_pages_ask_is_answered(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    status = run(words)
    said = capsys.readouterr()
    assert status == 0 or (status == 1 and words[0] in FINDINGS), said.err
    assert said.out.strip() or status == 0


OF_ENGINE: Final = [each for each in blocks() if each.language == "sql" and each.name != "docs/cookbook.md"]
"""The cookbook's are the named queries, which are run with checked results."""


@pytest.mark.parametrize("block", OF_ENGINE, ids=lambda each: f"{each.name}: {each.text[:40]}")
def test_sql_of_the_pages_is_sql(block: Any, shared_tables: Client) -> None:
    for statement in filter(str.strip, block.text.split(";\n")):
        shared_tables.query(f"EXPLAIN AST {statement.strip().rstrip(';').replace('…', '1')}")


def test_what_can_be_run_is_run() -> None:
    assert len(tutorial()) > 12
    assert len(asking()) > 12
