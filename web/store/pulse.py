"""Whether the store answers, asked by a thread of its own: it never waits behind what others ask."""

import asyncio
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final

from warpmeter import store
from warpmeter.settings import Store
from warpmeter.web.store.reads import ended

WITHIN_S: Final = 1.5
"""Who asks is told by then, that it is not known where it is not."""
PATIENCE_S: Final = 3


class Pulse:
    """Of one store; all who ask while a question is under way have its answer."""

    def __init__(self, of: Store) -> None:
        self._store = of
        self._asked: SimpleQueue[Future[str]] = SimpleQueue()
        self._going: Future[str] | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    async def feel(self) -> str:
        """What is wrong with the store, '' where it answers."""
        going = asyncio.wrap_future(self._ask())
        done, _ = await asyncio.wait([going], timeout=WITHIN_S)
        return going.result() if done else f"not known: the store has said nothing for {WITHIN_S:g} s"

    def _ask(self) -> Future[str]:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._listen, name="pulse", daemon=True)
                self._thread.start()
            if self._going is None or self._going.done():
                self._going = Future()
                self._going.set_running_or_notify_cancel()  # who leaves does not take it from the others
                self._asked.put(self._going)
            return self._going

    def _listen(self) -> None:
        while True:
            asked = self._asked.get()
            try:
                client = store.client(self._store, patience_s=PATIENCE_S)
                ended(client.raw_query("SELECT 1", fmt="JSONCompact"), "JSONCompact")
                asked.set_result("")
            except store.ClickHouseError as error:
                asked.set_result(store.reason(error))
            finally:
                if not asked.done():  # what nobody expected ends this thread; the next question begins another
                    asked.set_result("not known: it could not be asked, as the log says")
