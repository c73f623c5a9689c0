"""Scripts of NiceGUI's page carry the nonce of their answer, so that a page may run these and no others.

The tags get it in the template, before anything is put into the page: what comes from hosts and jobs has none.
"""

from pathlib import Path
from typing import Final

from jinja2 import DictLoader
from nicegui import client

TEMPLATE: Final = "index.html"
NONCE: Final = 'nonce="{{ request.state.nonce }}"'


def install() -> None:
    """For this process's pages; they are answers to requests that passed the gate, which made the nonce."""
    text = (Path(client.__file__).parent / "templates" / TEMPLATE).read_text()
    client.templates.env.loader = DictLoader({TEMPLATE: text.replace("<script", f"<script {NONCE}")})
