"""Alerts: what is the matter now and was in the window, and which of them nobody is told of."""

from warpmeter.web.pages.frame import frame
from warpmeter.web.panels.alerts import Alarms, Alerts, Silences


def show() -> None:
    """All of them; the chosen one with what to do and what became of it."""
    with frame("alerts", "Alerts"):
        Alarms()
        Alerts()
        Silences()
