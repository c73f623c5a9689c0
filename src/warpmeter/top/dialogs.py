"""What comes up over the list: the keys, and the columns to sort by."""

from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from warpmeter.top.lists import Listing

KEYS: Final = (
    ("↑ ↓ PgUp PgDn Home End", "choose a row; so do j k g G"),
    ("Tab, 1 2 3", "the next list; that list"),
    ("Enter", "open a host (GPUs, jobs), a job (GPUs, ranks, hosts)"),
    ("o", "open the job that holds the chosen GPU"),
    ("Esc, Backspace", "back: out of the filter, out of the host or job"),
    ("/, F4", "filter as you type: words, and comparisons, as in"),
    ("", "idle gpu-01  util<5  temp>=80  mem>40Gi"),
    ("s, F6", "sort by a column; < > by the one before, the next"),
    ("r, I", "the other way round"),
    ("← →, h l", "columns further left, right"),
    ("p", "pause, and go on"),
    ("R, F5", "ask now"),
    ("+ -", "ask less often, more often"),
    ("?, F1", "this"),
    ("q, F10, Ctrl-C", "end"),
)
"""What each key does."""
NOTES: Final = (
    "The first row is chosen until you move; from then on the row that you chose is followed wherever it goes in the "
    "order. Columns of what is gone are dim: they are its last words. GPU util, SM, Tensor, DRAM: means over the last "
    "sample; Idle: how long it has been below 5 %. Of more rows than 10,000 those are read that come first in the "
    "order that you chose; the words of the filter are then looked for in all of them."
)


class Help(ModalScreen[None]):
    """All keys; any of them goes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter,ctrl+c", "dismiss", "Back", priority=True)
    ]

    def compose(self) -> ComposeResult:
        """A box with the keys."""
        width = max(len(key) for key, _ in KEYS) + 2
        text = Text()
        for key, does in KEYS:
            text.append(key.ljust(width), "bold cyan").append(f"{does}\n")
        text.append(f"\n{NOTES}\n\nEsc goes back.")
        with VerticalScroll(classes="box"):
            yield Static(text)


class Sorting(ModalScreen[str | None]):
    """The columns of a list, to sort by one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,s,f6", "dismiss", "Back"),
        Binding("j", "down", show=False),
        Binding("k", "up", show=False),
    ]

    def __init__(self, listing: Listing, sort: str) -> None:
        super().__init__()
        self._listing, self._sort = listing, sort

    def compose(self) -> ComposeResult:
        """A box with the columns, on the one that sorts now."""
        names = [each.name for each in self._listing.columns]
        options = OptionList(
            *(Option(each.title, id=each.name) for each in self._listing.columns), classes="box narrow"
        )
        options.border_title = "Sort by"
        options.highlighted = names.index(self._sort) if self._sort in names else 0
        yield options

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """That one."""
        self.dismiss(event.option_id)

    def action_down(self) -> None:
        """As the arrow."""
        self.query_one(OptionList).action_cursor_down()

    def action_up(self) -> None:
        """As the arrow."""
        self.query_one(OptionList).action_cursor_up()
