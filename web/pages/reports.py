"""Reports: which were made, who got them, and when the next come."""

from warpmeter.web.pages.frame import frame
from warpmeter.web.panels.reports import Reports, Schedules


def show() -> None:
    """All of them; the chosen one (`id` in the address) with its words and files."""
    with frame("reports", "Reports", window=False):
        Reports()
        Schedules()
