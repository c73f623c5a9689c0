"""A flame graph as one page that needs no server and no network: what draws it in the pages is inside."""

import json
import re
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any, Final

MODULES: Final = (
    "labels.js", "flame/tree.js", "flame/words.js", "flame/painter.js", "flame/parts.js", "flame/view.js"
)  # fmt: skip
"""Of `web/lib`, each after those that it imports."""
STYLES: Final = ("warpmeter.css", "flame.css")
_IMPORT: Final = re.compile(r'^import \{[^}]*\} from "[^"]*";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:class|const|function)\b)", re.MULTILINE)
_BEGIN: Final = """
const view = new FlameView(document.getElementById("flame"), {
  tallest: Math.max(400, innerHeight - 150),
  changed: (chosen) => history.replaceState(null, "", `#${new URLSearchParams(chosen)}`),
});
const look = () => view.choose(Object.fromEntries(new URLSearchParams(location.hash.slice(1))));
look();
const shown = JSON.parse(document.getElementById("data").textContent);
const lines = document.getElementById("lines");
if (!shown.columns.label.some((label) => /:\\d+\\)$/.test(label))) lines.parentElement.remove();
const draw = () => view.show(lines.checked ? shown : { ...shown, columns: withoutLines(shown.columns), top: null });
lines.addEventListener("change", draw);
draw();
addEventListener("hashchange", look);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.paint());
"""
_POLICY: Final = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}
:root {{ color-scheme: light dark; }}
</style>
</head>
<body>
<main class="wm-main">
<div class="wm-title"><h1>{title}</h1><span class="wm-muted">{about}</span></div>
<section class="wm-panel" aria-label="Flame graph">
<div class="wm-flame-ask"><label><input type="checkbox" id="lines" checked>Lines</label></div>
<div id="flame"></div>
</section>
</main>
<script type="application/json" id="data">{data}</script>
<script type="module">
{script}
</script>
</body>
</html>
"""


def page(title: str, about: str, shown: Mapping[str, Any]) -> str:
    """The page; `shown` is what the view is given: `columns` as the API has them; `unit`, `top`, `first` if need be."""
    data = json.dumps(shown, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    style = "\n".join(_text(name) for name in STYLES)
    parts = {"title": escape(title), "about": escape(about), "style": style, "data": data, "policy": _POLICY}
    return _PAGE.format(**parts, script=script() + _BEGIN)


def script() -> str:
    """The modules as one: in order, what they import from each other being there already."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", _text(name))) for name in MODULES)


def _text(name: str) -> str:
    return (resources.files("warpmeter.web") / "lib" / name).read_text("utf-8")
