"""The timeline of a rank's trace: streams, threads and steps, at any zoom."""

from nicegui.element import Element

from warpmeter.web.panels.panel import LIBRARY


class Timeline(Element, component="timeline.js", esm=LIBRARY):
    """Draws what the address names: `capture`, `rank`, `sequence`, `process`, and the stretch `t0`-`t1` in nanoseconds.

    Beside them what is selected (`select`), marked (`range`) and searched for (`q`, `mode`).
    """
