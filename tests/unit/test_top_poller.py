"""Asking in a thread: what is wished last, errors that pass, faults that end it."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.wait import until
from warpmeter.top.asking import Head, Refresh, Wish, refreshed
from warpmeter.top.lists import GPUS, HOSTS, Place
from warpmeter.top.poller import Poller
from warpmeter.top.source import Rows, SourceError


@dataclass
class Told:
    """A source that answers as it is told to: each query with its own name, after what `does` does."""

    does: Callable[[str], None]
    asked: list[str] = field(default_factory=list)
    name: str = "told"

    def ask(self, query: str, given: Mapping[str, str]) -> Rows:  # noqa: ARG002 - the port's
        self.asked.append(query)
        self.does(query)
        return Rows(("host", "gpu", "uuid", "job_id", "total"), [[query, 0, "", "", 1]])


def away(_: str) -> None:
    raise SourceError("it is away")


class Heard:
    """What a poller delivers."""

    def __init__(self, source: Told, interval_s: float = 0.01) -> None:
        self.refreshes: list[Refresh] = []
        self.faults: list[Exception] = []
        self.poller = Poller(source, interval_s, self.refreshes.append, self.faults.append)
        self.poller.start()


def test_an_error_is_delivered_and_asked_again_when_something_else_is_wished() -> None:
    source = Told(away)
    heard = Heard(source)
    heard.poller.want(Wish(Place(), HOSTS))
    until(lambda: heard.refreshes, "the error")
    assert heard.refreshes[0].why == "it is away"
    source.does = lambda _: None
    heard.poller.want(Wish(Place(), GPUS))
    until(lambda: heard.refreshes[-1].wish.listing is GPUS, "the list")
    assert heard.refreshes[-1].why == ""
    assert heard.refreshes[-1].table.rows[0][0] == "live_gpus"
    heard.poller.stop(60)
    assert not heard.faults


def test_what_nobody_wishes_any_more_is_not_delivered() -> None:
    held, go = threading.Event(), threading.Event()

    def slow(query: str) -> None:
        if query == "live_hosts" and not held.is_set():
            held.set()
            assert go.wait(120)

    heard = Heard(Told(slow))
    heard.poller.want(Wish(Place(), HOSTS))
    assert held.wait(120)
    heard.poller.want(Wish(Place(), GPUS))
    go.set()
    until(lambda: heard.refreshes, "an answer")
    assert heard.refreshes[0].wish.listing is GPUS
    heard.poller.stop(60)


def test_while_it_is_paused_only_what_is_wished_newly_is_asked() -> None:
    source = Told(lambda _: None)
    heard = Heard(source)
    heard.poller.pause(True)
    heard.poller.want(Wish(Place(), HOSTS))
    until(lambda: heard.refreshes, "the answer")
    heard.poller.want(Wish(Place("host", "ant"), GPUS))
    until(lambda: len(heard.refreshes) == 2, "the second answer")
    assert source.asked.count("live_gpus") == 1
    heard.poller.pause(False)
    until(lambda: len(heard.refreshes) > 3, "answers by themselves")
    heard.poller.stop(60)


def test_a_fault_is_told_and_ends_it() -> None:
    def fault(_: str) -> None:
        raise ZeroDivisionError

    heard = Heard(Told(fault))
    heard.poller.want(Wish(Place(), HOSTS))
    until(lambda: heard.faults, "the fault")
    assert isinstance(heard.faults[0], ZeroDivisionError)
    heard.poller.stop(60)


def test_a_store_without_alerts_is_asked_for_them_rarely_and_history_now_and_then() -> None:
    def absent(query: str) -> None:
        if query == "live_alerts":
            raise SourceError("no such table", absent=True)

    source, head = Told(absent), Head()
    for now in (0.0, 2.0, 40.0):
        found = refreshed(source, Wish(Place(), HOSTS), head, now)
    assert found.alerts is None
    assert source.asked.count("live_alerts") == 1
    assert source.asked.count("fleet_series") == 2
    refreshed(source, Wish(Place(), HOSTS), head, 400.0)
    assert source.asked.count("live_alerts") == 2
