"""Two captures: what came, went, slowed, sped up, and that nothing of the change is left over."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tracebuilder import TraceBuilder
from warpmeter.analysis.breakdown import Breakdown
from warpmeter.analysis.diff import Change, Diff, Measured, diff
from warpmeter.analysis.kernels import Kernel
from warpmeter.analysis.operators import OperatorTimes
from warpmeter.analysis.report import Options, RankReport, analyze
from warpmeter.analysis.steps import Step

STEP = 10_000_000


@dataclass
class Program:
    """A program of steps, in each of which operators launch kernels: (operator, kernel, count, duration)."""

    work: Sequence[tuple[str, str, int, int]]
    steps: int = 4
    marked: bool = True
    gap: int = 1_000
    length: int = STEP

    def report(self) -> RankReport:
        """What is found in its trace."""
        made = TraceBuilder()
        for step in range(self.steps):
            begin = step * self.length
            if self.marked:
                made.step(step, begin, self.length)
            now = begin + 10_000
            for operator, kernel, count, duration in self.work:
                made.operator(operator, now, 500 * count + 100)
                for turn in range(count):
                    made.launch(kernel, (now + 10 + 500 * turn, 300), (now + turn * (duration + self.gap), duration))
                now += max(500 * count + 200, count * (duration + self.gap))
        return analyze(made.build(), Options(strict=True))


def by_name(changes: Sequence[Change]) -> dict[str, Change]:
    return {each.name: each for each in changes}


def accounted(found: Diff) -> None:
    """All parts add up to the whole."""
    total = found.kernels_ns.change_ns
    assert sum(each.change_ns for each in found.kernels) == pytest.approx(total, abs=1e-3)
    assert sum(found.by_status.values()) == pytest.approx(total, abs=1e-3)
    assert sum(each.change_ns for each in found.operators_gpu) + found.elsewhere_ns.change_ns == pytest.approx(
        total, abs=1e-3
    )
    for each in (*found.kernels, *found.operators_gpu, *found.operators_cpu):
        assert each.by_number_ns + each.by_duration_ns == pytest.approx(each.change_ns, abs=1e-3)
    assert found.span_ns is not None
    assert sum(part.change_ns for part in found.parts) == pytest.approx(found.span_ns.change_ns, abs=1e-3)


OLD = Program(
    [
        ("aten::mm", "ampere_gemm", 4, 100_000),
        ("aten::add", "add", 3, 5_000),
        ("aten::softmax", "softmax", 2, 20_000),
        ("aten::gelu", "gelu", 1, 9_000),
        ("aten::copy_", "cast", 2, 4_000),
    ]
)


def test_what_came_went_slowed_and_sped_up() -> None:
    new = Program(
        [
            ("aten::mm", "hopper_gemm", 4, 60_000),
            ("aten::add", "add", 3, 10_000),
            ("aten::softmax", "softmax", 2, 10_000),
            ("aten::gelu", "gelu", 1, 9_050),
            ("aten::copy_", "cast", 5, 4_000),
            ("aten::dropout", "dropout", 1, 3_000),
        ],
        steps=6,
    )
    found = diff([OLD.report()], [new.report()])
    accounted(found)
    status = {name: each.status for name, each in by_name(found.kernels).items()}
    assert status == {
        "ampere_gemm": "went",
        "hopper_gemm": "came",
        "add": "slower",
        "softmax": "faster",
        "gelu": "same",
        "cast": "more",
        "dropout": "came",
    }
    assert (found.unit, found.before_units, found.after_units) == ("step", 4, 6)
    assert found.kernels[0].name in ("ampere_gemm", "hopper_gemm")
    assert found.kernels_ns.change_ns == -160_000 + 15_000 - 20_000 + 50 + 12_000 + 3_000
    assert by_name(found.kernels)["cast"].by_number_ns == 12_000
    assert by_name(found.operators_gpu)["aten::mm"].change_ns == -160_000


def test_a_kernel_that_was_replaced_says_by_which() -> None:
    new = Program([("aten::mm", "hopper_gemm", 4, 60_000), *OLD.work[1:4], ("aten::new", "cast_v2", 2, 4_000)])
    kernels = by_name(diff([OLD.report()], [new.report()]).kernels)
    assert (kernels["ampere_gemm"].instead, kernels["hopper_gemm"].instead) == ("hopper_gemm", "ampere_gemm")
    assert kernels["cast"].instead is None


def test_nothing_changed() -> None:
    found = diff([OLD.report()], [Program(OLD.work, steps=9).report()])
    accounted(found)
    assert {each.status for each in found.kernels} == {"same"}
    assert found.kernels_ns.change_ns == 0
    assert all(each.change_ns == 0 for each in found.operators_cpu)


def test_more_idle_time_is_no_kernel() -> None:
    """The same kernels in longer steps: the change is idle time."""
    found = diff([OLD.report()], [Program(OLD.work, length=STEP + 250_000).report()])
    accounted(found)
    assert found.kernels_ns.change_ns == 0
    assert {part.part: part.change_ns for part in found.parts if part.change_ns} == {"idle_ns": 250_000}
    assert found.span_ns is not None
    assert found.span_ns.before_ns == STEP


def test_more_steps_of_the_same_are_no_change() -> None:
    """Where the last step's work ends makes no difference."""
    found = diff([OLD.report()], [Program(OLD.work, steps=17).report()])
    assert [part.change_ns for part in found.parts] == [0, 0, 0, 0]


