"""Start parts in order, keep them running, stop them in reverse: what `up` does with its children."""

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from warpmeter.clock import Clock, SystemClock
from warpmeter.log import Logger
from warpmeter.up.folder import UpError

PERMANENT: Final = 78
"""Exit status (sysexits' EX_CONFIG) of a part that a restart cannot mend."""

PASSING: Final = 75
"""Exit status (sysexits' EX_TEMPFAIL) of a part that can start once its surroundings allow it: when there is room."""

RESTARTS_ALLOWED: Final = 5
RESTART_WINDOW_S: Final = 60.0
SOON_S: Final = 3.0


@dataclass(frozen=True)
class Part:
    """One child: how it starts, how long until `ready` must hold, what to do each time it came up, how it stops.

    `needs` names parts whose restart it does not survive: it is started again after each of them.
    """

    name: str
    start: Callable[[], subprocess.Popen[bytes]]
    ready: Callable[[], bool] = lambda: True
    ready_within_s: float = 60.0
    after_start: Callable[[], object] = lambda: None
    stop_within_s: float = 8.0
    stop_signal: int = signal.SIGTERM
    needs: tuple[str, ...] = ()


@dataclass
class _Child:
    part: Part
    process: subprocess.Popen[bytes]
    starts: list[float] = field(default_factory=list)
    said: str = ""


class Supervisor:
    """Children of this process, by name, in the order of their start.

    `explain(name)` gives the last words of a part, for the message when it fails.
    """

    def __init__(self, log: Logger, explain: Callable[[str], str], clock: Clock | None = None) -> None:
        self._log = log
        self._explain = explain
        self._clock = clock or SystemClock()
        self._children: dict[str, _Child] = {}
        self.stopping = False

    @property
    def pids(self) -> Mapping[str, int]:
        """Process ids by part."""
        return {name: child.process.pid for name, child in self._children.items()}

    def start(self, parts: Sequence[Part]) -> None:
        """Start `parts` at once and wait until each is ready; raises UpError naming the one that is not."""
        for part in parts:
            self._children[part.name] = _Child(part, part.start(), [self._clock.monotonic()])
        for part in parts:
            self._await_ready(self._children[part.name])

    def _await_ready(self, child: _Child) -> None:
        deadline = self._clock.monotonic() + child.part.ready_within_s
        while not child.part.ready():
            if self.stopping:
                return
            if child.process.poll() is not None:
                raise UpError(f"the {child.part.name} ended at its start: {self._explain(child.part.name)}")
            if self._clock.monotonic() > deadline:
                raise UpError(
                    f"the {child.part.name} was not ready within {child.part.ready_within_s:.0f} s:"
                    f" {self._explain(child.part.name)}"
                )
            self._clock.sleep(0.05)
        child.part.after_start()

    def check(self) -> None:
        """Start again what has ended; raises UpError for one that keeps ending, or ended for good."""
        for child in list(self._children.values()):
            if self.stopping or child.process.poll() is None:
                continue
            self._restart(child)

    def _restart(self, child: _Child) -> None:
        """Until it is up again; a start that fails counts like an end."""
        while not self.stopping:
            self._refuse_hopeless(child)
            self._tell_restart(child)
            if child.process.returncode == PASSING:
                self._clock.sleep(SOON_S)
            else:
                self._clock.sleep(min(0.2 * 2 ** len(child.starts), 5.0))
                child.starts.append(self._clock.monotonic())
            try:
                self._start_again(child)
            except UpError as error:
                if child.process.poll() != PASSING:
                    self._log.warning("did not come up", child=child.part.name, why=str(error))
                self._stop(child)
            else:
                child.said = ""
                return

    def _tell_restart(self, child: _Child) -> None:
        """Why it ended, unless it was just told: one that waits for room says the same each time."""
        name, status = child.part.name, child.process.returncode
        said = self._explain(name)
        if status != PASSING or not child.said:
            self._log.warning("restarting", child=name, status=status, said=said)
        child.said = said if status == PASSING else ""

    def _refuse_hopeless(self, child: _Child) -> None:
        """Raises UpError for a part that says that a restart does not help, or that has ended too often."""
        name, now = child.part.name, self._clock.monotonic()
        child.starts = [at for at in child.starts if now - at < RESTART_WINDOW_S]
        if child.process.returncode == PERMANENT or len(child.starts) >= RESTARTS_ALLOWED:
            raise UpError(f"the {name} stopped (status {child.process.returncode}): {self._explain(name)}")

    def _start_again(self, child: _Child) -> None:
        child.process = child.part.start()
        self._await_ready(child)
        for other in self._children.values():
            if child.part.name in other.part.needs:
                self._log.info("restarting with what it needs", child=other.part.name, needs=child.part.name)
                self._stop(other)
                self._start_again(other)

    def stop(self) -> None:
        """Stop all, the last started first; one that outlasts its time is killed and named."""
        self.stopping = True
        for child in reversed(list(self._children.values())):
            self._stop(child)

    def _stop(self, child: _Child) -> None:
        if child.process.poll() is not None:
            return
        child.process.send_signal(child.part.stop_signal)
        try:
            child.process.wait(child.part.stop_within_s)
        except subprocess.TimeoutExpired:
            within_s = child.part.stop_within_s
            self._log.warning("killed: it did not stop in time", child=child.part.name, seconds=within_s)
            child.process.kill()
            child.process.wait()

    def kill(self) -> None:
        """End all at once."""
        for child in self._children.values():
            if child.process.poll() is None:
                child.process.kill()
