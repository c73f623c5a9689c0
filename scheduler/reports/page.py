"""A document as one page of HTML, as the HTML of a mail, and as plain text."""

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jinja2

from warpmeter.scheduler.reports import columns
from warpmeter.scheduler.reports.document import Document
from warpmeter.scheduler.reports.kinds import Inline, Shown, Table

TEMPLATES: Final = Path(__file__).parent / "templates"
MAIL_ROWS: Final = 10
"""Rows of a table that a mail shows: clients cut what is longer than 102 kB."""
LONGEST_WORD: Final = 16
_STEERING: Final = dict.fromkeys(
    (*range(9), 11, 12, *range(14, 32), 127, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"
)
"""What HTML does not allow, and what turns the direction of all text after it: whoever starts a job names it."""


def page(document: Document) -> str:
    """One page that needs nothing else; texts out of the store are escaped, whatever they hold."""
    images = {each.name: f"data:image/png;base64,{base64.b64encode(each.png).decode()}" for each in document.figures}
    return _render(document, images, mail=False)


def mail(document: Document, stem: str) -> tuple[str, tuple[Inline, ...]]:
    """The HTML of a mail, and the images that it shows."""
    inline = tuple(
        Inline(f"{each.name}.{stem}@warpmeter", f"{each.name}.png", "image/png", each.png) for each in document.figures
    )
    images = {figure.name: f"cid:{image.cid}" for figure, image in zip(document.figures, inline, strict=True)}
    return _render(document, images, mail=True), inline


def text(document: Document) -> str:
    """What a mail says to a reader of plain text: the summary, the figures at the top and the findings."""
    lines = [document.title, document.subtitle, "", document.summary, ""]
    lines += [f"  {tile.label}: {tile.value}{f' ({tile.note})' if tile.note else ''}" for tile in document.tiles]
    if document.findings:
        lines += ["", "What to act on:"]
        for finding in document.findings:
            lines += [f"- [{finding.severity}] {finding.text}", *([f"  {finding.action}"] if finding.action else [])]
    lines += ["", *document.notes]
    return "\n".join(lines).translate(_STEERING | {10: "\n", 0x1B: "\ufffd"}).strip() + "\n"


def _render(document: Document, images: Mapping[str, str], mail: bool) -> str:
    def most(shown: Shown) -> int:
        return min(shown.most, MAIL_ROWS) if mail else shown.most

    template = _environment().get_template("report.html")
    found = template.render(document=document, images=images, mail=mail, most=most)
    return found.translate(_STEERING)


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "label": columns.label,
        "said": _said,
        "right": _right,
        "places": _places,
        "endless": _endless,
    }
    return environment


def _said(column: str, value: Any) -> str:
    return columns.said(column, value)


def _endless(text: str) -> bool:
    """Whether it has a word that may be broken anywhere: no column is as wide as it. Others break between words."""
    return any(len(word) > LONGEST_WORD for word in re.split(r"[\s-]", text))


def _right(table: Table, at: int) -> bool:
    return columns.is_number(table.columns[at], table.types[at])


def _places(shown: Shown) -> list[int]:
    """Where the columns that are shown stand in the table; those without a single known value are left out."""
    table = shown.table
    there = [table.columns.index(column) for column in shown.columns if column in table.columns]
    return [at for at in there if at == there[0] or any(row[at] not in (None, []) for row in table.rows)]
