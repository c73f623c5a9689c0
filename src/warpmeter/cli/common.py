"""What the commands share: the settings in force, how a failure is said, tables and JSON."""

import dataclasses
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from warpmeter import clock
from warpmeter.settings import Agent, Kafka, Reports, Settings, Store
from warpmeter.terminal import printable, printable_json
from warpmeter.up.folder import EMBEDDED_TOPICS, Folder, Running, UpError

PIPE: Final = 10_000
"""Columns of what is no terminal: a program that reads lines gets each whole."""

PADDED: Final = re.compile(" +([│┃])$")
RULE: Final = re.compile("[┏┡└├][━─┳╇┴┼]*.$")

out = Console(width=None if sys.stdout.isatty() else PIPE)
err = Console(stderr=True, width=None if sys.stderr.isatty() else PIPE)
_chosen: dict[str, Path | None] = {}


def choose(config_file: Path | None) -> None:
    """Remember the global options."""
    _chosen["config"] = config_file


def fail(message: str, code: int = 1) -> NoReturn:
    """End with one clear message on stderr."""
    err.print("[bold red]warpmeter:[/] ", end="")
    err.print(printable(message), markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(code)


@contextmanager
def explained(*expected: type[Exception]) -> Iterator[None]:
    """Turn the errors that a command expects into a message and exit status 1, or the error's `exit_status`."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except BrokenPipeError:  # `| head` has seen enough: click ends the command in silence
        raise
    except Exception as error:
        from warpmeter.config import ConfigError

        if not isinstance(error, (*expected, UpError, ConfigError)):
            raise
        fail(_said(error), getattr(error, "exit_status", 1))


def _said(error: Exception) -> str:
    """The error's words; the store's client, which a host with the agent alone does not have, has its own."""
    if not type(error).__module__.startswith("clickhouse_connect"):
        return str(error)
    from warpmeter.store import reason

    return reason(error)


def settings(data: Path | None = None, **tables: Mapping[str, Any]) -> Settings:
    """The settings in force: option, variable, file; where none names a broker or store, what `up` runs here."""
    from warpmeter import config  # not above: what needs no settings (`analyze`) starts a third sooner without pydantic

    given = {name: {key: value for key, value in table.items() if value is not None} for name, table in tables.items()}
    try:
        loaded = config.load(_chosen.get("config"), {name: table for name, table in given.items() if table})
    except config.ConfigError as error:
        fail(str(error), 2)
    if data is not None:
        loaded = dataclasses.replace(loaded, engine=dataclasses.replace(loaded.engine, data=data))
    found = running(loaded.engine.data)
    return loaded if found is None else _pointed_at(loaded, found, Folder(loaded.engine.data))


def socket_folder(loaded: Settings) -> Path:
    """Where PyTorch finds this host's agent: by the settings, or as a part of the `up` that runs here."""
    given, data = loaded.agent.kineto_socket_dir, loaded.engine.data
    return given if given != Agent().kineto_socket_dir or running(data) is None else Folder(data).kineto


def running(data: Path) -> Running | None:
    """The `up` that runs on `data`, if any."""
    return Folder(data).running()


def _pointed_at(loaded: Settings, found: Running, folder: Folder) -> Settings:
    kafka, store, ingest = loaded.kafka, loaded.store, loaded.ingest
    if kafka.bootstrap_servers in (Kafka().bootstrap_servers, found.bootstrap_servers):
        kafka = dataclasses.replace(kafka, bootstrap_servers=found.bootstrap_servers)
        kafka = dataclasses.replace(kafka, **EMBEDDED_TOPICS) if found.embedded_bus else kafka
        own = found.embedded_bus and ingest.ledger_dir is None
        ingest = dataclasses.replace(ingest, ledger_dir=folder.ledger) if own else ingest
    if store.dsn == Store().dsn:
        store = dataclasses.replace(store, dsn=found.dsn, database=found.database)
    reports = loaded.reports
    if reports.url == Reports().url:
        reports = dataclasses.replace(reports, url=str(folder.reports))
    return dataclasses.replace(loaded, kafka=kafka, store=store, ingest=ingest, reports=reports)


def nothing_named(loaded: Settings) -> bool:
    """Neither a broker nor a store is named: those of an `up` here are meant."""
    return loaded.kafka.bootstrap_servers == Kafka().bootstrap_servers and loaded.store.dsn == Store().dsn


def refuse_elsewhere(loaded: Settings) -> None:
    """End where the broker is that of an `up` on another folder: that folder's ledger alone knows what is settled."""
    if loaded.ingest.ledger_dir is not None or running(loaded.engine.data) is not None:
        return
    for folder in elsewhere():
        found = folder.running()
        if found is not None and found.embedded_bus and found.bootstrap_servers == loaded.kafka.bootstrap_servers:
            fail(
                f"the broker at {found.bootstrap_servers} is that of `warpmeter up` on {folder.root} (pid {found.pid}) "
                f"with its ledger: name it with --data {folder.root}",
                2,
            )


def elsewhere() -> list[Folder]:
    """Data folders that processes of this user hold, as `up` does while it runs."""
    found = {name.parent for name in _open_files() if name.name == "up.lock"}
    return [Folder(root) for root in sorted(found)]


def _open_files() -> Iterator[Path]:
    """What processes of this user have open; others hide it."""
    for descriptors in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):
            for each in descriptors.iterdir():
                with suppress(OSError):  # closed meanwhile
                    yield each.readlink()


