"""Profiling: every capture, and the way to its timeline and its analysis."""

from warpmeter.web.pages.frame import frame
from warpmeter.web.panels.captures import Captures


def show() -> None:
    """All captures; the chosen one with its processes."""
    with frame("profiling", "Profiling", window=False):
        Captures(limit=50)
