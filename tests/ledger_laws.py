"""What every ledger keeps to, whatever it is made of. `reopen` opens the same one as the next process would."""

from collections.abc import Callable, Sequence
from typing import Final

from warpmeter.consumers.ledger import Declared, Done, Ledger, Settled
from warpmeter.consumers.span import Partition, Span

Law = Callable[[Callable[[], Ledger], Sequence[Partition]], None]
LIFE: Final = "life"


def where(number: int, topic: str = "t") -> Partition:
    return Partition(topic, number)


def declared(first: int, last: int, *rejects: int, of: Partition | None = None, at: float = 1.5) -> Declared:
    of = of or where(0)
    return Declared(Span(of.topic, LIFE, of.number, first, last), at, rejects)


def nothing_is_recalled_before_the_first_record(reopen: Callable[[], Ledger], at: Sequence[Partition]) -> None:
    assert reopen().recall(at) == {}


def a_declared_span_is_recalled_by_the_next_process(reopen: Callable[[], Ledger], at: Sequence[Partition]) -> None:
    intent = declared(5, 9, 6, 8, of=at[0])
    assert reopen().declare([intent]) == Done()
    assert reopen().recall(at) == {at[0]: intent}


def a_declare_replaces_the_one_before(reopen: Callable[[], Ledger], at: Sequence[Partition]) -> None:
    ledger = reopen()
    assert ledger.declare([declared(5, 9, of=at[0])]) == Done()
    assert ledger.declare([declared(10, 12, of=at[0])]) == Done()
    assert reopen().recall(at) == {at[0]: declared(10, 12, of=at[0])}


def a_settle_leaves_no_intent(reopen: Callable[[], Ledger], at: Sequence[Partition]) -> None:
    ledger = reopen()
    assert ledger.declare([declared(5, 9, of=at[0])]) == Done()
    assert ledger.settle([Settled(at[0], LIFE, 10)]) == Done()
    assert reopen().recall(at) == {at[0]: Settled(at[0], LIFE, 10)}


def partitions_are_written_together_and_kept_apart(reopen: Callable[[], Ledger], at: Sequence[Partition]) -> None:
    ledger = reopen()
    both = [declared(5, 9, of=at[0]), declared(70, 90, of=at[1])]
    assert ledger.declare(both) == Done()
    assert ledger.settle([Settled(at[0], LIFE, 10)]) == Done()
    assert reopen().recall(at) == {at[0]: Settled(at[0], LIFE, 10), at[1]: both[1]}
    assert reopen().recall(at[1:]) == {at[1]: both[1]}


LAWS: Final[tuple[Law, ...]] = (
    nothing_is_recalled_before_the_first_record,
    a_declared_span_is_recalled_by_the_next_process,
    a_declare_replaces_the_one_before,
    a_settle_leaves_no_intent,
    partitions_are_written_together_and_kept_apart,
)
