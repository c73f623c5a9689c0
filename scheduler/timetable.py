"""What the scheduler knows of schedules: those of its settings, and those that people set, which the store has.

The store is asked each few seconds and never waited for: while it is away, what was known holds. What stands in the
settings is told by their topic, so that people see it among the others.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from warpmeter import log
from warpmeter.captures import schedules
from warpmeter.captures.schedules import CaptureSchedule
from warpmeter.captures.wishes import Request
from warpmeter.scheduler.service import ScheduleError
from warpmeter.settings import Schedule, Scheduler, Store
from warpmeter.store import ClickHouseError, cause, client

if TYPE_CHECKING:
    from warpmeter.scheduler.schedules import Schedules

LOOK_EVERY_S: Final = 5.0
Kept = Sequence[tuple[Schedule, str]]
"""Schedules with who set them."""


def kept(store: Store) -> Kept:
    """Those that hold, by the store's word. Raises ClickHouseError."""
    found = client(store).query("SELECT * FROM schedules", settings={"max_execution_time": 10}).named_results()
    return [(schedules.of_row(row), row["set_by"]) for row in found]


class Timetable:
    """Whose requests come by themselves. `ask`: see `kept`; `tell`: rows onto the topic of the schedules.

    Without any schedule it loads no library of them (15 MiB). Raises ScheduleError at its making.
    """

    def __init__(self, settings: Scheduler, ask: Callable[[], Kept], tell: Callable[[CaptureSchedule], None]) -> None:
        self._settings, self._ask, self._tell = settings, ask, tell
        self._asking = ThreadPoolExecutor(1, "schedules")
        self._asked: Future[Kept] | None = None
        self._active, self._next, self._told = False, 0.0, False
        self._log = log.get("scheduler")
        self._opened: Schedules | None = None
        if settings.schedules or settings.jobs_url or (settings.data / "schedules.sqlite").exists():
            self._open()

    def _open(self) -> "Schedules":
        from warpmeter.scheduler.schedules import Schedules

        if self._opened is None:
            self._opened = Schedules(self._settings)
            self._opened.elected(self._active)
        return self._opened

    def elected(self, active: bool) -> None:
        """This process is the active scheduler, or no more."""
        self._active, self._next, self._told = active, 0.0, False
        if self._opened is not None:
            self._opened.elected(active)

    def due(self) -> list[Request]:
        """Requests whose time has come since the last call."""
        if self._active:
            self._look()
        return [] if self._opened is None else self._opened.due()

    def _look(self) -> None:
        if self._asked is None and time.monotonic() >= self._next:
            self._next = time.monotonic() + LOOK_EVERY_S
            self._asked = self._asking.submit(self._ask)
        if self._asked is None or not self._asked.done():
            return
        asked, self._asked = self._asked, None
        try:
            self._heard(asked.result())
        except ClickHouseError as error:
            self._log.debug("the store does not tell the schedules: what was known holds", why=cause(error))
        except ScheduleError as error:
            self._log.warning("no schedule runs: tried again", why=str(error))

    def _heard(self, found: Kept) -> None:
        others = [schedule for schedule, by in found if by != schedules.SETTINGS]
        if others or self._opened is not None:
            self._open().know(others)
        if not self._told:
            self._told = True
            self._tell_settings({schedule.name: schedule for schedule, by in found if by == schedules.SETTINGS})

    def _tell_settings(self, seen: dict[str, Schedule]) -> None:
        """What stands in the settings, where the store has it otherwise, and what does no more."""
        ours = {schedule.name: schedule for schedule in self._settings.schedules}
        for name, schedule in ours.items():
            if seen.get(name) != schedule:
                self._tell(schedules.row(schedule, schedules.SETTINGS))
        for name in seen.keys() - ours.keys():
            self._tell(schedules.row(seen[name], schedules.SETTINGS, "remove"))

    def close(self) -> None:
        """No more; what is due stays in the store of times."""
        self._asking.shutdown(wait=False, cancel_futures=True)
        if self._opened is not None:
            self._opened.close()
