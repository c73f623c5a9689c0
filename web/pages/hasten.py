"""What a page tells the browser before its panels are there: which modules they need, and what they will ask."""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from nicegui import __version__, context, dependencies, ui
from nicegui.element import Element

from warpmeter.web.panels.facts import Facts
from warpmeter.web.panels.heatmap import Heatmap
from warpmeter.web.panels.panel import WINDOW, Panel
from warpmeter.web.panels.series import Series
from warpmeter.web.panels.states import States
from warpmeter.web.panels.stats import Stats
from warpmeter.web.panels.table import Table

OURS: Final = "warpmeter-ui"
EARLY: Final = (Facts, Heatmap, Series, States, Stats, Table)
"""Panels that ask for their `source` with what they follow of the address, and for nothing else before it."""
SIGHT: Final = 6
"""Panels of which a window shows some part at once; the others ask when they come into sight."""
LIBRARIES: Final = {Series: "nicegui-echart", Table: "nicegui-aggrid"}
LATER: Final = ' fetchpriority="low"'
"""Vue and what lays the page out come first."""
STATIC: Final = re.compile(r"""\bfrom\s*["'](?:(warpmeter-ui)(?:/([\w-]+\.js))?|\./([\w-]+\.js))["']""")


def hasten(run: str | None) -> None:
    """Tell it of the page that is being made, once its panels are; `run` as `frame` has it."""
    elements = list(context.client.elements.values())
    base, folder = _home(OURS)
    ours = sorted({name for each in elements if each.component for name in modules(each.component.path, folder)})
    ui.add_head_html(_links(base, ours) + _asking(base, list(_early(elements, run))))
    for kind, library in LIBRARIES.items():
        if any(isinstance(each, kind) for each in elements):
            home, inside = _home(library)
            ui.add_body_html(_links(home, ["index.js", *sorted(modules(inside / "index.js", inside))], LATER))


def _early(elements: Iterable[Element], run: str | None) -> Iterator[dict[str, Any]]:
    """What the first panels ask. Of a job whose run time is not known yet only that it is asked for: the rest waits."""
    if run:
        yield {"source": run, "follows": []}
    panels = [each for each in elements if isinstance(each, Panel)][:SIGHT]
    for each in panels:
        if isinstance(each, EARLY):
            props = each._props
            shared = {name: props[name] for name in ("source", "follows", *_listed(each))}
            yield shared | {"waits": bool(run) and set(WINDOW) <= set(props["follows"])}


def _listed(panel: Panel) -> tuple[str, ...]:
    return ("table", "choices", "sort", "limit") if isinstance(panel, Table) else ()


def _asking(base: str, early: list[dict[str, Any]]) -> str:
    """It stands before all scripts that wait for the whole page, and so runs before any panel is there."""
    told = json.dumps(early).replace("<", "\\u003c")  # names of hosts and jobs are in it
    nonce = f'nonce="{context.client.request.state.nonce}"'
    data = f'<script {nonce} type="application/json" id="wm-early">{told}</script>'
    return f'{data}\n<script {nonce} type="module" src="{base}early.js"></script>'


def _links(base: str, names: Iterable[str], more: str = "") -> str:
    return "".join(f'<link rel="modulepreload" href="{base}{name}"{more} />\n' for name in names)


@cache
def _home(name: str) -> tuple[str, Path]:
    """Where a package of modules is: for browsers, and here."""
    key, module = next(each for each in dependencies.esm_modules.items() if each[1].name == name)
    return f"/_nicegui/{__version__}/esm/{key}/", module.path


@cache
def modules(path: Path, folder: Path) -> frozenset[str]:
    """The modules of `folder` that a file imports, and those that they import."""
    found: set[str] = set()
    waiting = [path]
    while waiting:
        for ours, part, beside in STATIC.findall(waiting.pop().read_text()):
            name = part or beside or (ours and "index.js")
            if name not in found and (folder / name).exists():
                found.add(name)
                waiting.append(folder / name)
    return frozenset(found)
