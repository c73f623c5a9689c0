"""The child that analyses one round of a capture and loads it: `python -m warpmeter.scheduler.analysing FD FOLDER`.

In FOLDER it finds which traces, and leaves what came of each. It takes no more memory than the settings give it: so
many traces at a time as fit, each process held to its share by the kernel (RLIMIT_DATA).
"""

import hashlib
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from warpmeter import launch, log
from warpmeter.analysis.capture import Document, capture
from warpmeter.analysis.workers import BASE, TIMES
from warpmeter.captures.ranks import Event
from warpmeter.landing import LandingError
from warpmeter.loading import Known, Loading, Target, said
from warpmeter.scheduler.analyst import FOUND, TRACES
from warpmeter.schemas.generated.capture_events_pb2 import Envelope
from warpmeter.settings import Settings
from warpmeter.store import ClickHouseError, cause

LOCAL: Final = "file://"
CHUNK: Final = 1 << 20
NICE: Final = 10
Found = tuple[str, str]
"""Of one trace: a reason, '' where all went well, and words."""


def capture_name(event: Event) -> str:
    """What the round is loaded as: the capture's id, with the round from the second one on."""
    return event.capture_id if event.sequence <= 1 else f"{event.capture_id}-{event.sequence}"


def bound(traces: Sequence[Event], most: int) -> None:
    """Hold this process and its workers to `most` bytes together."""
    largest = max((trace.raw_bytes for trace in traces), default=0)
    cpus = sorted(os.sched_getaffinity(0))
    several = max(1, min(len(cpus), most // (BASE + TIMES * largest) - 1))
    os.sched_setaffinity(0, cpus[:several])  # it starts a worker a CPU
    share = most if len(traces) == 1 else most // (several + 1)
    resource.setrlimit(resource.RLIMIT_DATA, (share, share))
    os.nice(NICE)


def fetched(trace: Event, options: dict[str, Any], folder: Path) -> str:
    """The file of a trace: where it lies, or a copy from the store. Raises OSError, ValueError when it is not whole."""
    if trace.url.startswith(LOCAL) or "://" not in trace.url:
        return trace.url.removeprefix(LOCAL)
    import fsspec

    path, digest = folder / f"{trace.host}_{trace.pid}_{Path(trace.url).name}", hashlib.sha256()
    with fsspec.open(trace.url, "rb", **options) as source, path.open("wb") as file:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
    if trace.sha256 and digest.hexdigest() != trace.sha256:
        raise ValueError(f"{trace.url} is not what was stored: its checksum is another")
    return str(path)


def analyse(settings: Settings, traces: Sequence[Event], folder: Path) -> list[Found]:
    """Analyse all, and load what could be analysed."""
    found: list[Found] = [("", "")] * len(traces)
    files: dict[str, int] = {}
    for place, trace in enumerate(traces):
        try:
            files[fetched(trace, dict(settings.traces.options), folder)] = place
        except Exception as error:  # noqa: BLE001 - a store's own errors are of any kind
            found[place] = ("analysis_failed", f"{trace.url} cannot be read: {error}")
    known = {file: _known(traces[place]) for file, place in files.items()}
    target = Target(settings.store, capture_name(traces[0]), traces[0].job_id, known=known)
    try:
        document, words = _loaded(target, list(files))
    except (LandingError, ClickHouseError) as error:
        why = cause(error) if isinstance(error, ClickHouseError) else str(error)
        words, document = f"analysed, and not loaded: {why}", None
    for file, place in files.items():
        failed = {each.file: each.why for each in document.failed} if document is not None else {file: words}
        found[place] = ("analysis_failed", failed[file]) if file in failed else ("", words)
    return found


def _loaded(target: Target, files: Sequence[str]) -> tuple[Document, str]:
    with Loading(target) as loading:
        document = capture(files, keep=loading.keep)
        return document, said(loading.load(document.findings)) if document.ranks else ""


def _known(trace: Event) -> Known:
    rank = trace.rank if trace.HasField("rank") else None
    return Known(trace.host, rank, f"{trace.host}/{trace.pid}")


def main() -> int:
    settings, (name,) = launch.received(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: os.killpg(0, signal.SIGKILL))  # the scheduler died: workers go, too
    log.setup(settings.log, "analysis")
    folder, envelope = Path(name), Envelope()
    envelope.ParseFromString((folder / TRACES).read_bytes())
    traces = list(envelope.rows)
    bound(traces, settings.scheduler.analyse_bytes)
    copies = folder / "copies"
    copies.mkdir()
    found = analyse(settings, traces, copies)
    shutil.rmtree(copies, ignore_errors=True)
    (folder / "found.part").write_text(json.dumps(dict(enumerate(found))))
    (folder / "found.part").rename(folder / FOUND)
    return 0


if __name__ == "__main__":
    sys.exit(main())
