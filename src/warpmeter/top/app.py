"""The terminal: what is looked at, what keys do, and what is drawn when something new is known."""

import asyncio
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input

from warpmeter.top import drawing, units
from warpmeter.top.asking import Refresh, Start, Wish
from warpmeter.top.dialogs import Help, Sorting
from warpmeter.top.drawing import Line, clean, fitted, flowed
from warpmeter.top.lists import Listing, Place
from warpmeter.top.poller import SHARE, Poller
from warpmeter.top.source import Source
from warpmeter.top.view import View
from warpmeter.top.widgets import Grid, Lines

LOW: Final = 14
"""Lines of a terminal below which the head gives way to the list."""
STEPS_S: Final = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Intervals that + and - go through."""
LATE: Final = 3
"""So many intervals after the last answer it is told how old it is."""
TERMINATED: Final = 143
"""The status after SIGTERM, as of a shell. SIGHUP is left to end it at once: the terminal is gone, and who writes to it
waits for ever."""


@dataclass
class Visit:
    """A place that is looked at, and which of its lists; each list is left as it was."""

    place: Place
    tab: int = 0
    views: dict[int, View] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def listing(self) -> Listing:
        """The list that is seen."""
        return self.place.tabs[self.tab]

    @property
    def view(self) -> View:
        """That list as it is looked at."""
        return self.views.setdefault(self.tab, View(self.listing))


class Refreshed(Message):
    """Something new is known."""

    def __init__(self, refresh: Refresh) -> None:
        super().__init__()
        self.refresh = refresh


class Broken(Message):
    """Asking came to an end that it should not have come to."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def _key(keys: str, action: str, does: str, priority: bool = False) -> Binding:
    return Binding(keys, action, does, show=False, priority=priority)


