"""Whether ingest may begin where the group is, told from a group and tables that are read one after the other."""

from warpmeter.consumers.ledger import Declared, Entry, Settled
from warpmeter.consumers.span import Partition, Span
from warpmeter.consumers.start import Group, compared

TOPIC, LIFE, OTHER = "warpmeter.gpu-samples", "a", "b"
WHERE, NEXT = Partition(TOPIC, 0), Partition(TOPIC, 1)


def group(life: str = LIFE, **entries: Entry) -> Group:
    """The records of partitions by number, as `p0`."""
    return Group({TOPIC: life}, {Partition(TOPIC, int(name[1:])): entry for name, entry in entries.items()})


def settled(offset: int, where: Partition = WHERE) -> Settled:
    return Settled(where, LIFE, offset)


def declared(first: int, last: int) -> Declared:
    return Declared(Span(TOPIC, LIFE, 0, first, last), 0.0)


def test_what_lands_while_it_is_looked_at_is_not_called_wrong() -> None:
    before, after = group(p0=settled(10)), group(p0=settled(20))
    assert compared([WHERE], before, {WHERE: 19}, after) == ([], [WHERE])
    assert compared([WHERE], group(p0=declared(10, 19)), {WHERE: 29}, group(p0=declared(20, 29))) == ([], [WHERE])
    assert compared([WHERE], group(), {WHERE: 9}, group(p0=settled(10))) == ([], [WHERE])


def test_a_group_that_stands_still_behind_the_tables_is_wrong_beside_one_that_moves() -> None:
    before, after = group(p0=settled(5), p1=settled(5, NEXT)), group(p0=settled(5), p1=settled(10, NEXT))
    refused, moved = compared([WHERE, NEXT], before, {WHERE: 9, NEXT: 9}, after)
    assert [(each.where, each.offset) for each in refused] == [(WHERE, 10)]
    assert moved == [NEXT]


def test_what_moves_and_may_begin_is_fine() -> None:
    assert compared([WHERE], group(p0=declared(10, 19)), {WHERE: 19}, group(p0=settled(20))) == ([], [])
    assert compared([WHERE], group(p0=settled(10)), {WHERE: 9}, group(p0=declared(10, 19))) == ([], [])


def test_a_topic_that_is_made_anew_meanwhile_is_not_judged() -> None:
    assert compared([WHERE], group(p0=settled(5)), {WHERE: 9}, group(OTHER, p0=settled(5))) == ([], [WHERE])
