"""The widgets: lines of text as they are drawn, and the grid, of which only the lines that are seen are ever made."""

from collections.abc import Callable, Sequence
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from warpmeter.top.drawing import Line, Placed, heading, layout, row_line
from warpmeter.top.lists import Column
from warpmeter.top.view import View

STYLES: Final = {
    "": Style(), "bold": Style(bold=True), "dim": Style(dim=True), "good": Style(color="green"),
    "idle": Style(color="yellow"), "bad": Style(color="red", bold=True), "gone": Style(color="magenta", bold=True),
    "head": Style(bold=True, underline=True), "sorts": Style(bold=True, underline=True, color="cyan"),
    "chosen": Style(reverse=True), "title": Style(bold=True, color="cyan"), "key": Style(bold=True, color="cyan"),
}  # fmt: skip
"""The terminal's own colours by name, so that it looks right on dark and light, with 8 colours and without."""
CHOSEN: Final = Style(reverse=True)


def strip(line: Line, width: int, style: Style | None = None) -> Strip:
    """A line in just so many cells; in one `style` where one is given, else each span in its own."""
    found = Strip([Segment(text, style or STYLES[name]) for text, name in line])
    return found.adjust_cell_length(width, style).crop(0, width)


class Lines(Widget):
    """Lines of text, as high as there are lines."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Line] = ()

    def show(self, lines: Sequence[Line]) -> None:
        """Draw these from now on."""
        if len(lines) != len(self._lines):
            self.styles.height = len(lines)
            self.display = bool(lines)
        self._lines = lines
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """As Textual asks for it."""
        return strip(self._lines[y], self.size.width) if y < len(self._lines) else Strip.blank(self.size.width)


class Grid(Widget, can_focus=True):
    """The list of a view: its heading, and the rows that are seen."""

    class Opened(Message):
        """The chosen row was asked for."""

    class Sorted(Message):
        """Another order is wanted."""

        def __init__(self, column: Column) -> None:
            super().__init__()
            self.column = column

    class Moved(Message):
        """Another row is chosen, or other lines are seen."""

    def __init__(self, view: View, empty: Callable[[], Line]) -> None:
        super().__init__(id="grid")
        self.view = view
        self.skipped = 0
        self._empty = empty
        self._placed: list[Placed] = []

    def look(self, view: View) -> None:
        """Show another view."""
        if view is not self.view:
            self.skipped = 0
        self.view = view
        view.resize(self.size.height - 1)
        self.redraw()

    def redraw(self) -> None:
        """Draw anew what is seen."""
        self._placed = layout(self.view.table, self.size.width - 1, self.skipped)
        self.refresh()

    def slide(self, columns: int) -> None:
        """Show columns further right."""
        self.skipped = max(0, min(self.skipped + columns, len(self.view.listing.columns) - 2))
        self.redraw()

    def render_line(self, y: int) -> Strip:
        """As Textual asks for it: the heading, then rows."""
        view, width = self.view, self.size.width
        if not self._placed:
            self._placed = layout(view.table, width - 1, self.skipped)
        if y == 0:
            rest: Line = [(" " * width, "head")]
            return strip(heading(view, self._placed) + rest, width)
        at = view.top + y - 1
        if at >= len(view.order):
            return strip(self._empty() if y == 2 and not view.order else [], width)
        line = row_line(view.table, view.table.rows[view.order[at]], self._placed)
        found = strip(line, width - 1, CHOSEN if at == view.at else None)
        return Strip([*found, Segment(self._mark(y - 1), STYLES["dim"])])

    def _mark(self, line: int) -> str:
        """The scroll bar's cell beside a line."""
        view, seen = self.view, self.size.height - 1
        if len(view.order) <= seen or seen < 1:
            return " "
        length = max(1, seen * seen // len(view.order))
        start = round(view.top / (len(view.order) - seen) * (seen - length))
        return "┃" if start <= line < start + length else "│"

    def on_resize(self, event: events.Resize) -> None:
        """So many lines are seen."""
        self.view.resize(event.size.height - 1)
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """A click on the heading sorts, one on a row chooses it, one more opens it."""
        if event.y == 0:
            if (column := self._under(event.x)) is not None:
                self.post_message(self.Sorted(column))
            return
        at = self.view.top + event.y - 1
        if at >= len(self.view.order):
            return
        opens = at == self.view.at and event.chain > 1
        self.view.choose(at)
        self.refresh()
        self.post_message(self.Opened() if opens else self.Moved())

    def on_mouse_scroll_down(self, _: events.MouseScrollDown) -> None:
        """The wheel moves what is seen."""
        self._scroll(3)

    def on_mouse_scroll_up(self, _: events.MouseScrollUp) -> None:
        """The wheel moves what is seen."""
        self._scroll(-3)

    def _scroll(self, lines: int) -> None:
        self.view.scroll(lines)
        self.refresh()
        self.post_message(self.Moved())

    def _under(self, x: int) -> Column | None:
        start = 0
        for each in self._placed:
            if start <= x <= start + each.width:
                return each.column
            start += each.width + 1
        return None
