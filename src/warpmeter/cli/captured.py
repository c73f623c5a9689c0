"""How a capture is shown on a terminal. Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.text import Text

from warpmeter.captures.progress import Progress, target, what
from warpmeter.captures.ranks import Rank
from warpmeter.cli import common
from warpmeter.quantity import quantity

COLUMNS: Final = ("round", "host", "rank", "pid", "state", "what")
COLOURS: Final = {"captured": "green", "analysed": "green", "failed": "red", "cancelled": "yellow"}


def lines(progress: Progress) -> list[tuple[Any, ...]]:
    """Rows of COLUMNS, one for each process of each round, and for each host without any."""
    ordered = sorted(progress.ranks.items(), key=lambda item: (item[0][0], _order(item[1])))
    found: list[tuple[Any, ...]] = [
        (key[0], rank.host, _number(rank), rank.pid, _state(rank.state), _what(rank)) for key, rank in ordered
    ]
    of_hosts = [(number, host) for number, host in progress.hosts if not _has_ranks(progress, number, host)]
    for number, host in sorted(of_hosts):
        event = progress.hosts[number, host]
        found.append((number, host, "", "", _state(event.state), f"{event.reason}: {event.why}"))
    return found


def _has_ranks(progress: Progress, number: int, host: str) -> bool:
    return any(key[:2] == (number, host) for key in progress.ranks)


def _order(rank: Rank) -> tuple[bool, int, str, int]:
    known = rank.last.HasField("rank")
    return not known, rank.last.rank if known else 0, rank.host, rank.pid


def _number(rank: Rank) -> object:
    return rank.last.rank if rank.last.HasField("rank") else ""


def _state(state: str) -> Text:
    return Text(state, COLOURS.get(state, ""))


def _what(rank: Rank) -> str:
    told = f"{rank.last.reason}: {rank.last.why}" if rank.last.reason else rank.last.why
    if rank.captured is None:
        return told
    stored = f"{quantity(rank.captured.bytes, 'B')} at {rank.captured.url}"
    return f"{stored}; {told}" if told else stored


LIST: Final = ("capture", "asked at", "by", "target", "what", "state", "captured", "why")


def listed(captures: Sequence[Progress]) -> Iterator[tuple[Any, ...]]:
    """Rows of LIST."""
    for each in captures:
        asked, ended = each.request, each.ended
        told = (common.said(asked.ts), asked.requested_by, target(asked), what(asked)) if asked else ("", "", "", "")
        why = "" if ended is None else f"{ended.reason}: {ended.why}" if ended.reason else ended.why
        yield each.capture_id, *told, each.state, f"{len(each.captured)} of {len(each.ranks)}", why
