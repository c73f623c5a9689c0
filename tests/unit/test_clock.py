"""Times as people write them."""

import pytest

from warpmeter.clock import moment

NOW = 1_780_000_000.0


def test_times_are_ago_or_iso() -> None:
    assert moment("15m", NOW) == NOW - 900
    assert moment("1.5h", NOW) == NOW - 5400
    assert moment("2026-05-28T22:26:40+02:00", NOW) == NOW


@pytest.mark.parametrize("text", ["yesterday", "15", "2026-13-01", ""])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no time"):
        moment(text, NOW)
