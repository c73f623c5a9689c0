"""How much is asked of the store at once: what it gives up while it is crowded is nobody's mistake."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from clickhouse_connect.driver.exceptions import OperationalError

from warpmeter.store import ClickHouseError, code

CROWD: Final = 16
"""Questions under way at once: one page asks fewer."""
TOO_SLOW: Final = 159
TOO_MANY: Final = 202
TOO_LARGE: Final = 241
OF_ALL: Final = re.compile(r"\(total\)")
"""In what the store says where its memory, not that of one query, is used up."""
AGAIN: Final = "the store has more to do than it can: ask again in a moment, or for less"


class BusyError(OperationalError):
    """The store gave up what it would have answered to who asks alone."""


class Load:
    """Of this process: questions under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._going = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """A question, from asking to its answer. Raises BusyError where the store gave it up for the crowd."""
        crowd = self._count(1)
        try:
            yield
        except ClickHouseError as error:
            if _given_up(error, max(crowd, self._going) > CROWD):
                raise BusyError(AGAIN) from error
            raise
        finally:
            self._count(-1)

    def _count(self, more: int) -> int:
        with self._lock:
            self._going += more
            return self._going


def _given_up(error: ClickHouseError, crowded: bool) -> bool:
    found = code(error)
    if found == TOO_LARGE:
        return bool(OF_ALL.search(str(error)))
    return found == TOO_MANY or (found == TOO_SLOW and crowded)
