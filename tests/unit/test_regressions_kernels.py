"""Kernels that came, went or got slower between runs: planted ones are told, and clean ones seldom."""

from datetime import UTC, datetime

import numpy as np

from warpmeter.regressions.kernels import kernel_changes
from warpmeter.regressions.runs import About, Kernel, Run, differs

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
KERNELS = 200


def run(kernels: dict[str, float]) -> Run:
    """One whose kernels take so long; each ran once."""
    total = sum(kernels.values())
    of_model = {("H100", name): Kernel(name, seconds, seconds / total) for name, seconds in kernels.items()}
    return Run("job", "ann", "train", NOON, NOON, True, kernels=of_model)


def about(command: str, **values: tuple[str, ...]) -> About:
    return About({"GPU model": (), "driver": (), "GPUs": (), "ranks": (), "image": (), "hosts": (), **values}, command)


def noisy(rng: np.random.Generator, spread: float) -> dict[str, float]:
    """Durations of a usual training: few kernels make most of the time."""
    return {f"k{at}": float(1 / (at + 1) * (1 + spread * rng.normal())) for at in range(KERNELS)}


def test_clean_kernels_are_seldom_told() -> None:
    rng = np.random.default_rng(9)
    alarms = 0
    for _ in range(60):
        runs = [run(noisy(rng, 0.02)) for _ in range(6)]
        alarms += bool(kernel_changes(runs[-1], runs[:-1]))
    assert alarms <= 1  # of 60; docs/regressions.md: 10 of 1,000


def test_what_came_went_and_got_slower_is_told_the_costliest_first() -> None:
    rng = np.random.default_rng(4)
    past = [run(noisy(rng, 0.005)) for _ in range(4)]
    kernels = noisy(rng, 0.005)
    kernels["k0"] *= 1.5
    del kernels["k3"]
    kernels["new"] = 0.2
    kernels["seldom"] = 0.001
    found = kernel_changes(run(kernels), past)
    assert [(each.what, each.name) for each in found] == [("slower", "k0"), ("went", "k3"), ("came", "new")]
    assert found[0].text.startswith("kernel k0 ")
    assert "(+5" in found[0].text or "(+49%)" in found[0].text
    assert "of the GPU time" in found[1].text
    assert kernel_changes(run(kernels), past[:1]) == ()
    assert kernel_changes(run({}), past) == ()


def test_what_a_run_before_had_as_well_is_no_difference() -> None:
    past = [
        about("python train.py --lr 0.1 --batch 64", hosts=("a", "b"), driver=("550",)),
        about("python train.py --lr 0.1 --batch 32", hosts=("c",), driver=("560",)),
    ]
    assert differs(about(past[0].command, hosts=("c",), driver=("550",)), past) == ()
    now = about("python train.py --lr 0.1 --batch=128 --amp", hosts=("b", "d"), driver=("570",))
    assert [(each.what, each.before, each.now) for each in differs(now, past)] == [
        ("driver", "560", "570"),
        ("hosts", "3 in the runs before", "d not among them"),
        ("command", "--batch 32", "--batch=128 --amp"),
    ]
    assert differs(now, []) == ()
