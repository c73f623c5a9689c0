"""A real PyTorch process slows down: an alert, a capture, its analysis, the findings on the alert, without a hand."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from tests.real.up import Up, up, warpmeter
from tests.torchpython import torch_python
from tests.wait import until

pytestmark = [pytest.mark.torch, pytest.mark.long, pytest.mark.timeout(600)]
ROOT: Final = Path(__file__).parents[2]
JOB: Final = str(5_000_000 + os.getpid())
"""Nobody else's on this machine."""
STEPS: Final = f"FROM metric_samples WHERE name = 'job_step_seconds' AND labels['job_id'] = '{JOB}'"
RULE: Final = {
    "name": "step-doubled",
    "sql": (
        "SELECT labels['job_id'] AS job_id, argMax(s.value, s.ts) / argMin(s.value, s.ts) AS value "
        "FROM metric_samples AS s "
        "WHERE s.name = 'job_step_seconds' AND s.ts > {now:DateTime64(3, 'UTC')} - INTERVAL 10 MINUTE "
        "GROUP BY job_id HAVING value > 2"
    ),
    "summary": "A step of {job_id} takes {value} times as long as at first",
    "unit": "1",
}  # fmt: skip
"""The built-in rule wants an hour of the past, so it is another one here."""
TRIGGER: Final = {"name": "slow", "match": {"rule": "step-doubled"}, "iterations": 5}


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Up]:
    """With a rule and a trigger, and nobody who looks."""
    monkeypatch.setenv("WARPMETER_ALERTS__EVALUATE_S", "2")
    monkeypatch.setenv("WARPMETER_ALERTS__RULES", json.dumps([RULE]))
    monkeypatch.setenv("WARPMETER_ALERTS__TRIGGERS", json.dumps([TRIGGER]))
    monkeypatch.setenv("WARPMETER_AGENT__PACE_INTERVAL_S", "3")
    with TemporaryDirectory(prefix="up-") as folder, up(Path(folder) / "data") as found:
        yield found


def test_a_process_that_slows_down_leads_to_an_alert_with_what_its_trace_shows(running: Up, tmp_path: Path) -> None:
    slow, said = tmp_path / "slow", tmp_path / "said"
    line = [torch_python(), str(ROOT / "tests" / "training_slows.py"), "500", str(slow)]
    ours = [*warpmeter("run", "--data", str(running.data)), "--", *line]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KINETO_")}
    with said.open("w") as file:
        process = subprocess.Popen(ours, stderr=file, env={**kept, "SLURM_JOB_ID": JOB})
    try:
        until(lambda: running.value(f"SELECT count() {STEPS}") >= 2, "its steps to be known", 180)
        assert running.value("SELECT count() FROM alerts WHERE rule = 'step-doubled'") == 0
        slow.touch()
        asked = "SELECT count() FROM alerts WHERE rule = 'step-doubled' AND notEmpty(findings)"
        until(lambda: running.value(asked), "the findings to be on the alert", 300)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    ((alert, capture, findings),) = running.query(
        "SELECT alert_id, argMax(capture_id, (notEmpty(findings), ts)), argMax(findings, (notEmpty(findings), ts)) "
        "FROM alerts WHERE rule = 'step-doubled' GROUP BY alert_id"
    )
    ((name, by, captured, analysed),) = running.query("SELECT name, requested_by, captured, analysed FROM captures")
    assert (name, by, captured, analysed) == (alert, "rule:step-doubled", 1, 1)
    assert running.query("SELECT DISTINCT capture_id, job_id FROM trace_ranks") == [(capture, JOB)]
    assert findings
    assert not any("not captured" in each for each in findings), findings
