"""Scripts of NiceGUI's page carry the nonce of their answer, so that a page may run these and no others.

The tags get it in the template, before anything is put into the page: what comes from hosts and jobs has none.
"""

from pathlib import Path
from typing import Final

from jinja2 import DictLoader
from nicegui import client

TEMPLATE: Final = "index.html"
NONCE: Final = 'nonce="{{ request.state.nonce }}"'
STYLES: Final = "<script>addStyle("
"""How NiceGUI puts `ui.add_css` into the page's head, which only our own pages write to."""


def install() -> None:
    """For this process's pages; they are answers to requests that passed the gate, which made the nonce."""
    folder = Path(client.__file__).parent / "templates"
    text = (folder / TEMPLATE).read_text().replace("<script", f"<script {NONCE}")
    styled = f"""head_html | replace('{STYLES}', '<script nonce="' ~ request.state.nonce ~ '">addStyle(') """
    client.templates.env.loader = DictLoader({TEMPLATE: text.replace("head_html ", styled)})
