"""Whom a turn samples, and how often a process is sampled: pure."""

import pytest

from warpmeter.producers.source import Interpreter, JobTree
from warpmeter.producers.stacks.backoff import GOOD_TURNS, Backoff, Cost
from warpmeter.producers.stacks.rotation import Met, Rotation, Target, candidates

TREES = [
    JobTree("train", 0, 10, (10, 11, 12), (Interpreter(10, 1, "train.py"), Interpreter(12, 2, "python3 -c"))),
    JobTree("train", 1, 20, (20, 21), (Interpreter(20, 3, "train.py"), Interpreter(21, 3, "x.py")), frozenset({20})),
    JobTree("solo", None, 30, (30,)),
]


def target(pid: int) -> Target:
    return Target(pid, 1, "x.py", "job", None)


def test_every_python_process_of_a_job_is_one_unless_it_asks_not_to_be() -> None:
    assert candidates(TREES) == [
        Target(10, 1, "train.py", "train", 0),
        Target(12, 2, "python3 -c", "train", 0),
        Target(21, 3, "x.py", "train", 1),
    ]


def test_who_was_met_in_a_turn_is_known_also_when_it_has_ended() -> None:
    met = Met().also(TREES[:1]).also(TREES[1:])
    assert (met.unsampled, met.names[12]) == (frozenset({20}), "python3 -c")
    assert (met.ranks[11], met.ranks[30]) == (("train", 0), ("solo", None))
    assert 31 not in met.ranks


def test_without_subprocesses_the_first_of_each_tree_is() -> None:
    assert [each.pid for each in candidates(TREES, subprocesses=False)] == [10, 21]


def test_all_are_sampled_in_each_turn_as_long_as_they_fit() -> None:
    rotation = Rotation(3)
    for _ in range(3):
        turn = rotation.turn([target(1), target(2)])
        assert ([each.pid for each in turn.targets], turn.turns) == ([1, 2], 1)


def test_too_many_take_turns_and_each_stands_for_the_turns_until_its_next() -> None:
    rotation, found = Rotation(2), [target(pid) for pid in range(1, 6)]
    turns = [rotation.turn(found) for _ in range(5)]
    assert [[each.pid for each in turn.targets] for turn in turns] == [[1, 2], [3, 4], [5, 1], [2, 3], [4, 5]]
    assert {turn.turns for turn in turns} == {2.5}


def test_who_rests_leaves_the_place_to_others_and_who_is_new_comes_first() -> None:
    rotation = Rotation(2)
    rotation.turn([target(1), target(2)])
    turn = rotation.turn([target(1), target(2), target(3)], lambda each: each.pid == 1)
    assert [each.pid for each in turn.targets] == [3, 2]


def test_a_pid_that_is_used_again_is_another_process() -> None:
    rotation = Rotation(1)
    rotation.turn([target(1)])
    again = Target(1, 99, "x.py", "job", None)
    assert rotation.turn([target(2), again]).targets == [target(2)]
    assert rotation.turn([target(2), again]).targets == [again]


@pytest.mark.parametrize(
    ("cost", "why"),
    [
        (Cost(0.59, False, 100), ""),
        (Cost(0.7, False), "took 0.7 s of CPU time, over 1% of a core"),
        (Cost(0.0, True), "behind"),
        (Cost(0.0, False, 150), "it lost 15 % of its steps while it was sampled"),
    ],
)
def test_what_is_too_much(cost: Cost, why: str) -> None:
    said = cost.too_much(60.0)
    assert why in said
    assert bool(why) == bool(said)


def test_it_is_sampled_less_until_it_rests_and_more_again_when_all_is_well() -> None:
    backoff, key = Backoff(19, 60.0), (1, 1)
    seen = []
    for _ in range(7):
        backoff.took(key, Cost(behind=True))
        seen.append((backoff.rate(key), backoff.every(key)))
    assert seen == [(9, 1), (4, 1), (2, 1), (1, 1), (1, 2), (1, 4), (1, 8)]
    assert backoff.told() == [(1, "1 samples a second in one turn of 8, for its sampler was behind")]
    assert [backoff.rests(key) for _ in range(9)] == [True] * 7 + [False, True]
    for _ in range(7 * GOOD_TURNS):
        backoff.took(key, Cost())
        seen.append((backoff.rate(key), backoff.every(key)))
    assert list(dict.fromkeys(seen[7:])) == [(1, 8), (1, 4), (1, 2), (1, 1), (2, 1), (4, 1), (8, 1), (16, 1)]
    for _ in range(GOOD_TURNS):
        backoff.took(key, Cost())
    assert (backoff.rate(key), backoff.told()) == (19, [])


def test_it_stays_where_it_costs_its_share_and_more_would_be_too_much() -> None:
    host, key = Backoff(1, 60.0), (0, 0)
    for _ in range(4 * GOOD_TURNS):
        host.took(key, Cost(1.0))  # each turn it takes more than a hundredth of a core, each second turn less
    assert host.every(key) == 2
    backoff = Backoff(19, 60.0)
    backoff.took(key, Cost(0.7))
    for _ in range(4 * GOOD_TURNS):
        backoff.took(key, Cost(0.4))
    assert backoff.rate(key) == 9


def test_who_is_well_is_not_held_back_and_who_is_gone_is_forgotten() -> None:
    backoff = Backoff(19, 60.0)
    backoff.took((1, 1), Cost(0.1))
    backoff.took((2, 1), Cost(behind=True))
    assert (backoff.rate((1, 1)), backoff.rests((1, 1)), len(backoff.told())) == (19, False, 1)
    backoff.keep({(1, 1)})
    assert backoff.told() == []
