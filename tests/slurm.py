"""A real Slurm of one node on loopback: munged, slurmctld and slurmd from Debian's packages, in a folder of its own."""

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.brokers.process import free_ports, spawn
from tests.wait import until

DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
CONF = """
ClusterName={name}
FirstJobId={first}
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
SchedulerParameters=sched_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=h100 Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Why there can be no Slurm here, '' when there can."""
    found = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    absent = [name for name in DAEMONS if shutil.which(name, path=found) is None]
    if absent:
        return f"Slurm is missing ({', '.join(absent)}): apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "only root can run Slurm's daemons"


class Slurm:
    """The cluster. `folder` may be read by everybody, as jobs of other users run below it."""

    def __init__(self, folder: Path, more: str = "") -> None:
        """`more`: lines of slurm.conf, with {folder} for the cluster's."""
        self.folder, self._more = folder, more
        self.node = socket.gethostname().partition(".")[0]
        self.name = f"test{secrets.token_hex(3)}"
        self.environ: Mapping[str, str] = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the three and wait for the node."""
        folder = self.folder
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        first = 1_000 + secrets.randbelow(60_000_000)  # nobody else on this machine has jobs of these numbers
        conf = CONF.format(name=self.name, first=first, host=self.node, folder=folder, ports=free_ports(2))
        (folder / "slurm.conf").write_text(conf + self._more.format(folder=folder))
        files = [f"--{name}={folder}/munge.{name.partition('-')[0]}" for name in ("socket", "pid-file", "log-file")]
        self._spawn("munged", "--foreground", "--force", f"--key-file={key}", f"--seed-file={folder}/seed", *files)
        until((folder / "munge.socket").exists, "munged")
        self._spawn("slurmctld", "-D")
        self._spawn("slurmd", "-D")
        until(lambda: "idle" in self.run("sinfo", "--noheader", "--format=%t"), self._said("Slurm's node"))

    def submit(self, script: str, *options: str) -> int:
        """`sbatch` a script; the job's id."""
        path = self.folder / "job.sh"
        path.write_text(f"#!/bin/bash\n{script}\n")
        output = f"--output={self.folder}/output-%j.txt"
        said = self.run("sbatch", "--parsable", f"--chdir={self.folder}", output, *options, str(path))
        return int(said.partition(";")[0])

    def state(self, job: int) -> str:
        """As `scontrol` has it: PENDING, RUNNING, COMPLETED, …"""
        words = self.run("scontrol", "show", "job", str(job)).split()
        return next((word.removeprefix("JobState=") for word in words if word.startswith("JobState=")), "")

    def run(self, *line: str) -> str:
        """Standard output of one of its commands, '' when it failed."""
        return subprocess.run(line, env=self.environ, capture_output=True, timeout=120, text=True, check=False).stdout

    def stop(self) -> None:
        """Cancel what runs, then end the daemons, the last started first."""
        self.run("scancel", "--user=nobody")
        self.run("scancel", "--user=root")
        for process in reversed(self._processes):
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)

    def _spawn(self, *line: str) -> None:
        path = shutil.which(line[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        assert path is not None
        self._processes.append(spawn([path, *line[1:]], self.folder / f"{line[0]}.out", self.environ))

    def _said(self, what: str) -> str:
        return f"{what}; see {self.folder}/*.log and *.out"


@contextmanager
def slurm(more: str = "") -> Iterator[Slurm]:
    """A cluster that runs, gone when left. `more`: as of `Slurm`."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="slurm-"))
    folder.chmod(0o777)
    cluster = Slurm(folder, more)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        until(lambda: _is_gone(folder), f"{folder} to be let go by what runs below slurmd")


def _is_gone(folder: Path) -> bool:
    """Remove it, as far as that can be: the daemons' children end a moment after them, and write until then."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