def writable(loaded: Settings, data: Path | None) -> Settings:
    """The same settings with the right to write, where the store is that of a running `up`."""
    found = running(data or loaded.engine.data)
    if found is None or loaded.store.dsn != found.dsn:
        return loaded
    return dataclasses.replace(loaded, store=dataclasses.replace(loaded.store, dsn=found.write_dsn))


def moment(text: str) -> float:
    """A time as every command takes it (`15m`, `-2h`, `now`, 2026-01-31T12:00), in seconds since the epoch; exit
    status 2 for what is none."""
    now = time.time()
    try:
        found = now if text == "now" else clock.moment(text.removeprefix("-"), now)
        datetime.fromtimestamp(found, UTC)
    except (ValueError, OverflowError) as error:
        fail(f"{text} is no time: {error}" if "is no time" not in str(error) else str(error), 2)
    return found


def said(at: datetime | float | None) -> str:
    """A time as people read it, UTC, to the second."""
    if at is None:
        return ""
    found = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
    found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    return f"{found:%Y-%m-%dT%H:%M:%SZ}"


def plain(value: Any) -> Any:
    """A value as JSON takes it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(printable_json(json.dumps(plain(value), indent=2, ensure_ascii=False)) + "\n")


COLOURS: Final = {"ok": "green", "warning": "yellow", "failed": "red", "running": "green", "stopped": "red"}


def coloured(state: str) -> Text:
    """A state in its colour."""
    return Text(state, COLOURS.get(state, ""))


def cell(value: Any) -> Text:
    """As it is: what hosts and brokers say is never markup, and steers no terminal."""
    if isinstance(value, Text):
        return value if value.plain.isprintable() else Text(printable(value.plain), value.style)
    return Text("" if value is None else printable(str(value)))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table; colours only where a terminal reads it. What is too long for it goes on in the next line, for names are
    there to be used; without rows it says so. Without a terminal a row is a line, no longer than what stands in it."""
    if not rows:
        out.print(f"{title}: none" if title else "none", markup=False, highlight=False)
        return
    table = Table(title=title or None, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(cell(each) for each in row))
    if out.width < PIPE:
        out.print(table)
        return
    with out.capture() as whole:
        out.print(table)
    out.file.write("".join(f"{line}\n" for line in _trimmed(whole.get().splitlines())))


def _trimmed(lines: Sequence[str]) -> Iterator[str]:
    """A table's lines without what fills up the last column: its longest cell would make each as long as that one."""
    ends = [PADDED.sub(r" \1", line) for line in lines]
    head = next((len(line) for line in ends if line.startswith("┃")), PIPE)
    for line in ends:
        yield line[: head - 1] + line[-1] if RULE.match(line) and len(line) > head else line
