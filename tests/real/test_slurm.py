"""A real Slurm: what `sbatch` starts is one job with user, account and ranks, and ends soon after it ended."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import slurm
from tests.real import agents
from tests.real.up import up
from tests.signals import SLACK_S
from tests.wait import until
from warpmeter.settings import Kafka

NOWHERE = Kafka(bootstrap_servers="127.0.0.1:1")
pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing())]

SCRIPT = """
srun --ntasks=2 /usr/bin/python3 -c "import os, time
while not os.path.exists('enough'): time.sleep(0.1)"
date +%s.%N > ended.new
mv ended.new ended
"""
TASK = """
/usr/bin/python3 -c "import os, time
open('task-' + os.environ['SLURM_ARRAY_TASK_ID'], 'w').close()
time.sleep(600)"
"""
ENDS_WITHIN_S = 15.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.Slurm]:
    """One node."""
    with slurm.slurm() as running:
        yield running


def test_a_two_task_job_is_one_job_and_ends_within_15_s_of_its_end(cluster: slurm.Slurm, tmp_path: Path) -> None:
    with up(tmp_path / "data") as running:
        options = ("--ntasks=2", "--account=nlp", "--job-name=llama", "--uid=nobody", "--gid=nogroup")
        job = cluster.submit(SCRIPT, *options)
        mine = f"FROM jobs WHERE job_id = '{job}'"
        until(lambda: running.query(f"SELECT 1 {mine} AND state = 'running' AND ranks = [0, 1]"), "both ranks")
        rows = running.query(
            "SELECT scheduler, name, user, account, world_size, length(hosts), labels['partition'], "
            f"labels['node_list'], labels['cluster'], ended_at IS NULL {mine}"
        )
        assert rows == [("slurm", "llama", "nobody", "nlp", 2, 1, "h100", cluster.node, cluster.name, True)]
        (cluster.folder / "enough").touch()
        until((cluster.folder / "ended").exists, "the job to end")
        ended = float((cluster.folder / "ended").read_text())
        until(lambda: running.query(f"SELECT 1 {mine} AND state = 'ended'"), "the job to be told as ended")
        assert time.time() - ended < ENDS_WITHIN_S + SLACK_S
        assert running.value(f"SELECT count() FROM jobs WHERE labels['cluster'] = '{cluster.name}'") == 1
        told = float(running.value(f"SELECT toUnixTimestamp64Milli(assumeNotNull(ended_at)) {mine}")) / 1000
        assert told == pytest.approx(ended, abs=ENDS_WITHIN_S + SLACK_S)
        steps = running.query(
            "SELECT DISTINCT arrayJoin(ranks), arrayJoin(local_ranks), labels['step'] FROM job_events "
            f"WHERE job_id = '{job}' AND notEmpty(ranks) ORDER BY 1"
        )
        assert steps == [(0, 0, "0"), (1, 1, "0")]


def test_the_tasks_of_an_array_keep_their_array(cluster: slurm.Slurm, tmp_path: Path) -> None:
    job = cluster.submit(TASK, "--array=3-4", "--cpus-per-task=1")
    until(lambda: len(list(cluster.folder.glob("task-*"))) == 2, "both tasks to be at work")
    try:
        done = agents.output(agents.settings(tmp_path, NOWHERE), "--once", "--json")
        events = agents.json_rows(done.stdout)["job-events"]
        rows = [row for row in events if row["labels"].get("cluster") == cluster.name]
        tasks = {row["job_id"]: (row["labels"]["array_job"], row["labels"]["array_task"]) for row in rows}
        assert sorted(tasks.values()) == [(str(job), "3"), (str(job), "4")]
        assert len(tasks) == 2
    finally:
        cluster.run("scancel", str(job))
