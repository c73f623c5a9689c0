"""What the consumer says while the store is away: enough to act on, and not a line more."""

import pytest
from structlog.testing import capture_logs

from tests.clock import FakeClock
from warpmeter.consumers.health import FAILING_SINCE, REMIND_S, Health
from warpmeter.consumers.letters import MemoryLetters


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_an_outage_is_a_row_and_a_line_then_a_line_a_minute(clock: FakeClock) -> None:
    out = MemoryLetters()
    health = Health(out, clock, "h")
    with capture_logs() as lines:
        for _ in range(3 * int(REMIND_S)):
            health.cannot_insert("refused")
            clock.sleep(1.0)
        assert FAILING_SINCE._value.get() > 0
        health.inserts_again()
        health.inserts_again()
    assert [line["log_level"] for line in lines] == ["warning"] * 3 + ["info"]
    assert [line.get("for_s") for line in lines] == [None, 60, 120, None]
    assert [envelope.topic for envelope in out.sent] == ["source-health"] * 2
    assert FAILING_SINCE._value.get() == 0
