"""What is said of captures now: the topic of their events, read while somebody looks.

The store lags by the age of a batch (5 s, in `up` 2 s); a page that shows a capture as it goes is to be right within a
second. So while anybody looks at captures one thread reads the topic, from a minute ago on, for the whole process;
what is older is in the store. Answers are what the store has and what was heard, together: states only go forward, so
neither can take back what the other says.
"""

import atexit
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaException

from warpmeter import log
from warpmeter.captures.ranks import Event
from warpmeter.captures.reading import Events, ReadingError
from warpmeter.captures.wishes import Request
from warpmeter.settings import Kafka

IDLE_S: Final = 120.0
"""Nobody has asked for so long: nothing is read, and what was heard is forgotten."""
AGAIN_S: Final = 2.0
WAIT_S: Final = 0.2
CAPTURES: Final = 500
ROUNDS: Final = 20
"""Of so many captures, and of so many rounds of each, the latest are kept."""


@dataclass
class Heard:
    """Of one capture: events by round (0: of the whole), in the order they came."""

    rounds: "OrderedDict[int, list[Event]]" = field(default_factory=OrderedDict)

    def take(self, event: Event) -> None:
        """One more."""
        self.rounds.setdefault(event.sequence, []).append(event)
        while len(self.rounds) > ROUNDS + 1:
            del self.rounds[min(number for number in self.rounds if number)]

    def events(self) -> list[Event]:
        """All of them."""
        return [event for events in self.rounds.values() for event in events]


class Live:
    """Captures as they go. Any thread may ask; the first to ask makes it listen."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._news = threading.Condition()
        self._heard: OrderedDict[str, Heard] = OrderedDict()
        self._asked: OrderedDict[str, Request] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._wanted = 0.0
        self._ready = False
        self._closed = False

    def events(self, capture_id: str) -> list[Event]:
        """What was heard of a capture lately."""
        with self._news:
            self._listen()
            heard = self._heard.get(capture_id)
            return heard.events() if heard is not None else []

    def asked(self) -> list[Request]:
        """What this process asked for lately, the newest first: the store may not know it yet."""
        with self._news:
            self._listen()
            return list(reversed(self._asked.values()))

    def note(self, request: Request) -> None:
        """This process asked for it."""
        with self._news:
            self._listen()
            self._asked[request.capture_id] = request
            while len(self._asked) > CAPTURES:
                self._asked.popitem(last=False)

    def until_ready(self, within_s: float = 5.0) -> bool:
        """Wait until it hears; whether it does."""
        with self._news:
            self._listen()
            return self._news.wait_for(lambda: self._ready, within_s)

    def wait(self, capture_id: str, enough: Callable[[Sequence[Event]], bool], within_s: float) -> list[Event]:
        """What is said of a capture, once it is enough, or the time is over; it is forgotten then."""

        def heard() -> list[Event]:
            return found.events() if (found := self._heard.get(capture_id)) is not None else []

        with self._news:
            self._listen()
            self._news.wait_for(lambda: enough(heard()), within_s)
            events = heard()
            self._heard.pop(capture_id, None)
            return events

    def close(self) -> None:
        """Listen no more."""
        with self._news:
            self._closed = True
            self._news.notify_all()
            thread = self._thread
        atexit.unregister(self.close)
        if thread is not None:
            thread.join(5.0)

    # The thread.

    def _listen(self) -> None:
        self._wanted = time.monotonic()
        if self._thread is None and not self._closed:
            self._thread = threading.Thread(target=self._run, name="captures", daemon=True)
            atexit.register(self.close)  # a client that polls while the interpreter ends may crash
            self._thread.start()

    def _still(self) -> bool:
        return not self._closed and time.monotonic() - self._wanted < IDLE_S

    def _run(self) -> None:
        while True:
            with self._reported():
                self._read()
            with self._news:
                self._ready = False
                if not self._still():
                    self._heard.clear()
                    self._asked.clear()
                    self._thread = None
                    return
                self._news.wait(AGAIN_S)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (ReadingError, KafkaException) as error:
            log.get("web").warning("captures cannot be followed live: tried again", why=str(error))

    def _read(self) -> None:
        with closing(Events(self._kafka, "web")) as events:
            for message in events.start(time.time(), self._still):
                self.hear([message])
            with self._news:
                self._ready = True
                self._news.notify_all()
            while self._still():
                self.hear(events.read(WAIT_S))

    def hear(self, messages: Sequence[object]) -> None:
        """Take what was said; what is no event is nobody's."""
        with self._news:
            for message in messages:
                if isinstance(message, Event):
                    self._heard.setdefault(message.capture_id, Heard()).take(message)
                    self._heard.move_to_end(message.capture_id)
            while len(self._heard) > CAPTURES:
                self._heard.popitem(last=False)
            if messages:
                self._news.notify_all()
