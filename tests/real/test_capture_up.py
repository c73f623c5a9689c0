"""`warpmeter up`, a real PyTorch job of one process, and captures of it by its job id, as a newcomer has them."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.real.up import Up, up, warpmeter
from tests.torchpython import torch_python
from tests.wait import until

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
JOB = str(4_000_000 + os.getpid())
"""Nobody else's on this machine."""


@pytest.fixture
def running() -> Iterator[Up]:
    """Its data in a folder with a short path, for the sockets below it."""
    with TemporaryDirectory(prefix="up-") as folder, up(Path(folder) / "data") as found:
        yield found


def command(running: Up, *words: str) -> list[str]:
    return warpmeter(*words[:1], "--data", str(running.data), *words[1:])


@contextmanager
def training(running: Up, folder: Path) -> Iterator[int]:
    """A model that trains below `warpmeter run`, once it is registered; its pid."""
    said, traces = folder / "said", folder / "traces"
    traces.mkdir()
    line = [torch_python(), str(ROOT / "tests" / "training.py"), "300"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KINETO_")}
    with said.open("w") as file:
        ours = command(running, "run", "--traces", str(traces), "--", *line)
        process = subprocess.Popen(ours, stderr=file, env={**kept, "SLURM_JOB_ID": JOB})
        try:
            until(lambda: "1 process registered" in said.read_text(), "it to register", 120)
            yield int(said.read_text().partition("(pid ")[2].partition(")")[0])
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert not list(traces.iterdir())


def capture(running: Up, *words: str) -> dict[str, Any]:
    """What a capture of the job said of its one trace."""
    line = command(running, "capture", JOB, *words, "--json")
    done = subprocess.run(line, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    events = [json.loads(each) for each in done.stdout.splitlines()]
    (found,) = [event for event in events if event["state"] == "captured"]
    return dict(found)


def analysed(file: Path) -> dict[str, Any]:
    """What `warpmeter analyze` says of a trace."""
    done = subprocess.run(warpmeter("analyze", str(file), "--json"), capture_output=True, timeout=120, check=True)
    return dict(json.loads(done.stdout))


def test_a_job_is_captured_by_duration_and_by_iterations(running: Up, tmp_path: Path) -> None:
    with training(running, tmp_path) as pid:
        until(lambda: running.value(f"SELECT count() FROM jobs WHERE job_id = '{JOB}'"), "the job to be known", 90)
        by_time = capture(running, "-d", "500ms", "--stacks", "--memory", "--shapes", "-o", str(tmp_path / "time"))
        by_steps = capture(running, "-n", "5", "--roundup", "10", "-o", str(tmp_path / "steps"))
        doctor = subprocess.run(
            command(running, "doctor", "--pid", str(pid), "--json"), capture_output=True, timeout=60
        )
    assert (by_time["pid"], by_steps["pid"]) == (pid, pid)
    assert json.loads(doctor.stdout)["profiling"]["possible"] is True
    (file,) = (tmp_path / "steps").iterdir()
    assert len(analysed(file)["ranks"][0]["steps"]) == pytest.approx(5, abs=1)
    loaded = "SELECT uniqExact(capture_id) FROM trace_ranks"
    until(lambda: running.value(loaded) == 2, "both to be loaded", 90)
    listed = subprocess.run(
        warpmeter("captures", "list", "--data", str(running.data), "--json"), capture_output=True, timeout=60
    )
    assert [each["state"] for each in json.loads(listed.stdout)] == ["ended", "ended"]
