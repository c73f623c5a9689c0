"""`warpmeter flame`: where the time went, out of the store, as a table or a file."""

from contextlib import closing
from pathlib import Path
from typing import Any, Final

from warpmeter import store
from warpmeter.cli import common
from warpmeter.cli.complete import FLAMES
from warpmeter.cli.flames.asking import Asking, FlameError, Found, Row, Wanted
from warpmeter.cli.flames.files import TEXTS, amount, head, put
from warpmeter.settings import Settings
from warpmeter.stacks import frame
from warpmeter.terminal import printable

FUNCTIONS: Final = 1000
LEAST: Final = 0.0005
"""What a page leaves out: less than this share of all. Files for other programs have everything."""


def show(settings: Settings, wanted: Wanted, as_json: bool) -> None:
    """Functions that took the time, in the terminal."""
    with closing(store.connect(settings.store)) as client:
        asking = Asking(client, settings)
        found = asking.graph(wanted, 0 if wanted.base else LEAST)
        rows = _changes(found)[: wanted.top] if found.base is not None else asking.top(found, wanted.top)
    if as_json:
        common.print_json({**head(found), "functions": [{**_frame(row["function"]), **row} for row in rows]})
        return
    unit = found.whose.unit
    title = f"{found.about()}; {amount(found.total, unit)} in all"
    if found.base is not None:
        both = found.total and found.base_total
        cells = [
            (
                _percent(r["share"]) if found.total else "-", _percent(r["base_share"]) if found.base_total else "-",
                f"{100 * r['change']:+.2f}" if both else "-", *_where(r),
            )
            for r in rows
        ]  # fmt: skip
        common.print_table(title, ("self", "before", "change", "function", "where"), cells)
        return
    cells = [
        (_percent(row["self_share"]), _percent(row["total_share"]), amount(row["self"], unit), *_where(row))
        for row in rows
    ]
    common.print_table(title, ("self", "total", "time" if unit == "microseconds" else unit, "function", "where"), cells)


def _where(row: Row) -> tuple[str, str]:
    told = frame(row["function"])
    return told.function, f"{told.file}:{told.line}" if told.line else told.file


def _frame(text: str) -> dict[str, Any]:
    told = frame(text)
    return {"name": told.function, "file": told.file, "line": told.line or None}


def _changes(found: Found) -> list[Row]:
    """Functions by how much the share of what they did themselves changed."""
    totals = found.rows[0]["value"] or 1, found.rows[0]["base"] or 1
    sums: dict[str, tuple[int, int]] = {}
    for row in (each for each in found.rows if each["level"] >= found.first):
        now, before = sums.get(row["label"], (0, 0))
        sums[row["label"]] = now + row["self"], before + row["base_self"]
    rows = [
        {
            "function": function, "self": now, "base_self": before, "share": round(now / totals[0], 6),
            "base_share": round(before / totals[1], 6), "change": round(now / totals[0] - before / totals[1], 6),
        }
        for function, (now, before) in sums.items()
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (-abs(row["change"]), row["function"]))


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def write(settings: Settings, wanted: Wanted, path: Path) -> None:
    """Into a file whose ending says what: a page, folded stacks, speedscope, or the rows as the API has them."""
    ending = next((each for each in FLAMES if path.name.lower().endswith(each)), None)
    if ending is None:
        raise FlameError(f"{path.name}: its ending says what to write: {', '.join(FLAMES)}", 2)
    if ending == ".speedscope.json" and wanted.base:
        raise FlameError("speedscope shows no difference: write .html, .folded or .json", 2)
    with closing(store.connect(settings.store)) as client:
        asking = Asking(client, settings)
        found = asking.graph(wanted, LEAST if ending == ".html" else 0)
        plain = found.base is not None or ending in (".folded", ".speedscope.json")
        top = [] if plain else asking.top(found, FUNCTIONS)
    put(path, TEXTS[ending](found, top))
    about = f"{path}: {found.about()}; {amount(found.total, found.whose.unit)}"
    common.err.print(printable(about), markup=False, highlight=False)
