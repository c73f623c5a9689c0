"""What the agent may see of other people's processes, and what of it leaves the host."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import Broker
from tests.python import PYTHON
from tests.real import agents
from tests.real.agents import Read, Reader

SECRETS = {"API_KEY": "key-4711-do-not-tell", "SLURM_JWT": "jwt-4711-do-not-tell", "HF_TOKEN": "hf-4711-do-not-tell"}
NAMED = {"SLURM_JOB_ID": "471123", "SLURM_JOB_ACCOUNT": "account-of-the-job", "TORCHELASTIC_RUN_ID": "run-of-the-job"}
AS_NOBODY = """
import json, os
from warpmeter.producers.jobs.source import JobSource
from warpmeter.producers.source import Attribution, Sample
from warpmeter.settings import Agent
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
source = JobSource(Agent(host="gpu01"), Attribution())
reading = source.parse(Sample(0.0, 0.0, 2.0, source.read()), None)
print(json.dumps([[each.subject, each.state, each.why, each.count] for each in reading.health]))
"""


@pytest.fixture
def job() -> Iterator[int]:
    """Pid of a shell with a python of a Slurm job below it, with secrets in both environments."""
    line = f'"{PYTHON}" -c "import time; time.sleep(600)" & wait'
    shell = subprocess.Popen(["bash", "-c", line], process_group=0, env={**os.environ, **SECRETS, **NAMED})
    yield shell.pid
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()


def everything(message: Read) -> bytes:
    """All bytes of a message that have text in them."""
    rows = b"".join(row.SerializeToString() for row in message.rows)
    return message.key + b"".join(message.headers.values()) + rows


@pytest.mark.usefixtures("job")
def test_of_environments_nothing_but_the_named_variables_reaches_the_bus(
    broker: Broker, topic_prefix: str, tmp_path: Path
) -> None:
    bus = agents.with_topics(broker.bootstrap_servers, topic_prefix)
    reader, log = Reader(bus), tmp_path / "log"
    try:
        with agents.running(agents.settings(tmp_path, bus), log=log):
            mine = NAMED["SLURM_JOB_ID"]
            reader.wait(
                lambda r: {row.event for row in r.rows("job-events") if row.job_id == mine} >= {"started", "running"},
                "the job",
            )  # fmt: skip
        reader.poll()
    finally:
        reader.close()
    said = b"".join(map(everything, reader.messages)) + log.read_bytes()
    assert all(value.encode() in said for value in NAMED.values())
    assert [name for name, value in SECRETS.items() if value.encode() in said] == []
    assert b"do-not-tell" not in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.usefixtures("job")
def test_environments_that_may_not_be_read_are_one_health_row_and_no_crash() -> None:
    done = subprocess.run([sys.executable, "-c", AS_NOBODY], capture_output=True, timeout=120, text=True)
    rows = {subject: (state, why, count) for subject, state, why, count in json.loads(done.stdout)}
    state, why, count = rows["environ"]
    assert state == "denied"
    assert count >= 2
    assert "is hidden; run it as root, or give it CAP_SYS_PTRACE" in why
