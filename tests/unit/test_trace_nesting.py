"""The calling tree from starts and ends: against a stack that walks event by event."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.analysis.nesting import nest

Spans = list[tuple[int, int, int]]  # thread, start, length


def ordered(spans: Spans) -> Spans:
    """As a trace's columns stand: by start, the longer first."""
    return sorted(spans, key=lambda span: (span[1], -span[2]))


def walked(spans: Spans) -> tuple[list[int], list[int], list[int]]:
    """Parent, depth and end of each span, by one stack a thread."""
    parents: list[int] = []
    depths: list[int] = []
    ends: list[int] = []
    stacks: dict[int, list[int]] = {}
    for place, (thread, start, length) in enumerate(spans):
        stack = stacks.setdefault(thread, [])
        while stack and ends[stack[-1]] <= start:
            stack.pop()
        parents.append(stack[-1] if stack else -1)
        depths.append(len(stack))
        ends.append(min(start + length, ends[stack[-1]]) if stack else start + length)
        if length > 0:
            stack.append(place)
    return parents, depths, ends


def columns(spans: Spans) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thread, start and end."""
    table = np.array(spans, np.int64).reshape(-1, 3)
    return table[:, 0].astype(np.int32), table[:, 1], table[:, 1] + table[:, 2]


spans_of = st.builds(
    ordered,
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 15)), max_size=40),
)


@given(spans_of)
def test_the_tree_is_the_stack_s(spans: Spans) -> None:
    tree = nest(*columns(spans))

    assert (tree.parent.tolist(), tree.depth.tolist(), tree.end.tolist()) == walked(spans)


@given(spans_of, st.integers(-(10**18), 10**18), st.integers(1, 10**16))
def test_the_tree_does_not_depend_on_the_clock(spans: Spans, epoch: int, tick: int) -> None:
    scaled = [(thread, epoch + start * tick, length * tick) for thread, start, length in spans]

    assert nest(*columns(scaled)).parent.tolist() == nest(*columns(spans)).parent.tolist()


@given(spans_of, st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 60)), max_size=20))
def test_the_innermost_span_is_the_deepest_open_one(spans: Spans, moments: list[tuple[int, int]]) -> None:
    threads, starts, ends = columns(spans)
    tree = nest(threads, starts, ends)
    asked = np.array(moments, np.int64).reshape(-1, 2)

    found = tree.innermost(asked[:, 0].astype(np.int32), asked[:, 1])

    _, depths, cut = walked(spans)
    for (thread, at), place in zip(moments, found.tolist(), strict=True):
        open_ = [i for i, (on, start, _) in enumerate(spans) if on == thread and start <= at < cut[i]]
        assert place == (max(open_, key=lambda i: depths[i]) if open_ else -1)


def test_a_child_that_sticks_out_is_cut_and_the_next_is_its_parent_s_sibling() -> None:
    tree = nest(*columns([(0, 0, 10), (0, 5, 6), (0, 10, 10), (0, 12, 3)]))

    assert tree.parent.tolist() == [-1, 0, -1, 2]
    assert tree.end.tolist() == [10, 10, 20, 15]


def test_a_long_chain_of_overhangs_is_followed_to_its_end() -> None:
    chain = [span for place in range(2000) for span in ((0, place * 10, 10), (0, place * 10 + 5, 6))]

    tree = nest(*columns(chain))

    assert tree.depth.tolist() == [0, 1] * 2000
    assert tree.parent.tolist() == [parent for place in range(2000) for parent in (-1, 2 * place)]
