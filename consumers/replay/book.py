"""What a replay mends in `ingest_batches`: offsets that no span held and that landed now, and spans that overlapped.

Both are what `warpmeter check` complains of, and both are put right by landing their rows anew. A row of the replay's
own, with no rows of its own to count (those are booked by its inserts), takes the place of what it covers.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from warpmeter.consumers.replay.hours import Range
from warpmeter.consumers.replay.offsets import Landed
from warpmeter.consumers.replay.rollups import BOOK, named, on_cluster
from warpmeter.consumers.replay.staging import SPAN, Run
from warpmeter.settings import Store
from warpmeter.store import Client

COLUMNS: Final = "table, topic_uuid, partition, first, last, rows, min_ts, max_ts, inserted_at, token"


def mended(booked: Sequence[Landed], fresh: Iterable[Landed], wanted: Range) -> list[Landed]:
    """The rows to write for one partition: what overlapped, as one span, and what was in no span.

    Only where every row of it lies in the range: of the others a part is as it was.
    """
    clusters: list[list[Landed]] = []
    for span in sorted(booked, key=lambda span: (span.first, span.last)):
        if clusters and span.first <= max(each.last for each in clusters[-1]):
            clusters[-1].append(span)
        else:
            clusters.append([span])
    doubled = [_united(each) for each in clusters if len(each) > 1 and all(span.inside(wanted) for span in each)]
    return [*doubled, *(span for span in fresh if span.inside(wanted))]


def _united(spans: Sequence[Landed]) -> Landed:
    first = replace(spans[0], last=max(span.last for span in spans))
    return replace(first, min_ts=min(span.min_ts for span in spans), max_ts=max(span.max_ts for span in spans))


def staged_spans(client: Client, store: Store, run: Run) -> dict[str, Landed]:
    """By the token of its span, each batch in the staging table."""
    rows = client.query(
        f"SELECT {SPAN}, toUnixTimestamp64Milli(min(ts)) / 1000, toUnixTimestamp64Milli(max(ts)) / 1000 "
        f"FROM {named(store, run.name('loading'))} GROUP BY {SPAN}"
    ).result_rows
    found = {}
    for token, min_ts, max_ts in rows:
        first, _, last = token.rpartition("/")[2].partition("-")
        found[token] = Landed(int(first), int(last), min_ts, max_ts)
    return found


def write(client: Client, store: Store, run: Run, uuid: str, rows: Iterable[tuple[int, Landed]]) -> None:
    """Keep the rows to write (partition, span) beside the staging table."""
    values = [
        f"('{run.table}', '{uuid}', {partition}, {span.first}, {span.last}, 0, toDateTime64({span.min_ts}, 3, 'UTC'), "
        f"toDateTime64({span.max_ts}, 3, 'UTC'), now64(3, 'UTC'), 'replay/{run.id}/{BOOK}')"
        for partition, span in rows
    ]
    for at in range(0, len(values), 1000):
        some = ", ".join(values[at : at + 1000])
        settings = {"insert_deduplication_token": f"book/{at}"}
        client.command(f"INSERT INTO {named(store, run.totals(BOOK))} ({COLUMNS}) VALUES {some}", settings=settings)


def delete(store: Store, run: Run) -> str:
    """The mutation that takes out what the kept rows stand for."""
    kept = f"(SELECT groupArray((topic_uuid, partition, first, last)) FROM {named(store, run.totals(BOOK))})"
    return (
        f"ALTER TABLE {named(store, store.local(BOOK))}{on_cluster(store)} DELETE WHERE table = '{run.table}' "
        "AND arrayExists(kept -> kept.1 = topic_uuid AND kept.2 = partition AND kept.3 <= first AND last <= kept.4, "
        f"{kept})"
    )
