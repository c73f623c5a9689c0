"""The loop on twins: what lands, what is declared and settled, and that no crash loses or doubles anything."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest_world import BAD, FIRST, TOPIC, Crash, Fuse, World, good, offsets_in
from warpmeter import wire
from warpmeter.consumers.batch import Batch
from warpmeter.consumers.ledger import Declared, Done, Fatal, Fenced, Outcome, Retry, Settled
from warpmeter.consumers.loop import Halted
from warpmeter.consumers.sink import Away, Broken, Landed, Refused, Result
from warpmeter.consumers.span import Partition, Span
from warpmeter.schemas.topics import TOPICS

SECOND = Partition(TOPIC, 1)
THIRD = Partition(TOPIC, 2)


def record(world: World, where: Partition = FIRST) -> Declared | Settled:
    found = world.ledger.recall([where])[where]
    assert isinstance(found, Declared | Settled)
    return found


def test_everything_lands_once_and_in_order_and_is_settled() -> None:
    world = World()
    world.produce(11)
    world.start(FIRST).settle()
    assert world.landed == world.produced
    assert offsets_in(world) == [(0, 3), (4, 7), (8, 10)]
    assert record(world) == Settled(FIRST, world.topics.ids[TOPIC], 11)


def test_the_boundary_is_declared_before_the_insert() -> None:
    world = World()
    world.produce(4)
    world.sink.next_results = [Away("down")] * 3
    world.start(FIRST).turn(2)
    assert not world.landed
    found = record(world)
    assert isinstance(found, Declared)
    assert found.span == Span(TOPIC, world.topics.ids[TOPIC], 0, 0, 3)


def test_partitions_that_flush_together_are_declared_in_one_commit() -> None:
    world = World()
    commits: list[int] = []
    write = world.ledger._write

    def writing(entries: Sequence[Declared | Settled]) -> Outcome:
        commits.append(len(entries))
        return write(entries)

    world.ledger._write = writing  # type: ignore[method-assign]
    for partition in range(3):
        world.produce(4, partition)
    world.start(FIRST, SECOND, THIRD).turn(2)
    assert commits == [3]


def test_a_declare_of_the_next_span_settles_the_one_before() -> None:
    world = World()
    process = world.start(FIRST)
    world.produce(4)
    process.turn(3)
    assert isinstance(record(world), Declared)
    world.produce(4)
    process.turn(3)
    found = record(world)
    assert isinstance(found, Declared)
    assert (found.span.first, found.span.last) == (4, 7)


def test_a_batch_closes_by_age_and_a_quiet_partition_is_settled_after_a_while() -> None:
    world = World()
    process = world.start(FIRST)
    world.produce(1)
    process.turn(5)
    assert not world.landed
    process.turn(10)
    assert world.landed == world.produced
    assert isinstance(record(world), Declared)
    process.turn(25)
    assert record(world) == Settled(FIRST, world.topics.ids[TOPIC], 1)


def test_a_stop_inserts_and_settles_what_is_held() -> None:
    world = World()
    process = world.start(FIRST)
    world.produce(2)
    process.turn(2)
    assert process.loop.drain()
    assert world.landed == world.produced
    assert record(world) == Settled(FIRST, world.topics.ids[TOPIC], 2)
    assert process.broker.closed


def test_a_stop_while_the_store_is_away_ends_in_time_and_the_next_start_goes_on() -> None:
    world = World()
    process = world.start(FIRST)
    world.produce(2)
    process.turn(2)
    world.sink.next_results = [Away("down")] * 1000
    assert not process.loop.drain(4.0)
    world.sink.next_results = []
    world.start(FIRST).settle()
    assert world.landed == world.produced


def test_a_stop_with_more_than_it_has_time_for_declares_no_more_than_it_inserts_and_says_what_is_left() -> None:
    world = World()
    world.settings(batch_rows=1000, batch_age_s=50.0)
    world.topics.create(TOPIC, partitions=40)
    partitions = [Partition(TOPIC, number) for number in range(40)]
    process = world.start(*partitions)
    process.turn(2)
    for where in partitions:
        world.produce(2, where.number)
    process.turn(2)
    world.sink.insert = slow(world, insert := world.sink.insert)  # type: ignore[method-assign,assignment]
    polls = process.broker.polls
    assert not process.loop.drain(4.0)
    assert process.broker.polls == polls
    assert 8 <= len(world.sink.rows) < 40
    assert not [entry for entry in world.ledger.recall(partitions).values() if isinstance(entry, Declared)]
    left = 2 * (40 - len(world.sink.rows))
    assert process.loop.left == f"{left} messages were read and not begun, and are read again; nothing is lost"
    world.sink.insert = insert  # type: ignore[method-assign]
    world.settings(batch_age_s=1.0)
    world.start(*partitions).settle()
    assert sorted(world.landed) == sorted(world.produced)


def slow(world: World, insert: Callable[[Batch], Result]) -> Callable[[Batch], Result]:
    """An insert that takes 0.2 s."""

    def inserts(batch: Batch) -> Result:
        world.clock.sleep(0.2)
        return insert(batch)

    return inserts


def test_a_stop_while_a_declared_span_is_not_stored_says_so() -> None:
    world = World()
    process = world.start(FIRST)
    world.produce(2)
    process.turn(2)
    world.sink.next_results = [Away("down")] * 1000
    assert not process.loop.drain(4.0)
    assert process.loop.left.startswith("the store: down; 1 declared spans are not known to be stored")


def test_who_halts_leaves_the_group_and_settles_what_landed() -> None:
    world = World()
    process = world.start(FIRST)
    process.turn(2)
    world.produce(4)
    process.turn(3)
    assert world.landed == world.produced
    process.loop.leave()
    assert process.broker.closed
    assert record(world) == Settled(FIRST, world.topics.ids[TOPIC], 4)


def test_a_topic_is_read_out_before_a_stop_when_the_broker_ends_with_it() -> None:
    world = World()
    world.settings(batch_rows=1000, batch_age_s=50.0)
    world.produce(7)
    process = world.start(FIRST)
    process.loop.read_out(quiet_s=0.0, seconds=0.1)
    assert process.loop.drain()
    assert world.landed == world.produced


# Crashes.


def scenario(world: World) -> None:
    """Two partitions, a lost reply, messages of every kind, a quiet while, a stop."""
    process = world.start(FIRST, SECOND)
    process.turn(2)
    world.produce(9)
    world.produce_bad(b"\xff", None)
    world.produce(3, 1)
    process.turn(2)
    world.sink.lose_reply = True
    world.produce(6)
    world.produce_bad(wire.field(1, BAD), None)
    world.produce(2)
    process.turn(40)
    world.produce(1, 1)
    process.turn(12)
    process.loop.drain()


def assert_exactly_once(world: World) -> None:
    assert sorted(world.landed) == sorted(world.produced)
    dead = {(letter.partition, letter.offset) for letter in world.letters.dead}
    assert dead == {(0, 9), (0, 16)}
    spans = sorted(world.sink.rows, key=lambda span: (span.partition, span.first))
    assert all(not one.overlaps(other) for one in spans for other in spans if one is not other)


def test_the_scenario_without_a_crash() -> None:
    world = World()
    scenario(world)
    assert_exactly_once(world)


@pytest.mark.parametrize("after", [False, True], ids=["before the call", "after the call"])
def test_a_crash_at_any_call_to_the_world_loses_nothing_and_doubles_nothing(after: bool) -> None:
    for call in range(1, 10_000):
        world = World(fuse=Fuse(call, after))
        try:
            scenario(world)
        except Crash:
            world.fuse.left = None
        if not world.fuse.burnt:
            assert call > 80, "the scenario is too short to mean anything"
            return
        process = world.start(FIRST, SECOND)
        process.turn(1)
        world.produce(3)
        process.settle()
        process.loop.drain()
        assert sorted(world.landed) == sorted(world.produced), f"crash at call {call}"
        spans = list(world.sink.rows)
        assert all(not one.overlaps(other) for one in spans for other in spans if one is not other), f"at {call}"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 120), st.booleans(), st.integers(0, 9)), max_size=5))
def test_crash_upon_crash_loses_nothing_and_doubles_nothing(crashes: list[tuple[int, bool, int]]) -> None:
    world = World()
    for call, after, count in crashes:
        world.fuse.left, world.fuse.after = call, after
        try:
            process = world.start(FIRST)
            world.produce(count)
            process.turn(30)
        except Crash:
            pass
        world.fuse.left = None
    world.produce(1)
    world.start(FIRST).settle()
    assert world.landed == world.produced


def test_a_replay_is_the_very_same_span_whatever_the_limits_are_now() -> None:
    world = World()
    world.produce(4)
    world.sink.next_results = [Away("down")] * 99
    world.start(FIRST).turn(3)
    world.sink.next_results = []
    world.settings(batch_rows=2)
    world.produce(5)
    world.start(FIRST).settle()
    assert offsets_in(world) == [(0, 3), (4, 5), (6, 7), (8, 8)]
    assert world.landed == world.produced


def test_a_lost_reply_is_answered_by_the_same_token_again() -> None:
    world = World()
    world.produce(4)
    world.sink.lose_reply = True
    world.start(FIRST).settle()
    assert world.landed == world.produced


# Bad bytes.


def test_bad_messages_go_to_the_dead_letters_as_they_came_and_the_rest_lands() -> None:
    world = World()
    world.produce(1)
    at = world.produce_bad(b"\xff\xff", [("type", b"HostSample"), ("trace", b"\xfe")])
    world.produce(2)
    world.start(FIRST).settle()
    assert world.landed == world.produced
    (letter,) = world.letters.dead
    assert (letter.topic, letter.topic_uuid) == (TOPIC, world.topics.ids[TOPIC])
    assert (letter.partition, letter.offset) == (0, at)
    assert (letter.value, letter.key) == (b"\xff\xff", b"key")
    assert dict(letter.headers) == {"type": "HostSample", "trace": "\\xfe"}
    assert "do not parse" in letter.reason


def test_what_the_engine_refuses_is_found_and_the_rest_lands_under_the_spans_token() -> None:
    world = World()
    world.produce(2)
    payload = good(77).value + wire.field(1, BAD)
    at = world.produce_bad(payload, [("type", b"HostSample"), ("rows", b"2")])
    world.produce(1)
    world.start(FIRST).settle()
    assert world.landed == world.produced
    assert offsets_in(world) == [(0, 2), (3, 3)]
    assert [(letter.offset, letter.value) for letter in world.letters.dead] == [(at, payload)]


def test_a_value_without_headers_is_taken_when_the_engine_takes_it() -> None:
    world = World()
    world.produce_bad(good(0).value, None)
    world.start(FIRST).settle()
    assert world.landed == [good(0).value]
    assert not world.letters.dead


def test_rejects_are_acknowledged_before_the_span_is_declared_and_a_replay_judges_alike() -> None:
    world = World()
    world.produce(2)
    world.produce_bad(b"\xff", None)
    world.produce(1)
    world.letters.refusal = "no broker"
    process = world.start(FIRST)
    process.turn(3)
    assert FIRST not in world.ledger.records
    world.letters.refusal = None
    world.sink.next_results = [Away("down")] * 999
    process.turn(30)
    found = record(world)
    assert isinstance(found, Declared)
    assert found.rejects == (2,)
    world.sink.next_results = []
    world.sink.rule = lambda _: None
    world.start(FIRST).settle()
    assert world.landed == world.produced
    assert len(world.letters.dead) == 1


def test_a_span_of_nothing_but_rejects_is_settled_without_an_insert() -> None:
    world = World()
    world.produce_bad(b"\xff", None)
    world.start(FIRST).settle()
    assert not world.sink.rows
    assert record(world) == Settled(FIRST, world.topics.ids[TOPIC], 1)


def test_too_many_rejects_halt_before_they_drain_the_topic() -> None:
    world = World()
    world.settings(batch_rows=1000, reject_window=100, reject_share=0.05)
    world.produce(50)
    for _ in range(6):
        world.produce_bad(b"\xff", None)
    with pytest.raises(Halted, match=r"6 of the last 100 messages of warpmeter.host-samples.*not an Envelope"):
        world.start(FIRST).turn(30)
    assert not world.letters.dead
    assert not world.landed


def test_more_rejects_than_a_commit_holds_go_in_parts() -> None:
    world = World()
    world.settings(batch_rows=10_000, reject_window=10_000, reject_share=1.0)
    for _ in range(900):
        world.produce(1)
        world.produce_bad(b"\xff", None)
    world.start(FIRST).settle()
    assert world.landed == world.produced
    assert len(world.letters.dead) == 900
    assert len(offsets_in(world)) > 1
    assert record(world) == Settled(FIRST, world.topics.ids[TOPIC], 1800)


def test_a_batch_that_is_refused_but_none_of_whose_messages_is_halts() -> None:
    world = World()
    world.produce(4)
    world.sink.next_results = [Refused("odd")]
    with pytest.raises(
        Halted,
        match=r"alone is accepted: odd.* start `warpmeter ingest` again, which goes on from",
    ):
        world.start(FIRST).turn(5)


# Away and back.


def test_while_the_store_is_away_partitions_pause_the_loop_polls_on_and_nothing_is_lost() -> None:
    world = World()
    world.produce(4)
    world.sink.next_results = [Away("cut")] * 6
    process = world.start(FIRST)
    process.turn(15)
    assert process.broker.paused == {FIRST}
    before = process.broker.polls
    process.turn(10)
    assert process.broker.polls == before + 10
    process.turn(600)
    assert world.landed == world.produced
    assert not process.broker.paused
    states = [row for row in world.letters.sent if row.topic == "source-health"]
    assert len(states) == 2


def test_what_the_store_will_never_do_halts_and_names_table_and_cause() -> None:
    world = World()
    world.produce(4)
    world.sink.next_results = [Broken("cannot insert into host_samples: readonly")]
    with pytest.raises(Halted, match="host_samples: readonly"):
        world.start(FIRST).turn(5)


def test_a_member_that_slept_between_declare_and_insert_declares_again_first() -> None:
    world = World()
    world.produce(8)
    process = world.start(FIRST, SECOND)
    world.produce(4, 1)
    order: list[str] = []
    declare, insert = world.ledger.declare, world.sink.insert

    def declaring(entries: list[Declared]) -> object:
        order.append("declare")
        return declare(entries)

    def inserting(batch: object) -> object:
        order.append("insert")
        world.clock.time += 6.0
        return insert(batch)  # type: ignore[arg-type]

    world.ledger.declare = declaring  # type: ignore[method-assign, assignment]
    world.sink.insert = inserting  # type: ignore[method-assign, assignment]
    process.turn(2)
    assert order[:4] == ["declare", "insert", "declare", "insert"]


@pytest.mark.parametrize("outcome", [Retry("coordinator moves"), Fenced("generation")])
def test_a_refused_declare_inserts_nothing_until_it_is_taken(outcome: Retry | Fenced) -> None:
    world = World()
    world.produce(4)
    process = world.start(FIRST)
    world.ledger.outcome = outcome
    process.turn(5)
    assert not world.landed
    world.ledger.outcome = Done()
    process.turn(30)
    assert world.landed == world.produced


def test_a_commit_that_will_never_be_taken_halts() -> None:
    world = World()
    world.produce(4)
    world.ledger.outcome = Fatal("not authorised")
    with pytest.raises(Halted, match="not authorised"):
        world.start(FIRST).turn(3)


def test_the_byte_budget_bounds_what_is_held() -> None:
    world = World()
    world.settings(batch_rows=10**6, batch_age_s=50.0, budget_bytes=20_000)
    for partition in range(3):
        world.produce(60, partition)
    world.start(FIRST, SECOND, THIRD).turn(20)
    assert sorted(world.landed) == sorted(world.produced)


# Partitions come and go.


def test_on_revoke_the_open_batch_is_abandoned_and_the_next_owner_reads_it_again() -> None:
    world = World()
    world.produce(6)
    one = world.start(FIRST)
    one.turn(3)
    assert offsets_in(world) == [(0, 3)]
    one.broker.take([FIRST])
    one.turn(1)
    assert record(world) == Settled(FIRST, world.topics.ids[TOPIC], 4)
    world.start(FIRST).settle()
    one.turn(20)
    assert world.landed == world.produced


def test_a_lost_partition_is_neither_settled_nor_inserted_any_more() -> None:
    world = World()
    world.produce(4)
    one = world.start(FIRST)
    world.sink.next_results = [Away("cut")]
    one.turn(1)
    one.broker.take([FIRST], lost=True)
    two = world.start(FIRST)
    one.turn(20)
    assert not world.landed
    two.settle()
    assert world.landed == world.produced


def test_a_partition_that_goes_and_comes_back_begins_from_the_ledger() -> None:
    world = World()
    world.produce(6)
    process = world.start(FIRST)
    world.sink.next_results = [Away("cut")]
    process.turn(1)
    process.broker.take([FIRST], lost=True)
    process.broker.give([FIRST])
    process.settle()
    assert world.landed == world.produced


# Offsets and topics come and go.


def test_the_first_start_of_a_group_begins_at_the_earliest_offset() -> None:
    world = World()
    world.produce(5)
    world.topics.retain_from(FIRST, 2)
    world.start(FIRST).settle()
    assert world.landed == world.produced[2:]
    assert offsets_in(world)[0] == (2, 4)


def test_no_offset_but_rows_of_it_in_the_table_halts() -> None:
    world = World()
    world.produce(4)
    world.start(FIRST).settle()
    world.ledger.records.clear()
    with pytest.raises(Halted, match=r"the group has no offset of .*holds offsets up to 3.*--to-offset 4 "):
        world.start(FIRST).turn(3)
    assert len(world.landed) == 4


def test_all_partitions_that_must_not_begin_are_named_with_one_command() -> None:
    world = World()
    partitions = [Partition(TOPIC, number) for number in range(3)]
    for where in partitions:
        world.produce(4 + where.number, where.number)
    world.start(*partitions).settle()
    world.ledger.records = dict.fromkeys(partitions, (0, ""))
    with pytest.raises(Halted, match="3 partitions must not begin") as halted:
        world.start(*partitions).turn(3)
    assert f"echo {TOPIC},0,4 {TOPIC},1,5 {TOPIC},2,6 | xargs -n1 > offsets.csv && " in str(halted.value)
    for where in partitions:
        assert f"offset 0 of {where} is not ours" in str(halted.value)


def test_an_offset_that_somebody_set_back_halts_unless_it_goes_on_where_the_table_ends() -> None:
    world = World()
    world.produce(8)
    world.start(FIRST).settle()
    world.ledger.records[FIRST] = (5, "")
    with pytest.raises(Halted, match=r"offset 5 .* is not ours.*--to-offset 8 "):
        world.start(FIRST).turn(3)
    world.ledger.records[FIRST] = (8, "")
    world.produce(2)
    world.start(FIRST).settle()
    assert world.landed == world.produced
    assert lost_rows(world) == []


def test_an_offset_that_somebody_set_forward_is_a_counted_and_published_loss() -> None:
    world = World()
    world.produce(4)
    world.start(FIRST).settle()
    world.produce(6)
    world.ledger.records[FIRST] = (7, "")
    world.start(FIRST).settle()
    assert world.landed == world.produced[:4] + world.produced[7:]
    told = [("the group's offset was set forward: offsets 4 to 6 are left out", 3)]
    assert lost_rows(world) == told
    world.start(FIRST).settle()
    assert lost_rows(world) == told, "told once: the place is ours now"


def test_the_place_after_a_jump_is_ours_though_nothing_comes() -> None:
    world = World()
    world.produce(4)
    world.start(FIRST).settle()
    world.produce(6)
    world.ledger.records[FIRST] = (10, "")
    world.start(FIRST).settle()
    assert isinstance(record(world), Settled)
    world.start(FIRST).settle()
    assert len(lost_rows(world)) == 1


def test_a_record_ahead_of_the_table_that_no_tool_wrote_halts() -> None:
    world = World()
    world.produce(8)
    world.start(FIRST).settle()
    world.ledger.records[FIRST] = (12, '{"version": 2}')
    with pytest.raises(Halted, match=r"offset 12 .* is not ours \(unreadable metadata"):
        world.start(FIRST).turn(3)


def test_nothing_is_inserted_while_a_migration_changes_the_tables() -> None:
    world = World()
    world.produce(4)
    world.sink.unready = Away("a migration is at work (host:1): inserts wait for it")
    process = world.start(FIRST)
    process.turn(40)
    assert (world.landed, world.ledger.records) == ([], {})
    world.sink.unready = None
    process.turn(200)
    assert world.landed == world.produced


def test_a_ledger_that_is_behind_the_table_halts() -> None:
    world = World()
    world.produce(4)
    process = world.start(FIRST)
    process.turn(3)
    old = dict(world.ledger.records)
    world.produce(4)
    process.settle()
    world.ledger.records = old
    with pytest.raises(Halted, match="declared span 0-3"):
        world.start(FIRST).turn(3)


def lost_rows(world: World) -> list[tuple[str, int]]:
    rows = [wire.unpack(TOPICS["source-health"], e.value)[0] for e in world.letters.sent if e.topic == "source-health"]
    return [(row.why, row.count) for row in rows]  # type: ignore[attr-defined]


def test_what_retention_took_is_a_counted_and_published_loss() -> None:
    world = World()
    world.produce(4)
    world.start(FIRST).settle()
    world.produce(6)
    world.topics.retain_from(FIRST, 7)
    world.start(FIRST).settle()
    assert world.landed == world.produced[:4] + world.produced[7:]
    assert lost_rows(world) == [("retention took offsets 4 to 6 before they were read", 3)]


def test_retention_that_took_a_declared_span_which_had_landed_is_no_loss() -> None:
    world = World()
    world.produce(4)
    world.start(FIRST).turn(3)
    assert isinstance(record(world), Declared)
    world.produce(2)
    world.topics.retain_from(FIRST, 4)
    world.start(FIRST).settle()
    assert world.landed == world.produced
    assert lost_rows(world) == []


def test_retention_that_took_a_declared_span_which_had_not_landed_is_a_loss() -> None:
    world = World()
    world.produce(4)
    world.sink.next_results = [Away("down")] * 99
    world.start(FIRST).turn(2)
    world.sink.next_results = []
    world.produce(2)
    world.topics.retain_from(FIRST, 3)
    world.start(FIRST).settle()
    assert world.landed == world.produced[3:]
    assert [count for _, count in lost_rows(world)][-1] == 3


def test_a_topic_made_again_while_nobody_looked_starts_at_its_first_offset_under_its_new_id() -> None:
    world = World()
    world.produce(6)
    world.start(FIRST).settle()
    world.topics.create(TOPIC, 3)
    world.produce(9)
    world.start(FIRST).settle()
    assert sorted(world.landed) == sorted(world.produced)
    assert len({span.uuid for span in world.sink.rows}) == 2


@pytest.mark.parametrize("produced_after", [3, 6, 20])
def test_a_topic_made_again_under_a_running_consumer_is_noticed_before_anything_lands(produced_after: int) -> None:
    """Also when the new topic has already grown past the old position, so that no fetch fails."""
    world = World()
    world.produce(6)
    process = world.start(FIRST)
    process.settle()
    world.topics.create(TOPIC, 3)
    world.produce(produced_after)
    process.turn(80)
    world.produce(1)
    process.turn(80)
    assert sorted(world.landed) == sorted(world.produced)


@pytest.mark.parametrize("revoked", [False, True])
def test_what_was_read_of_a_topic_that_is_no_more_is_inserted(revoked: bool) -> None:
    """Nobody can read it again: not the next owner, and not a replay."""
    world = World()
    world.produce(6)
    process = world.start(FIRST)
    process.turn(2)
    world.topics.delete(TOPIC)
    if revoked:
        process.broker.take([FIRST])
    process.turn(40)
    assert world.landed == world.produced
    world.topics.create(TOPIC, 3)
    world.produce(6)
    world.start(FIRST).settle()
    assert sorted(world.landed) == sorted(world.produced)


def test_what_was_read_of_a_topic_that_was_made_again_is_a_counted_loss() -> None:
    world = World()
    world.produce(6)
    process = world.start(FIRST)
    process.turn(2)
    world.topics.create(TOPIC, 3)
    world.produce(1)
    process.turn(80)
    assert sorted(world.landed) == sorted(world.produced[:4] + world.produced[6:])
    assert [count for _, count in lost_rows(world)] == [2]


def test_a_log_that_ends_before_what_was_read_halts() -> None:
    world = World()
    world.produce(6)
    world.start(FIRST).settle()
    world.topics.logs[FIRST].messages = world.topics.logs[FIRST].messages[:3]
    with pytest.raises(Halted, match="ends before offset 6"):
        world.start(FIRST).turn(10)


def test_a_span_past_the_stores_window_is_looked_up_and_not_inserted_again() -> None:
    world = World()
    world.produce(4)
    world.start(FIRST).turn(3)
    assert isinstance(record(world), Declared)
    world.clock.time += 8 * 86_400.0
    world.sink.next_results = [Broken("nothing may be inserted")]
    process = world.start(FIRST)
    process.turn(30)
    world.sink.next_results = []
    world.produce(3)
    process.settle()
    assert world.landed == world.produced


def test_a_span_past_the_window_that_is_not_in_the_table_halts() -> None:
    world = World()
    world.produce(4)
    world.sink.next_results = [Away("down")] * 9
    world.start(FIRST).turn(2)
    world.sink.next_results = []
    world.clock.time += 8 * 86_400.0
    with pytest.raises(Halted, match="the store may have forgotten"):
        world.start(FIRST).turn(3)


def test_landed_is_what_a_normal_call_is_scripted_as() -> None:
    world = World()
    world.produce(8)
    world.sink.next_results = [Landed(), Away("second")]
    world.start(FIRST).settle()
    assert world.landed == world.produced
