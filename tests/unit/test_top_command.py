"""`warpmeter top`: options that cannot be meant are refused with what can, before anything is asked."""

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from warpmeter.cli import complete
from warpmeter.cli.app import app
from warpmeter.cli.commands.top import top
from warpmeter.settings import Store
from warpmeter.top.source import ApiSource, StoreSource


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tab", "racks"], "there are hosts, gpus, jobs"),
        (["--tab", "jobs", "--sort", "-temperature_celsius"], "jobs have no such column; they have job_id, name"),
        (["--filter", "idle utl<5"], "--filter utl<5: compare one of"),
        (["--filter", "cpu<much"], "--filter cpu<much: compare one of"),
        (["--interval", "0"], "at least 0.2 seconds"),
        (["--interval", "nan"], "at least 0.2 seconds"),
        (["--url", "fleet.example.com"], "write http://host:port"),
        (["--url", "http://h:1", "--store", "http://h:2"], "give one of them"),
        (["--token-file", "/dev/null"], "give its address with --url"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: list[str], said: str) -> None:
    found = CliRunner().invoke(app, ["top", *options])
    assert found.exit_code == 2
    assert said in " ".join(found.output.split())


def test_a_token_that_no_header_carries_or_no_file_holds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("tränen\n")
    found = CliRunner().invoke(app, ["top", "--url", "http://h:1", "--token-file", str(tmp_path / "token")])
    assert (found.exit_code, "no header carries" in found.output) == (2, True)
    found = CliRunner().invoke(app, ["top", "--url", "http://h:1", "--token-file", str(tmp_path / "none")])
    assert (found.exit_code, "No such file" in found.output) == (1, True)


def test_secrets_are_not_in_the_name_of_a_source() -> None:
    assert StoreSource(Store(dsn="https://ann:secret@h:8443/x")).name == "https://h:8443/x"
    assert "secret" not in repr(ApiSource("http://h:1", "secret"))


def test_lists_and_columns_are_completed() -> None:
    command = typer.main.get_command(_only_top())
    context = typer.Context(command)
    context.params["tab"] = "gpus"
    assert complete.top_tabs("g") == ["gpus"]
    assert complete.top_sorts(context, "-pow") == ["-power_watts"]
    assert complete.top_sorts(context, "gpu") == ["gpu", "gpu_util"]


def _only_top() -> typer.Typer:
    alone = typer.Typer()
    alone.command()(top)
    return alone
