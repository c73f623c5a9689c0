"""What is said of an analysis that ended without a word of its own."""

import pytest

from warpmeter.scheduler.analyst import how_it_ended


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (-9, ""),
        (1, "MemoryError"),
        (1, "RuntimeError: LZ4F_compressBegin failed with code: ERROR_allocation_failed"),
        (1, "OSError: [Errno 12] Cannot allocate memory"),
        (1, "ImportError: libz.so.1: failed to map segment from shared object"),
        (1, "RuntimeError: can't start new thread"),
    ],
)
def test_what_was_refused_memory_names_the_setting_that_gives_it(status: int, said: str) -> None:
    assert "for want of memory (scheduler.analyse_bytes)" in how_it_ended(status, said)


def test_what_failed_otherwise_is_not_said_to_want_memory() -> None:
    traced = '  File "analysis/memory.py", line 7, in peak\n    return allocated["name"]\nKeyError: \'name\''
    assert how_it_ended(1, traced) == "it ended with status 1"
