"""What commands print: whole names in any width, times that are read, `none` for nothing, what a letter may not be."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from io import BytesIO
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from tests.tables import row
from warpmeter import tail, wire
from warpmeter.cli import asking, common, letters
from warpmeter.cli.app import app
from warpmeter.cli.replaying import as_json, refuse_within_up
from warpmeter.consumers.replay.compare import Hour, Standing
from warpmeter.consumers.replay.letterbox import Content, Letter
from warpmeter.consumers.replay.run import Outcome
from warpmeter.schemas.generated.gpu_samples_pb2 import Envelope as Gpu
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Settings, Store
from warpmeter.up.folder import Folder, Running

LETTER = "warpmeter.a-long-prefix-of-somebody.device-samples/12/1234567890"


@pytest.mark.parametrize("width", [80, common.PIPE])
def test_no_name_is_cut_whatever_the_width(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setattr(common, "out", Console(width=width, force_terminal=False))
    common.print_table("", ("letter", "refused at", "reason"), [(LETTER, "2026-01-31T12:00:00Z", "why " * 40)])
    printed = capsys.readouterr().out
    cells = "".join(line.split("│")[1].strip() for line in printed.splitlines() if line.startswith("│"))
    assert cells == LETTER
    assert "…" not in printed


def test_without_a_terminal_a_line_is_as_long_as_its_own_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "out", Console(width=common.PIPE, force_terminal=False))
    common.print_table("", ("part", "why"), [("agent", "away " * 200), ("ingest", "ok"), ("web", "日本\nlate")])
    head, *lines = capsys.readouterr().out.splitlines()
    assert lines[2] == f"│ agent  │ {('away ' * 200).strip()} │"
    assert [lines[0], *lines[3:6]] == ["┃ part   ┃ why ┃", "│ ingest │ ok │", "│ web    │ 日本 │", "│        │ late │"]
    assert (head, lines[1], lines[-1]) == ("┏━━━━━━━━┳━━━━━┓", "┡━━━━━━━━╇━━━━━┩", "└────────┴─────┘")


def test_no_name_steers_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    common.print_table("", ("job",), [("a\x1b[2J\x9b1m\rb [bold]\n日本",)])
    printed = capsys.readouterr().out
    assert {"\x1b", "\x9b", "\r"}.isdisjoint(printed)
    assert all(part in printed for part in (r"a\x1b[2J\x9b1m\rb [bold]", "日本"))


STEERS = "a\x1b]0;b\x07\x9b1m\x85\x7f\u202e日本"
SPELLED = r"a\x1b]0;b\x07\x9b1m\x85\x7f\u202e日本"


def test_no_name_in_a_table_of_the_stores_own_steers_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(asking, "CHUNK", 1)  # a character comes in parts
    assert asking._told(BytesIO(f"│ {STEERS}\t│\n".encode() + b"\x9b2J\xe6"))
    assert capsysbinary.readouterr().out.decode() == f"│ {SPELLED}\t│\n" + r"\x9b2J\xe6"
    assert not asking._told(BytesIO())


def test_no_host_steers_the_terminal_of_who_looks_at_its_messages(capsys: pytest.CaptureFixture[str]) -> None:
    host = f"{STEERS}\n2026"
    given = Gpu.GpuSample(host=host, ts=0.0, gpu=1, job_ids=[STEERS], column_sources={STEERS: STEERS})
    seen = tail.Seen(TOPICS["gpu-samples"], 0, 0, 0.0, host, b"", (given,), "")
    for line in (*tail.lines(seen), *tail.lines(replace(seen, rows=(), problem="corrupt"))):
        assert line.isprintable()
        assert rf"{SPELLED}\n2026" in line
    (line,) = tail.json_lines(seen)
    assert line.isprintable()
    assert json.loads(line)["row"]["host"] == json.loads(line)["key"] == host
    common.print_json({"host": host})
    printed = capsys.readouterr().out
    assert printed.replace("\n", "").isprintable()
    assert json.loads(printed) == {"host": host}
    with pytest.raises(typer.Exit):
        common.fail(STEERS)
    assert SPELLED in capsys.readouterr().err.replace("\n", "")


def test_nothing_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    common.print_table("", ("a",), [])
    common.print_table("letters", ("a",), [])
    assert capsys.readouterr().out == "none\nletters: none\n"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    code = (
        "import typer; from warpmeter.cli import common\n"
        "def main():\n  with common.explained(OSError): common.print_json([*range(100_000)])\n"
        "typer.run(main)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == b"[\n"
        process.stdout.close()
        assert process.stderr.read() == b""


def test_times_are_read_to_the_second_and_in_utc() -> None:
    at = datetime(2026, 1, 31, 12, 0, 0, 123_000, UTC)
    for given in (at, at.replace(tzinfo=None), at.astimezone(timezone(timedelta(hours=2))), at.timestamp()):
        assert common.said(given) == "2026-01-31T12:00:00Z"
    assert common.said(None) == ""


def test_what_is_no_time_is_a_mistake_in_the_command() -> None:
    with pytest.raises(typer.Exit) as ended:
        common.moment("soon")
    with pytest.raises(typer.Exit):
        common.moment("-9999999d")
    assert ended.value.exit_code == 2
    assert common.moment("now") - common.moment("-2h") == pytest.approx(7200, abs=60)
    words = (
        ["check", "--since", "soon"],
        ["replay", "--topic", "gpu-samples", "--from", "soon"],
        ["replay", "--topic", "gpu-samples", "--from", "1h", "--to", "2h"],
        ["dead-letters", "list", "--since", "soon"],
        ["tail", "gpu-samples", "--since", "soon"],
    )
    for each in words:
        done = CliRunner().invoke(app, [*each, *(["--store", "http://127.0.0.1:1"] if each[0] != "tail" else [])])
        assert done.exit_code == 2, (each, done.output)


def shown(headers: dict[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    value = wire.pack(TOPICS["host-samples"], "h", [row("host-samples", host="h", ts=1.0, cpu_util_permille=5)]).value
    letter = Letter("w.gpu-samples", "u", 0, 7, datetime.now(UTC), "why", "h", len(value), None)
    letters.show(letters.told(letter, Content(b"h", value, headers), "w"))
    return capsys.readouterr().out


def test_a_letter_of_another_type_says_that_its_fields_may_not_belong(capsys: pytest.CaptureFixture[str]) -> None:
    foreign = shown({"type": "HostSample"}, capsys)
    assert "says that it is a HostSample, and gpu-samples carries GpuSample: the fields below may not belong" in foreign
    assert "\n  host: h\n" in foreign
    assert "does not say its type" in shown({}, capsys)
    assert "may not belong" not in shown({"type": "GpuSample"}, capsys)


def test_a_replays_json_has_the_tables_names_and_iso_times() -> None:
    hour = Hour(1_800_000_000, in_table=10, different=9, in_rollups=9, staged=9, missing=0)
    done = Outcome("gpu-samples", "a", "b", True, (hour,), 9, 3, 1, (), (Standing(1_800_000_000, 9, 9),))
    shown = as_json(done)
    assert shown["before"] == [
        {
            "hour": "2027-01-15T08:00:00Z", "in_the_table": 10, "of_them_twice": 1, "in_its_rollups": 9,
            "in_the_topic": 9, "would_be_lost": 0,
        }
    ]  # fmt: skip
    assert shown["after"] == [{"hour": "2027-01-15T08:00:00Z", "in_the_table": 9, "in_its_rollups": 9}]
    assert (shown["rows"], shown["messages"], shown["refused"]) == (9, 3, 1)


def test_a_replay_under_up_is_told_where_its_engine_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    lock = folder.lock()
    dsns = ("http://127.0.0.1:1", "http://writer:secret@127.0.0.1:1")
    folder.announce(Running(os.getpid(), 1.0, "127.0.0.1:2", True, *dsns, "warpmeter", {}, {"ingest": os.getpid()}))
    try:
        refuse_within_up(Settings(store=Store(dsn=dsns[0])), tmp_path, dry_run=False)
        with pytest.raises(typer.Exit):
            refuse_within_up(Settings(store=Store(dsn=dsns[1])), tmp_path, dry_run=False)
    finally:
        os.close(lock)
    assert f"--store chdb://{tmp_path}/engine ;" in capsys.readouterr().err
