"""The pages: Python lays them out; panels fetch from the API in the browser, and the address holds what is chosen."""

from nicegui import ui

from warpmeter.web.pages import overview


def register() -> None:
    """Tell NiceGUI which address shows what."""
    ui.page("/", title="Overview · warpmeter")(overview.show)