def test_captures_without_steps_are_compared_whole() -> None:
    found = diff([Program(OLD.work, marked=False, steps=1).report()], [Program(OLD.work).report()])
    accounted(found)
    assert found.unit == "capture"
    assert by_name(found.kernels)["ampere_gemm"].status == "more"
    assert "whole captures" in found.notes[0]


def test_ranks_are_added_up() -> None:
    slow = Program([(op, kernel, count, duration * 2) for op, kernel, count, duration in OLD.work]).report()
    found = diff([OLD.report(), OLD.report()], [OLD.report(), slow])
    accounted(found)
    assert found.before_units == found.after_units == 8
    assert by_name(found.kernels)["ampere_gemm"].change_ns == 4 * 100_000 / 2
    assert diff([OLD.report()], [OLD.report(), slow]).notes == ["the captures have 1 and 2 ranks"]


def test_captures_without_a_gpu() -> None:
    made = TraceBuilder()
    made.operator("aten::mm", 0, 1_000)
    report = analyze(made.build(), Options(strict=True))
    found = diff([report], [report])
    assert (found.span_ns, found.parts, found.kernels) == (None, [], [])
    assert found.cpu_ns.before_ns == 1_000


def test_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="either side"):
        diff([], [OLD.report()])


def test_the_diff_is_plain() -> None:
    found = diff([OLD.report()], [Program(OLD.work[1:]).report()])
    assert msgspec.json.decode(msgspec.json.encode(found), type=Diff) == found


@dataclass(frozen=True)
class Fake:
    """A report with kernels alone."""

    kernels: list[Kernel]
    steps: list[Step]
    operators: OperatorTimes | None = None
    span_ns: int | None = None
    compute_ns: int | None = None
    exposed_comm_ns: int | None = None
    exposed_mem_ns: int | None = None
    idle_ns: int | None = None


def kernel(name: str, count: int, total: int) -> Kernel:
    """Only name, count and total matter."""
    mean = total / count
    return Kernel(name, name, "compute", count, total, 0, total, 0, 0, mean, None, (), (), None, None, 0, None, None, 0)


def step(number: int) -> Step:
    """Only that there is one matters."""
    nothing = Breakdown(0, 0, 0, 0, 0)
    return Step("step", number, 0, 0, None, nothing, nothing, None, None, None, 0, 0, None, None)


def fake(chance: random.Random) -> Measured:
    names = chance.sample("abcdefgh", chance.randint(0, 8))
    kernels = [kernel(name, chance.randint(1, 50), chance.randint(0, 10**9)) for name in names]
    return Fake(kernels, [step(number) for number in range(chance.randint(0, 5))])


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_two_captures_add_up(seed: int) -> None:
    chance = random.Random(seed)
    found = diff([fake(chance) for _ in range(2)], [fake(chance)])
    total = found.kernels_ns.after_ns - found.kernels_ns.before_ns
    assert sum(each.change_ns for each in found.kernels) == pytest.approx(total, abs=1e-3)
    assert sum(found.by_status.values()) == pytest.approx(total, abs=1e-3)
    for each in found.kernels:
        assert each.by_number_ns + each.by_duration_ns == pytest.approx(each.change_ns, abs=1e-3)
        assert (each.status == "came") == (not each.before_count)
        assert (each.status == "went") == (not each.after_count)
