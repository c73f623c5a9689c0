"""A few minutes of random faults; `make crash MINUTES=60 SEED=7` does the same for longer (see `tests.crash.__main__`).

`WARPMETER_CRASH_MINUTES` and `WARPMETER_CRASH_SEED` choose how long and which.
"""

import os
from pathlib import Path

import pytest

from tests.crash.report import Progress, again, verdict
from tests.crash.run import run

MINUTES = float(os.environ.get("WARPMETER_CRASH_MINUTES", "2"))
SEED = int(os.environ.get("WARPMETER_CRASH_SEED", "1"))


@pytest.mark.kafka
@pytest.mark.timeout(MINUTES * 60 + 900)
def test_random_faults_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    outcome = run(SEED, MINUTES, tmp_path, Progress(tmp_path / "faults.log"))
    assert not outcome.findings, "\n".join(
        [verdict(outcome), *outcome.findings, f"again: {again(outcome)}", f"{tmp_path}"]
    )
