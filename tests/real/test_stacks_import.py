"""`warpmeter stacks import`: profiles of others, over the bus, in the store once each; or a line that says why not."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.brokers import Broker
from tests.engine import EngineServer
from tests.engine.template import with_tables
from tests.ingest_process import IngestProcess, Table, make_topics, settings_for
from warpmeter.cli import importing
from warpmeter.cli.app import app
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka, Settings
from warpmeter.stacks import Weighed, folded, identity
from warpmeter.stacks.profile import CUT, DEEPEST, Part, Profile, Who
from warpmeter.stacks.reading import read

GOLDEN = Path(__file__).parents[1] / "golden" / "stacks"
STACKS = TOPICS["stack-samples"]
AT = f"{datetime.now(UTC) - timedelta(days=1):%FT%TZ}"
NOWHERE = "127.0.0.1:9"
Import = Callable[..., Result]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineServer]:
    with closing(with_tables(tmp_path_factory.mktemp("engine") / "data")) as server:
        yield server


@pytest.fixture
def settings(broker: Broker, engine: EngineServer, topic_prefix: str, tmp_path: Path) -> Settings:
    found = settings_for(broker, engine, topic_prefix, tmp_path)
    make_topics(found)
    return found


def runs(kafka: Kafka) -> Import:
    """The command, against that bus."""

    def run(*words: str | Path, fails: int = 0) -> Result:
        env = {
            **os.environ, "WARPMETER_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
            "WARPMETER_KAFKA__TOPIC_PREFIX": kafka.topic_prefix, "COLUMNS": "300",
        }  # fmt: skip
        done = CliRunner().invoke(app, ["stacks", "import", *map(str, words)], env=env)
        assert done.exit_code == fails, done.output
        return done

    return run


@pytest.mark.long
def test_profiles_of_every_format_land_once_each(settings: Settings, engine: EngineServer, tmp_path: Path) -> None:
    host, files = f"{settings.kafka.topic_prefix}-h", sorted(GOLDEN.iterdir())
    run = runs(settings.kafka)
    said = json.loads(run(*files, "--host", host, "--job", "4711", "--rank", 3, "--at", AT, "--json").stdout)
    assert [each["format"] for each in said] == ["pprof", "pprof", "perf script", "perf script", "folded", "speedscope"]
    expected = {each.name: read(each)[1] for each in files}
    rows = sum(len(part.stacks) for profile in expected.values() for part in profile.parts)
    assert sum(each["rows"] for each in said) == rows
    table = Table(engine, settings.kafka.topic_prefix)
    with closing(IngestProcess(settings, tmp_path / "ingest.log")) as process:
        table.reaches(rows, process, STACKS)
        assert process.stop() == 0
    landed = table.query(
        "SELECT source, unit, sum(weight), sum(samples), count() FROM stack_samples WHERE host LIKE {tag:String} "
        f"AND job_id = '4711' AND rank = 3 AND ts = parseDateTime64BestEffort('{AT}') GROUP BY ALL"
    )
    by_source: dict[tuple[str, str], list[int]] = {}
    for name, profile in expected.items():
        of = by_source.setdefault((f"import:{name.split('.')[0]}", profile.unit), [0, 0, 0])
        stacks = [stack for _, stack in profile.stacks()]
        for at, more in enumerate((profile.weight, sum(stack.samples for stack in stacks), len(stacks))):
            of[at] += more
    assert {(source, unit): counts for source, unit, *counts in landed} == by_source
    assert table.value("SELECT countIf(empty(frames)) FROM stack_samples WHERE host LIKE {tag:String}") == 0
    kept = table.query("SELECT stack, frames FROM stack_frames FINAL WHERE owner = '4711'")
    assert {tuple(frames) for _, frames in kept} == {
        stack.frames for profile in expected.values() for _, stack in profile.stacks()
    }
    assert all(identity(frames) == stack for stack, frames in kept)


@pytest.mark.long
def test_many_stacks_go_in_messages_that_the_topic_takes(
    settings: Settings, engine: EngineServer, tmp_path: Path
) -> None:
    deep = ("loop (a.py:1)",) * 100_000
    wide = [Weighed((f"f{number}{'ü' * 600}", f"g{number}"), number + 1) for number in range(3000)]
    file = tmp_path / "many.folded"
    file.write_text("".join(folded.lines([*wide, Weighed(deep, 7)])))
    host = f"{settings.kafka.topic_prefix}-many"
    runs(settings.kafka)(file, "--host", host, "--rate", 100, "--at", "5m")
    table = Table(engine, settings.kafka.topic_prefix)
    with closing(IngestProcess(settings, tmp_path / "ingest.log")) as process:
        table.reaches(3001, process, STACKS)
        assert process.stop() == 0
    weight, unit, longest, deepest = table.query(
        "SELECT sum(weight), any(unit), max(length(frames[1])), max(length(frames)) FROM stack_samples "
        "WHERE host LIKE {tag:String}"
    )[0]
    assert (weight, unit) == ((3000 * 3001 // 2 + 7) * 10_000, "microseconds")
    assert (longest, deepest) == (importing.FRAME_BYTES, DEEPEST)


def test_a_dry_run_sends_nothing_and_says_what_it_would_send() -> None:
    run = runs(Kafka(NOWHERE))
    said = run(GOLDEN / "cpu.pprof", "--host", "h", "--source", "mine", "--dry-run").stdout
    assert "Would send" in said
    assert all(text in said for text in ("import:mine", "30,000", "microseconds", "2026-11-30T08:22:18Z"))
    (told,) = json.loads(run(GOLDEN / "py-spy.raw.txt", "--host", "h", "--rate", 20, "--dry-run", "--json").stdout)
    assert (told["unit"], told["weight"]) == ("microseconds", 67 * 50_000)
    (told,) = json.loads(run(GOLDEN / "heap.pprof", "--host", "h", "--unit", "count", "--dry-run", "--json").stdout)
    assert told["unit"] == "count"


def test_a_command_that_shows_all_of_it_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    profile = Profile("count", (Part(Who(), (Weighed(("a",), 1),)),))
    first = importing.Imported("a", "folded", "import:mine", 1_790_000_000.0, 30.0, profile)
    later = replace(first, file="b", at=1_790_003_600.0, duration_s=0.0)
    timed = replace(first, source="import:it's", profile=replace(profile, unit="microseconds"))
    importing.show([first, later, timed], importing.Whose("h", "47 11"), dry=False)
    said = [line for line in capsys.readouterr().err.splitlines() if "warpmeter flame" in line]
    window = "--since 2026-09-21T14:13:20Z --until "
    assert [line.partition("warpmeter ")[2] for line in said] == [
        f"flame --job '47 11' --host h --source import:mine --unit count {window}2026-09-21T15:13:22Z",
        f"""flame --job '47 11' --host h --source 'import:it'"'"'s' {window}2026-09-21T14:13:51Z""",
    ]


def test_without_a_time_in_it_a_profile_is_of_when_its_file_was_written(tmp_path: Path) -> None:
    file = tmp_path / "a.b.folded"
    file.write_text("a;b 3\n")
    os.utime(file, (1_790_000_000, 1_790_000_000))
    (told,) = json.loads(runs(Kafka(NOWHERE))(file, "--host", "h", "--dry-run", "--json").stdout)
    assert (told["at"], told["source"]) == (f"{datetime.fromtimestamp(1_790_000_000, UTC):%FT%TZ}", "import:a")
    os.utime(file, (5, 5))
    said = runs(Kafka(NOWHERE))(file, "--host", "h", "--dry-run", fails=1)
    assert "say with --at when it was taken" in said.output


def test_what_the_store_keeps_no_longer_is_said() -> None:
    said = runs(Kafka(NOWHERE))(GOLDEN / "cpu.pprof", "--host", "h", "--at", "2021-01-01", "--dry-run")
    assert "is of 2021-01-01T00:00:00Z, and the store keeps such rows for" in said.stderr


def test_a_mistake_is_said_in_a_line_and_nothing_is_sent(tmp_path: Path) -> None:
    run, good = runs(Kafka(NOWHERE)), GOLDEN / "cpu.pprof"
    (bad := tmp_path / "bad").write_text("a;b x\n")
    assert f"{bad}: line 1: 'x' is no number of samples" in run(good, bad, "--host", "h", fails=1).output
    assert "there is no such file" in run(tmp_path / "none", "--host", "h", fails=1).output
    assert (
        "is weighed in microseconds, not in bytes"
        in run(GOLDEN / "perf.txt", "--host", "h", "--unit", "bytes", fails=1).output
    )
    assert "is no rate of sampling" in run(good, "--host", "h", "--rate", 0, fails=1).output
    assert "give one of them" in run(good, "--host", "h", "--rate", 9, "--unit", "count", fails=2).output
    assert "--host is a name" in run(good, "--host", " ", fails=2).output
    for name in ("--host", "--job", "--source"):
        said = run(good, "--host", "h", name, "\udcff", fails=2).output
        assert f"{name} is a name of 1 to" in said
        assert "that can be printed" in said
    assert run(good, fails=2).exit_code == 2


def test_a_file_whose_name_is_no_text_has_one_all_the_same(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"a\xffb.folded")).write_text("a;b 3\n")
    found = importing.imported(next(tmp_path.iterdir()), importing.Whose("h"), importing.Weights())
    (told,) = importing.rows(found, importing.Whose("h"))
    assert (told.source, Path(found.file).name) == ("import:a\ufffdb", "a\ufffdb.folded")


@pytest.mark.long
def test_a_bus_that_is_away_or_that_nobody_prepared_is_said(broker: Broker, topic_prefix: str) -> None:
    said = runs(Kafka(NOWHERE))(GOLDEN / "cpu.pprof", "--host", "h", fails=1).output
    assert f"cannot reach Kafka at {NOWHERE}" in said
    said = runs(Kafka(broker.bootstrap_servers, topic_prefix))(GOLDEN / "cpu.pprof", "--host", "h", fails=1).output
    assert f"has no topic {topic_prefix}.stack-samples: `warpmeter topics --create` makes it" in said


def test_a_bus_that_goes_away_is_said_with_what_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "TAKEN_S", 1.0)
    monkeypatch.setattr(importing, "check", lambda *_: ())
    found = importing.imported(GOLDEN / "cpu.pprof", importing.Whose("h"), importing.Weights())
    with pytest.raises(importing.NotTakenError, match=r"did not take all of it \(.*\); nothing was imported"):
        importing.send(Kafka(NOWHERE), [found], importing.Whose("h"))


def test_who_gives_up_is_told_what_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupts(tuple[str, ...]):
        def __iter__(self) -> Iterator[str]:
            raise KeyboardInterrupt

    monkeypatch.setattr(importing, "GIVEN_UP_S", 0.1)
    monkeypatch.setattr(importing, "check", lambda *_: ())
    stacks = (Weighed(("a",), 1),) * 1001 + (Weighed(Interrupts(("b",)), 1),)
    found = importing.Imported("f", "folded", "import:f", 1.6e9, 1.0, Profile("count", (Part(Who(), stacks),)))
    with pytest.raises(importing.NotTakenError, match=r"all of it \(it was interrupted\); nothing was imp") as given_up:
        importing.send(Kafka(NOWHERE), [found], importing.Whose("h"))
    assert given_up.value.exit_status == 130


def test_rows_fit_into_messages() -> None:
    who, stack = Who(1, "p" * 1_000_000, 2, "ü" * 1_000_000), Weighed(("ü" * 10_000,) * 5000, 1)
    found = importing.Imported("f", "folded", "import:f", 1.6e9, 1e9, Profile("count", (Part(who, (stack, stack)),)))
    told = list(importing.rows(found, importing.Whose("h")))
    assert all(row.ByteSize() < 600_000 for row in told)
    assert [len(batch) for batch in importing.batches(told)] == [1, 1]
    assert told[0].frames[0] == CUT
    assert told[0].period_ms == importing.LONGEST_MS
    small = replace(found, profile=Profile("count", (Part(Who(1, "p"), (Weighed(("a",), 1),) * 2500),)))
    assert [len(batch) for batch in importing.batches(importing.rows(small, importing.Whose("h")))] == [1000, 1000, 500]
