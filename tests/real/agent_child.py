"""`python -m tests.real.agent_child FD FILE`: the agent, by a clock that is `FILE`'s seconds off, soon out of patience.

A broker counts as away after a second here, not after ten. Everything else is the agent as it is started by itself.
"""

import sys
import time
from pathlib import Path

from warpmeter import launch, log
from warpmeter.producers import agent, outbox


class SteppedClock:
    """The machine's clock as somebody sets it: off by what a file says at the moment."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def now(self) -> float:
        """UTC."""
        return time.time() + float(self._file.read_text() if self._file.exists() else 0)

    def monotonic(self) -> float:
        """Never steps."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def main() -> int:
    """Returns the exit status."""
    settings, (file,) = launch.received(sys.argv[1:])
    log.setup(settings.log, "agent")
    outbox.STALL_S = 1.0  # type: ignore[misc]
    return agent.run(settings, agent.Options(), SteppedClock(Path(file)))


if __name__ == "__main__":
    sys.exit(main())
