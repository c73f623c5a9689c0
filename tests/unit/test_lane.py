"""A lane closes batches so that the store gets as few inserts as freshness and memory allow."""

from warpmeter.consumers.batch import Limits
from warpmeter.consumers.lane import Began, Lane
from warpmeter.consumers.message import Given
from warpmeter.consumers.shape import looker
from warpmeter.consumers.span import Partition
from warpmeter.consumers.start import Start
from warpmeter.schemas.topics import TOPICS

WHERE = Partition("t", 0)


def test_behind_a_batch_that_waits_the_next_one_grows_whatever_its_age() -> None:
    lane = Lane(Began(Start(WHERE, "u", 0), None), looker(TOPICS["host-samples"], False), Limits(1 << 20, 100, 5.0))
    for second in range(20):
        lane.take(Given("t", 0, second, b""), float(second))
        lane.close_if_due(float(second))
    (waits,) = lane.closed
    assert len(waits.messages) == 6
    lane.closed.popleft()  # the store takes it
    lane.close_if_due(20.0)
    (waits,) = lane.closed
    assert len(waits.messages) == 14
