"""`python -m tests.crash.feeding SERVERS TRUTH`: the numbered samples as a process, until SIGTERM.

Then the file TRUTH has what the broker has acknowledged: `good`, numbers by topic, and `failures`.
"""

import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final

from tests.crash.feed import Feed
from tests.crash.samples import DAY_S, all_series
from warpmeter.settings import Kafka

TIMES: Final = 2
"""So many times the rate of the crash test."""
TICK_S: Final = 0.02


def base() -> int:
    """The first row's time."""
    return int(time.time()) // DAY_S * DAY_S - 2 * DAY_S


def main() -> None:
    """Feed until told to end."""
    servers, truth = sys.argv[1:]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    feed, began = Feed(Kafka(bootstrap_servers=servers), all_series(base())), time.monotonic()
    while not stop.wait(TICK_S):
        feed.due((time.monotonic() - began) * TIMES)
    feed.flush()
    good = {topic: feed.truth.numbers(topic) for topic in feed.truth.good}
    Path(truth).write_text(json.dumps({"good": good, "failures": feed.truth.failures}))


if __name__ == "__main__":
    main()
