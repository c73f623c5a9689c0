"""What was analysed into the store, all ranks of a capture at once: for `warpmeter analyze --load` and the scheduler.

    with Loading(Target(store, "capture-7", job_id="42")) as loading:
        document = analysis.capture.capture(files, keep=loading.keep)
        print(said(loading.load(document.findings)))

Each trace is turned into rows in the process that analysed it, and waits in a file of a private folder: the events of
all ranks together may be more than fits into memory, and an embedded engine takes them from one process alone.
"""

import pickle
import re
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from warpmeter import landing
from warpmeter.analysis import rows
from warpmeter.analysis.capture import Keep
from warpmeter.analysis.findings import Finding
from warpmeter.analysis.job.extract import RankExtract
from warpmeter.analysis.job.rows import collectives
from warpmeter.analysis.report import Material, RankReport
from warpmeter.analysis.trace import Trace
from warpmeter.landing import Landed, Process
from warpmeter.settings import Store
from warpmeter.store import Client, connect

_ENDINGS: Final = re.compile(r"(\.pt)?(\.trace)?(\.json)?(\.gz|\.zst|\.zstd)?$")
_GLOB: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Known:
    """What is known of a file's process beside what its trace tells; `rank` wins over the trace's.

    `called` tells it from others of the capture where neither the trace nor this says a rank: `ant/4711`, host and pid.
    """

    host: str
    rank: int | None = None
    called: str = ""


@dataclass(frozen=True)
class Target:
    """Where it goes, and as what. `capture` None: the name of what was given with the time of its first event.

    `host` None: as each trace tells. `known`: by file, for who knows more.
    """

    store: Store
    capture: str | None = None
    job_id: str = ""
    host: str | None = None
    known: Mapping[str, Known] = field(default_factory=dict)


@dataclass(frozen=True)
class Waiting:
    """A rank whose rows wait in `path`. `began_ns`: from when its times count, nanoseconds since the epoch."""

    path: Path
    process: Process
    extract: RankExtract
    began_ns: int


def keep(on: Material, report: RankReport, extract: RankExtract, folder: Path, target: Target) -> None:
    """Write a rank's rows into a file of `folder`."""
    path = folder / f"{uuid.uuid4().hex}.rows"
    waiting = Waiting(path, _process(on.trace, extract, target), extract, on.trace.epoch_ns + rows.began_ns(on.trace))
    with path.with_suffix(".part").open("wb") as file:
        pickle.dump(waiting, file, pickle.HIGHEST_PROTOCOL)
        pickle.dump(rows.rows(on, report), file, pickle.HIGHEST_PROTOCOL)
    path.with_suffix(".part").rename(path)


def _process(trace: Trace, extract: RankExtract, target: Target) -> Process:
    told = Known((extract.host or "") if target.host is None else target.host)
    known = target.known.get(trace.file, told)
    ranked = known.rank is not None or trace.distributed is not None
    rank = trace.rank if known.rank is None else known.rank
    return Process(rank, known.host, ranked, rows.captured_at_ns(trace), "" if ranked else known.called)


class Loading:
    """From the first look at the store to the rows in it. A context: its files go with it.

    Raises LandingError and ClickHouseError, before anything is analysed when the store is away or not migrated.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        with ExitStack() as stack:
            self._client: Client = stack.enter_context(connect(target.store))
            landing.begin(self._client, target.capture or "-")
            self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warpmeter-load-")))
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def keep(self) -> Keep:
        """What to do with each trace where it is analysed."""
        return partial(keep, folder=self._folder, target=self._target)

    def load(self, findings: Sequence[Finding], given: Sequence[str] = ()) -> Landed:
        """Load all that was kept, with what stands out between its ranks (`Document.findings`).

        `given`: files, folders or patterns as a person wrote them; they name the capture where nothing else does.
        A process whose trace was not kept (it could not be analysed) stays as it was.
        """
        ranks = sorted(self._waiting(), key=lambda each: (each.process.rank, each.extract.file))
        landing.refuse_doubled((each.process, each.extract.file) for each in ranks)
        load = landing.begin(self._client, self._target.capture or named(given, ranks), self._target.job_id)
        extracts = [each.extract for each in ranks]
        met = collectives(extracts, [each.began_ns for each in ranks])
        workload, together = self._job_name(), rows.together(findings)
        found = ((each.process, _tables(each, own, workload, together)) for each, own in zip(ranks, met, strict=True))
        puts = landing.put_all(self._client, self._target.store, load, found)
        return landing.publish(self._client, self._target.store, load, puts)

    def _waiting(self) -> Iterator[Waiting]:
        for path in self._folder.glob("*.rows"):
            with path.open("rb") as file:
                yield pickle.load(file)

    def _job_name(self) -> str:
        """The job's name by its processes: what its traces are of, where they do not say."""
        if not self._target.job_id:
            return ""
        found = self._client.query(
            "SELECT argMax(name, last_at) FROM job_trees WHERE job_id = {job:String}", {"job": self._target.job_id}
        ).result_rows
        return str(found[0][0])


def _tables(waiting: Waiting, met: Mapping[str, Any], workload: str, together: Mapping[str, Any]) -> landing.Tables:
    with waiting.path.open("rb") as file:
        pickle.load(file)
        tables: dict[str, list[dict[str, Any]]] = pickle.load(file)
    for table in ("trace_ranks", "trace_kernels"):
        for group in tables[table]:
            group["workload"] = [own or workload for own in group["workload"]]
    (rank,) = tables["trace_ranks"]
    whole = {**rank, **{name: [value] for name, value in together.items()}}
    return {**tables, "trace_ranks": [whole], "trace_collectives": [met]}


def named(given: Sequence[str], ranks: Sequence[Waiting]) -> str:
    """The name of what was given (a file, a folder, the folder of several) and when its first event was (UTC)."""
    if not given:
        raise landing.LandingError("a capture needs a name: give one (--capture)")
    first = given[0].rstrip("/") if len(given) == 1 else _folder(given[0])
    while _GLOB.search(first):
        first = _folder(first)
    name = first.rpartition("/")[2] if "://" in first else Path(first).resolve().name
    stem = _ENDINGS.sub("", name.encode(errors="replace").decode()) or "capture"
    began = [each.process.captured_at_ns for each in ranks if each.process.captured_at_ns is not None]
    return f"{stem}-{datetime.fromtimestamp(min(began) // 10**9, UTC):%Y%m%dT%H%M%S}" if began else stem


def _folder(path: str) -> str:
    return path.rstrip("/").rpartition("/")[0]


def said(landed: Landed) -> str:
    """One line for a person."""
    ranks = f"{len(landed.processes)} rank{'s' * (len(landed.processes) != 1)}"
    parts = [f"loaded {ranks}, {landed.rows:,} rows, as capture {landed.capture}"]
    parts += [f"in place of what was there of {len(landed.replaced)}"] if landed.replaced else []
    parts += [f"{len(landed.overtaken)} are there from a load that began later"] if landed.overtaken else []
    parts += [f"what was replaced is not gone yet ({landed.left}): the next load takes it away"] if landed.left else []
    return "; ".join(parts)
