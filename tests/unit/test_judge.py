"""The judge asks the engine, finds exactly the bad ones, and has a budget."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.consumers.judge import Budget, Keep, Reject, verdicts
from warpmeter.consumers.sink import Away, Broken, Landed, Refused, Result


class Engine:
    """Takes payloads unless one of them is `bad`."""

    def __init__(self, bad: set[bytes]) -> None:
        self.bad = bad
        self.asked = 0

    def __call__(self, payloads: Sequence[bytes]) -> Result:
        self.asked += 1
        found = next((payload for payload in payloads if payload in self.bad), None)
        return Landed() if found is None else Refused(f"bad {found!r}")


@given(st.lists(st.booleans(), max_size=200))
def test_exactly_the_bad_ones_are_rejected_each_with_its_own_reason(bad: list[bool]) -> None:
    payloads = [b"%d" % index for index in range(len(bad))]
    engine = Engine({payload for payload, is_bad in zip(payloads, bad, strict=True) if is_bad})
    found = verdicts(payloads, engine)
    expected = [Reject(f"bad {p!r}") if b else Keep() for p, b in zip(payloads, bad, strict=True)]
    assert found == expected


def test_one_bad_among_many_is_found_by_halving() -> None:
    engine = Engine({b"4711"})
    found = verdicts([b"%d" % index for index in range(10_000)], engine)
    assert isinstance(found, list)
    assert [index for index, verdict in enumerate(found) if verdict != Keep()] == [4711]
    assert engine.asked < 40


@pytest.mark.parametrize("trouble", [Away("cut"), Broken("no table")])
def test_a_store_in_trouble_gives_no_verdict(trouble: Away | Broken) -> None:
    answers: list[Result] = [Refused("some"), Landed(), trouble]
    assert verdicts([b"a", b"b"], lambda _: answers.pop(0)) == trouble


def test_five_per_cent_of_a_thousand_in_a_row_pass_and_one_more_halts() -> None:
    budget = Budget(1000, 0.05)
    assert budget.spend("t", 1000, range(0, 1000, 20)) is None
    why = budget.spend("t", 1, [0]) or budget.spend("t", 1, [0])
    assert why is not None
    assert "51 of the last 1000 messages of t were refused" in why


def test_rejects_that_are_long_past_are_forgotten() -> None:
    budget = Budget(100, 0.1)
    for _ in range(50):
        assert budget.spend("t", 100, range(10)) is None


def test_a_batch_of_rejects_halts_however_few_batches_there_were() -> None:
    assert Budget(1000, 0.05).spend("t", 60, range(60)) is not None


def test_topics_have_budgets_of_their_own() -> None:
    budget = Budget(100, 0.1)
    assert budget.spend("a", 10, range(10)) is None
    assert budget.spend("b", 10, range(10)) is None
    assert budget.spend("a", 1, [0]) is not None


def test_rejects_found_after_their_batch_was_counted_are_counted_once() -> None:
    budget = Budget(100, 0.1)
    assert budget.spend("t", 20, []) is None
    assert budget.spend("t", 0, [index - 20 for index in range(10)]) is None
    assert budget.spend("t", 0, [-1]) is not None
