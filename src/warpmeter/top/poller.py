"""Asks again and again, in a thread of its own, so that the keyboard never waits for the store."""

import threading
import time
from collections.abc import Callable
from typing import Final

from warpmeter.top.asking import Head, Refresh, Wish, listed, refreshed
from warpmeter.top.source import Source, SourceError
from warpmeter.top.view import Table

SHARE: Final = 5
"""A refresh is followed by a rest of at least so many times what it took: a large fleet is asked less often."""
LONGEST_S: Final = 15.0
"""That rest, at most: of a store that is slow today something is still seen."""
AGAIN_S: Final = 2.0
"""How long after an error it is asked again."""


class Poller:
    """One refresh at a time of what was wished last. `deliver` is called in the poller's thread, and `broke` with what
    no source should raise: then nothing is asked any more.

    What nobody wishes any more is not delivered. The thread is a daemon: one that waits for a store which does not
    answer keeps no process from ending.
    """

    def __init__(
        self,
        source: Source,
        interval_s: float,
        deliver: Callable[[Refresh], None],
        broke: Callable[[Exception], None],
    ) -> None:
        self.interval_s = interval_s
        self._source, self._deliver, self._broke = source, deliver, broke
        self._changed = threading.Condition()
        self._wish: Wish | None = None
        self._number = 0
        self._paused = self._stopped = False
        self._thread = threading.Thread(target=self._run, name="top", daemon=True)

    def start(self) -> None:
        """Begin; nothing is asked before the first wish."""
        self._thread.start()

    def want(self, wish: Wish) -> None:
        """From now on this, at once."""
        with self._changed:
            self._wish = wish
            self._number += 1
            self._changed.notify()

    def pause(self, paused: bool) -> None:
        """Rest until it is taken back; what is wished newly is asked for once even so."""
        with self._changed:
            self._paused = paused
            self._changed.notify()

    def stop(self, within_s: float = 1.0) -> None:
        """End, waiting so long for what is being asked."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(within_s)

    def _run(self) -> None:
        try:
            self._ask_on()
        except Exception as error:  # noqa: BLE001 - a thread's edge: unseen, it would leave a list that never changes
            self._broke(error)

    def _ask_on(self) -> None:
        head, asked, due = Head(), 0, 0.0
        while (found := self._next(asked, due)) is not None:
            wish, number = found
            fresh = number != asked
            began = time.monotonic()
            refresh = self._answer(wish, head, fresh and bool(head.fleet))
            took = time.monotonic() - began
            asked, due = number, began + took + max(self.interval_s - took, min(SHARE * took, LONGEST_S))
            if refresh.why:
                due = began + took + max(AGAIN_S, min(self.interval_s, 10 * AGAIN_S))
            self._tell(refresh, number, took)

    def _next(self, asked: int, due: float) -> tuple[Wish, int] | None:
        """The wish that is to be asked for now, once there is one; None at the end."""
        with self._changed:
            while not self._stopped:
                rest = due - time.monotonic()
                if self._wish is not None and (self._number != asked or (rest <= 0 and not self._paused)):
                    return self._wish, self._number
                self._changed.wait(None if self._wish is None or self._paused else max(0.0, rest))
        return None

    def _answer(self, wish: Wish, head: Head, briefly: bool) -> Refresh:
        """`briefly`: what is said of the fleet is new enough, somebody waits for the list."""
        try:
            if briefly and not wish.place.kind:
                return Refresh(wish, listed(self._source, wish), head.fleet, head.alerts, {}, head.history)
            return refreshed(self._source, wish, head, time.monotonic())
        except SourceError as error:
            return Refresh(wish, Table(wish.listing), why=str(error))

    def _tell(self, refresh: Refresh, number: int, took: float) -> None:
        with self._changed:
            wanted = number == self._number and not self._stopped
        if wanted:
            self._deliver(Refresh(**{**refresh.__dict__, "took_s": took}))