class Top(App[int]):
    """`warpmeter top`. Its result is the exit status."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; layers: base; overflow: hidden; }
    Lines { width: 100%; height: auto; }
    Grid { width: 100%; height: 1fr; min-height: 2; }
    #filter { display: none; height: 1; border: none; padding: 0; }
    ModalScreen { align: center middle; background: transparent; }
    .box {
        width: 92; max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
        border: round ansi_cyan; background: ansi_default;
    }
    .narrow { width: 34; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        _key("ctrl+c", "leave", "End", priority=True), _key("q,f10", "leave", "End"),
        _key("question_mark,f1", "keys", "Keys"),
        _key("slash,f4", "filter", "Filter", priority=True), _key("s,f6", "sort", "Sort"),
        _key("less_than_sign,comma", "sort_next(-1)", ""), _key("greater_than_sign,full_stop", "sort_next(1)", ""),
        _key("r,I", "reverse", ""), _key("p", "pause", "Pause"), _key("R,f5,ctrl+r", "again", ""),
        _key("plus", "rest(1)", ""), _key("minus", "rest(-1)", ""),
        _key("tab", "tab(1)", "", priority=True), _key("shift+tab", "tab(-1)", "", priority=True),
        _key("1", "tab_at(0)", ""), _key("2", "tab_at(1)", ""), _key("3", "tab_at(2)", ""),
        _key("enter", "open", "Open"), _key("o", "open_other", "Job"), _key("escape,backspace", "out", "Back"),
        _key("down,j", "move(1)", ""), _key("up,k", "move(-1)", ""), _key("pagedown,ctrl+f", "page(1)", ""),
        _key("pageup,ctrl+b", "page(-1)", ""), _key("home,g", "first", ""), _key("end,G", "last", ""),
        _key("right,l", "slide(1)", ""), _key("left,h", "slide(-1)", ""),
    ]  # fmt: skip

    def __init__(self, source: Source, start: Start, ansi_color: bool = True) -> None:
        super().__init__(ansi_color=ansi_color)
        self.theme = "ansi-dark" if ansi_color else self.theme
        self._source = source
        self._visits = [_visit(start)]
        self._asked: Wish | None = None
        self._shown: Refresh | None = None
        self._why = ""
        self._heard: float | None = None
        self._took = 0.0
        self._paused = False
        self.poller = Poller(source, start.interval_s, self._deliver, self._broke)

    # What is there

    @property
    def visit(self) -> Visit:
        """What is looked at."""
        return self._visits[-1]

    @property
    def _base(self) -> Screen[object]:
        """The list's screen, whatever has come up over it."""
        return self.screen_stack[0]

    def compose(self) -> ComposeResult:
        """Title, head, tabs, the grid, the filter, and what is said below."""
        yield Lines("title")
        yield Lines("head")
        yield Lines("tabs")
        yield Grid(self.visit.view, self._nothing)
        yield Input(id="filter", placeholder="words, or util<5 power>600", compact=True, select_on_focus=False)
        yield Lines("foot")

    def on_mount(self) -> None:
        """Begin to ask, and to tell the time."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.exit, TERMINATED)
        self._base.query_one(Grid).focus()
        self.set_interval(1.0, self._tick)
        self.poller.start()
        self._look()

    def on_unmount(self) -> None:
        """Ask no more."""
        self.poller.stop()

    def on_resize(self, _: events.Resize) -> None:
        """Everything has another width."""
        self.call_after_refresh(self._draw)

    # What is known

    def _deliver(self, refresh: Refresh) -> None:
        """In the poller's thread."""
        self.post_message(Refreshed(refresh))

    def _broke(self, error: Exception) -> None:
        """In the poller's thread: a fault of ours."""
        self.post_message(Broken(error))

    @on(Broken)
    def _end_of(self, event: Broken) -> None:
        """End with its traceback, once the terminal is as it was."""
        raise event.error

    @on(Refreshed)
    def _take(self, event: Refreshed) -> None:
        refresh, visit = event.refresh, self.visit
        if refresh.wish.place != visit.place or refresh.wish.listing is not visit.listing:
            return
        self._why, self._took = refresh.why, refresh.took_s
        if not refresh.why:
            self._heard, self._shown = time.monotonic(), refresh
            visit.facts = refresh.facts or (visit.facts if not visit.place.kind else {})
            visit.view.show(refresh.table, refresh.wish.searched)
            self._base.query_one(Grid).look(visit.view)
        self._draw()
        self._ask_again_if_other()

    def _wish(self) -> Wish:
        visit = self.visit
        return Wish(visit.place, visit.listing, tuple(visit.view.question().items()))

    def _ask_again_if_other(self) -> None:
        """The source sorts and searches what it has too many rows of: that may have become known, or been changed."""
        if self._asked != self._wish() and not self._why:
            self._ask()

    def _ask(self) -> None:
        self._asked = self._wish()
        self.poller.want(self._asked)

    def _look(self) -> None:
        """Look at something else: draw what was known of it, and ask."""
        self._base.query_one(Grid).look(self.visit.view)
        self._close_filter(keep=True)
        self._draw()
        self._ask()

    def _tick(self) -> None:
        self._draw()

    # What is drawn

    def _draw(self) -> None:
        if not self.is_running or not self._base.query("#foot"):
            return
        width, low = self.size.width, self.size.height < LOW
        self._base.query_one("#title", Lines).show([self._title(width)])
        self._base.query_one("#head", Lines).show([] if low else self._head(width))
        self._base.query_one("#tabs", Lines).show([] if self.size.height < 6 else [self._tabs(width)])
        self._base.query_one("#foot", Lines).show([] if self.size.height < 5 and not self._why else [self._foot(width)])

    def _title(self, width: int) -> Line:
        places = [clean(f"{visit.place.kind} {visit.place.name}".strip() or "fleet") for visit in self._visits]
        left = f" {' › '.join(places)}"
        right = f"{self._age()}  {clean(self._source.name)}  every {self.poller.interval_s:g}s "
        room = width - len("warpmeter") - len(left) - 1
        return [
            ("warpmeter", "title"),
            (left, "bold"),
            (fitted(right, max(0, room), left=False), "idle" if self._late() else "dim"),
        ]

    def _late(self) -> bool:
        return bool(self._why) or self._paused

    def _age(self) -> str:
        """How old what is shown is: since it was asked for, or the newest sample itself."""
        if self._heard is None:
            return "no data yet" if self._why else "asking …"
        since = time.monotonic() - self._heard
        held = "paused, " if self._paused else ""
        if self._why or self._paused or since > LATE * max(self.poller.interval_s, SHARE * self._took):
            return f"{held}asked {units.span(since)} ago"
        age = self._shown.fleet.get("age_s") if self._shown else None
        return "no samples" if age is None else f"samples {units.span(float(age))} old"

    def _head(self, width: int) -> list[Line]:
        if self._shown is None:
            return []
        if self.visit.place.kind:
            return flowed(drawing.about(self.visit.place, self.visit.facts), width, 3) if self._knows() else []
        return flowed(drawing.totals(self._shown), width, 2) + flowed(drawing.sparks(self._shown, width), width, 2)

    def _knows(self) -> bool:
        """Whether an answer about this place has come."""
        return self._shown is not None and self._shown.wish.place == self.visit.place

    def _tabs(self, width: int) -> Line:
        visit, line = self.visit, list[tuple[str, str]]()
        for number, listing in enumerate(visit.place.tabs):
            line += [(f" {number + 1} {listing.title} ", "chosen" if number == visit.tab else ""), (" ", "")]
        view = visit.view
        shown, there = len(view.order), view.table.total
        count = f"{shown:,}" if shown == there else f"{shown:,} of {there:,}"
        text = f"  filter: {view.text}" if view.text else ""
        used = sum(len(text) for text, _ in line)
        cut = f" ({len(view.table.rows):,} read)" if view.table.cut else ""
        return [
            *line,
            (fitted(f"{count}{cut}{text} ", max(0, width - used), left=False), "idle" if view.text else "dim"),
        ]

    def _foot(self, width: int) -> Line:
        if self._why:
            return [(fitted(f"No answer: {clean(self._why)}", width), "bad")]
        keys = (
            ("Enter", "open"), ("/", "filter"), ("s", "sort"), ("Tab", "list"), ("Esc", "back"), ("?", "keys"),
            ("q", "end"), ("r", "reverse"), ("p", "pause"),
        )  # fmt: skip
        groups: list[Line] = [[(key, "key"), (f" {does}", "dim")] for key, does in keys]
        return flowed(groups, width, 1)[0]

    def _nothing(self) -> Line:
        """What an empty list says."""
        view = self.visit.view
        if not view.known:
            return [("asking …" if not self._why else "nothing is known yet; asking again", "dim")]
        if view.text:
            return [(f"nothing fits the filter {view.text!r}: Esc takes it back", "idle")]
        return [("none", "dim")]

    # What keys do

    def action_leave(self) -> None:
        """End."""
        self.exit(0)

    def action_keys(self) -> None:
        """Show all keys."""
        self.push_screen(Help())

    def action_move(self, rows: int) -> None:
        """Choose a row further down."""
        self._choose(self.visit.view.at + rows)

    def action_page(self, pages: int) -> None:
        """Choose a row a page further down."""
        view = self.visit.view
        view.scroll(pages * view.height)
        self._choose(view.at + pages * view.height if view.top in (0, len(view.order) - view.height) else view.at)

    def action_first(self) -> None:
        """Choose the first row, whichever that is."""
        self._choose(0)

    def action_last(self) -> None:
        """Choose the last row."""
        self._choose(len(self.visit.view.order) - 1)

    def _choose(self, at: int) -> None:
        self.visit.view.choose(at)
        self._base.query_one(Grid).refresh()

    def action_slide(self, columns: int) -> None:
        """Show columns further right."""
        self._base.query_one(Grid).slide(columns)

    def action_tab(self, step: int) -> None:
        """The next list."""
        self.action_tab_at((self.visit.tab + step) % len(self.visit.place.tabs))

    def action_tab_at(self, tab: int) -> None:
        """That list."""
        if len(self.screen_stack) == 1 and tab < len(self.visit.place.tabs):
            self.visit.tab = tab
            self._look()

    def action_open(self) -> None:
        """Look at what the chosen row is about."""
        listing, row = self.visit.listing, self.visit.view.row
        name = str(row.get({"host": "host", "job": "job_id"}[listing.leads_to], "")) if listing.leads_to else ""
        place = Place(listing.leads_to, name)
        if name and place != self.visit.place:
            self._visit(place, row)

    def action_open_other(self) -> None:
        """Look at the job that holds the chosen GPU."""
        row = self.visit.view.row
        name = str(row.get("job_id") or "")
        if name and self.visit.place != Place("job", name):
            self._visit(Place("job", name), {})
        elif not name and row:
            self.notify("no job holds it", timeout=3)

    def _visit(self, place: Place, row: Mapping[str, object]) -> None:
        """Go to a place; of a host from one of its GPUs, to that GPU."""
        visit = Visit(place)
        key = tuple(row.get(name) for name in visit.listing.key)
        if place.kind == "host" and None not in key:
            visit.view.chosen = key
        self._visits.append(visit)
        self._look()

    def action_out(self) -> None:
        """Out of the filter, then out of the place."""
        if self.visit.view.text:
            self._filter("")
        elif len(self._visits) > 1:
            self._visits.pop()
            self._look()

    def action_sort(self) -> None:
        """Choose a column to sort by."""
        view = self.visit.view

        def chosen(name: str | None) -> None:
            if name is not None:
                view.sort_by(name)
                self._rearranged()

        self.push_screen(Sorting(view.listing, view.sort), chosen)

    def action_sort_next(self, step: int) -> None:
        """Sort by the column beside."""
        self.visit.view.sort_next(step)
        self._rearranged()

    def action_reverse(self) -> None:
        """The other way round."""
        view = self.visit.view
        view.sort_by(view.sort, not view.descending)
        self._rearranged()

    @on(Grid.Sorted)
    def _sort_under(self, event: Grid.Sorted) -> None:
        self.visit.view.sort_by(event.column.name)
        self._rearranged()

    @on(Grid.Opened)
    def _open_under(self) -> None:
        self.action_open()

    def _rearranged(self) -> None:
        self._base.query_one(Grid).redraw()
        self._draw()
        self._ask_again_if_other()

    def action_pause(self) -> None:
        """Stop asking, and go on."""
        self._paused = not self._paused
        self.poller.pause(self._paused)
        self._draw()

    def action_again(self) -> None:
        """Ask now."""
        self._ask()

    def action_rest(self, step: int) -> None:
        """Ask less often."""
        now = self.poller.interval_s
        others = [each for each in STEPS_S if (each > now if step > 0 else each < now)]
        if others:
            self.poller.interval_s = min(others) if step > 0 else max(others)
            self._ask()
            self._draw()

    # The filter

    def action_filter(self) -> None:
        """Type what is looked for. It has priority: what is typed behind the slash must not be taken for commands."""
        entry = self._base.query_one("#filter", Input)
        if self.screen is not self._base:
            return
        if entry.display:
            entry.insert_text_at_cursor("/")
            return
        entry.value = self.visit.view.text
        entry.cursor_position = len(entry.value)
        entry.display = True
        self._base.set_focus(entry)

    @on(Input.Changed, "#filter")
    def _typed(self, event: Input.Changed) -> None:
        if self._base.query_one("#filter").display:
            self._filter(event.value)

    @on(Input.Submitted, "#filter")
    def _kept(self) -> None:
        self._close_filter(keep=True)

    def _filter(self, text: str) -> None:
        self.visit.view.filter_by(text)
        self._rearranged()

    def _close_filter(self, keep: bool) -> None:
        entry = self._base.query_one("#filter", Input)
        if entry.display:
            entry.display = False
            if not keep:
                self._filter("")
        self._base.set_focus(self._base.query_one(Grid))

    def on_key(self, event: events.Key) -> None:
        """In the filter Esc takes it back, and the arrows go through what is left."""
        if not self._base.query_one("#filter").display:
            return
        moves: dict[str, Callable[[], None]] = {
            "escape": lambda: self._close_filter(keep=False),
            "down": lambda: self.action_move(1), "up": lambda: self.action_move(-1),
            "pagedown": lambda: self.action_page(1), "pageup": lambda: self.action_page(-1),
        }  # fmt: skip
        if (does := moves.get(event.key)) is not None:
            event.stop()
            event.prevent_default()
            does()


def _visit(start: Start) -> Visit:
    """The fleet, as it begins."""
    place = Place()
    names = [listing.name for listing in place.tabs]
    visit = Visit(place, names.index(start.tab) if start.tab in names else 0)
    view = View(visit.listing, start.sort, start.descending, start.text)
    visit.views[visit.tab] = view
    return visit
