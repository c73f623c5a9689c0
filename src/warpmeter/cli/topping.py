"""`warpmeter top`: where it asks, and what it does without a terminal: one table, or JSON."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import typer
from rich.cells import cell_len

from warpmeter.cli.common import err, fail, out, print_json
from warpmeter.settings import Settings, unsendable
from warpmeter.terminal import printable
from warpmeter.top import units
from warpmeter.top.asking import Head, Refresh, Start, Wish, refreshed
from warpmeter.top.drawing import fitted, totals
from warpmeter.top.lists import Kind, Listing, Place, words
from warpmeter.top.source import ApiSource, Source, StoreSource
from warpmeter.top.view import View, senseless

TOKEN: Final = "WARPMETER_TOKEN"
LEAST_S: Final = 0.2
PLAIN_LEFT: Final = (Kind.TEXT, Kind.STATE)


def begun(tab: str, sort: str | None, text: str, interval_s: float) -> Start:
    """How to begin, by the options; ends with status 2 for what is not there."""
    listing = next((each for each in Place().tabs if each.name == tab), None)
    if listing is None:
        fail(f"--tab {tab}: there are {', '.join(each.name for each in Place().tabs)}", 2)
    name = (sort or listing.sort).removeprefix("-")
    if listing.column(name) is None:
        fail(
            f"--sort {name}: {tab} have no such column; they have {', '.join(each.name for each in listing.columns)}", 2
        )
    for word in senseless(text, listing):
        numbers = [each.name for each in listing.columns if each.kind not in PLAIN_LEFT]
        fail(f"--filter {word}: compare one of {', '.join(numbers)} with a number: 'util<5 power>600'", 2)
    if not interval_s >= LEAST_S:
        fail(f"--interval {interval_s:g}: at least {LEAST_S:g} seconds", 2)
    return Start(interval_s, tab, name, bool(sort and sort.startswith("-")), text)


def api(url: str, token_file: Path | None) -> Source:
    """The API at `url`; ends with status 2 for what is no address. Raises OSError for a file that cannot be read."""
    found = urlsplit(url)
    if found.scheme not in ("http", "https") or not found.hostname:
        fail(f"--url {url}: write http://host:port or https://host:port", 2)
    token = token_file.read_text().strip() if token_file is not None else os.environ.get(TOKEN, "").strip()
    if why := unsendable(token):
        fail(f"the token of {token_file or TOKEN}: {why}", 2)
    return ApiSource(url.rstrip("/"), token)


def store_of(settings: Settings) -> Source:
    """The store that the settings name."""
    return StoreSource(settings.store)


def run(source: Source, start: Start, once: bool, as_json: bool) -> None:
    """The live list on a terminal, else one table or JSON. Raises SourceError for these, and typer.Exit at the end."""
    live = sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
    if live and not once and not as_json:
        raise typer.Exit(_live(source, start))
    view = View(_listing(start), start.sort, start.descending, start.text)
    refresh = _asked(source, view)
    if as_json:
        print_json(_document(refresh, view))
    else:
        _table(refresh, view)


def _live(source: Source, start: Start) -> int:
    from warpmeter.top.app import Top

    app = Top(source, start)
    ended = app.run()
    return ended if ended is not None else app.return_code or 0


def _listing(start: Start) -> Listing:
    return next(each for each in Place().tabs if each.name == start.tab)


def _asked(source: Source, view: View) -> Refresh:
    """What is shown, sorted and looked for by the source where it has more rows than it gives."""
    refresh = refreshed(source, Wish(Place(), view.listing), Head(), 0.0)
    view.show(refresh.table)
    if question := view.question():
        wish = Wish(Place(), view.listing, tuple(question.items()))
        refresh = refreshed(source, wish, Head(), 0.0)
        view.show(refresh.table, wish.searched)
    return refresh


def _rows(view: View) -> list[Mapping[str, Any]]:
    places = {name: place for name, place in view.table.places.items() if name != "total"}
    return [{name: view.table.rows[at][place] for name, place in places.items()} for at in view.order]


def _document(refresh: Refresh, view: View) -> dict[str, Any]:
    return {
        "fleet": refresh.fleet,
        "alerts": refresh.alerts,
        "tab": view.listing.name,
        "total": view.table.total,
        "rows": _rows(view),
    }


def _table(refresh: Refresh, view: View) -> None:
    for group in totals(refresh):
        out.print(printable("".join(text for text, _ in group)), markup=False, highlight=False, soft_wrap=True)
    fleet = refresh.fleet
    shares = [(title, fleet.get(name)) for title, name in (("GPU util", "gpu_util"), ("SM active", "sm_active"))]
    said = [f"{title} {units.ratio(value)}" for title, value in shares if value is not None]
    said += [f"Power {units.watts(fleet['power_watts'])}"] if fleet.get("power_watts") is not None else []
    if said:
        out.print("   ".join(said), markup=False, highlight=False, soft_wrap=True)
    if view.order:
        for line in _lines(view):
            sys.stdout.write(line.rstrip() + "\n")
    else:
        out.print(f"{view.listing.title}: none", markup=False, highlight=False)
    if view.table.cut:
        read, there = len(view.table.rows), view.table.total
        err.print(f"{read:,} of {there:,} rows read: those that come first in this order", highlight=False)


def _lines(view: View) -> Iterator[str]:
    """Plain columns, each as wide as its longest value."""
    columns, rows = view.listing.columns, _rows(view)
    cells = [[printable(words(row.get(each.name), each.kind)) for row in rows] for each in columns]
    widths = [max(map(cell_len, (each.title, *texts))) for each, texts in zip(columns, cells, strict=True)]
    for line in ([each.title for each in columns], *zip(*cells, strict=True)):
        shown = zip(line, widths, columns, strict=True)
        yield "  ".join(fitted(text, width, each.kind in PLAIN_LEFT) for text, width, each in shown)
