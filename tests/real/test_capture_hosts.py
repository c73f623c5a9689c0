"""One command captures a real job over three hosts, each with an agent, processes and a network of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.brokers import Tansu
from tests.netns import INTERFACE, bridged
from tests.real.up import warpmeter
from tests.scheduler_process import SchedulerProcess
from tests.torchpython import torch_python
from tests.wait import until
from warpmeter import topics
from warpmeter.settings import Kafka, Log, Metrics, Scheduler, Settings, Store

pytestmark = [pytest.mark.torch, pytest.mark.timeout(900)]
RANKS_OF = (2, 1, 1)
"""Of each host."""
TOGETHER_S = 0.020
"""Traces begin within this. A machine with more to do than it has cores may hold one process up: then once more."""
TRIES = 6

SCRIPT = """
{python} tests/relay.py 127.0.0.1 {machine} {port} &
{warpmeter} agent --host h{number} &
{warpmeter} run -- {torch} -m torch.distributed.run --nnodes 3 --node-rank {rank} --nproc-per-node {ranks} \
  --rdzv-id spread --master-addr {first} --master-port 29500 -m tests.training_ranks 300
"""


def test_a_job_over_three_hosts_is_captured_at_one_time(tansu: Tansu, topic_prefix: str, tmp_path: Path) -> None:
    host, _, port = tansu.bootstrap_servers.partition(":")
    assert host == "127.0.0.1"
    kafka = Kafka(bootstrap_servers=tansu.bootstrap_servers, topic_prefix=topic_prefix, partitions=3)
    topics.ensure(kafka)
    settings = Settings(
        kafka=kafka, store=Store(dsn="http://127.0.0.1:1"), log=Log(format="json"), metrics=Metrics(scheduler_port=0),
        scheduler=Scheduler(group=topic_prefix, analyse=False, data=tmp_path / "scheduler"),
    )  # fmt: skip
    common = {
        "WARPMETER_KAFKA__BOOTSTRAP_SERVERS": tansu.bootstrap_servers,
        "WARPMETER_KAFKA__TOPIC_PREFIX": topic_prefix,
        "WARPMETER_TRACES__URL": str(tmp_path / "store"),
        "WARPMETER_SCHEDULER__ANALYSE": "false",
        "GLOO_SOCKET_IFNAME": INTERFACE,
    }
    with ExitStack() as stack:
        stack.enter_context(closing(SchedulerProcess(settings, tmp_path / "scheduler.log"))).until_active()
        net = stack.enter_context(bridged(len(RANKS_OF), int(port)))
        logs = []
        for number, ranks in enumerate(RANKS_OF, 1):
            sockets = stack.enter_context(TemporaryDirectory(prefix="kineto-"))
            folder = tmp_path / f"h{number}"
            folder.mkdir()
            own = {
                "WARPMETER_AGENT__KINETO_SOCKET_DIR": sockets,
                "WARPMETER_AGENT__SPOOL_DIR": str(folder / "spool"),
                "TMPDIR": str(folder),
            }
            script = SCRIPT.format(
                python=sys.executable, machine=net.address(254), port=port, number=number, rank=number - 1, ranks=ranks,
                warpmeter=" ".join(warpmeter()), torch=torch_python(), first=net.address(1),
            )  # fmt: skip
            log = stack.enter_context((tmp_path / f"h{number}.log").open("wb"))
            process = net.run(number, script, {**common, **own}, log)
            stack.callback(process.wait, 30)
            stack.callback(process.kill)
            logs.append((Path(log.name), f"{ranks + 1} processes registered"))
        for file, words in logs:
            until(lambda file=file, words=words: words in file.read_text(), f"{words} in {file}", 240)  # type: ignore[misc]
        hosts = [word for number in range(1, len(RANKS_OF) + 1) for word in ("--host", f"h{number}")]
        spreads: list[float] = []
        while not spreads or (min(spreads) >= TOGETHER_S and len(spreads) < TRIES):
            captured = ranks_captured([*hosts, "--duration", "1s"], {**os.environ, **common})
            assert [captured[rank]["host"] for rank in sorted(captured)] == ["h1", "h1", "h2", "h3"]
            assert {event["job_id"] for event in captured.values()} == {"spread"}
            begins = [event["traced_from"] for event in captured.values()]
            spreads.append(max(begins) - min(begins))
        assert min(spreads) < TOGETHER_S, spreads


def ranks_captured(words: Sequence[str], environment: Mapping[str, str]) -> dict[int, dict[str, Any]]:
    """Of each rank the word on its trace, of a capture that got all."""
    line = warpmeter("capture", *words, "--json")
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=240)
    events = [json.loads(each) for each in done.stdout.splitlines()]
    assert done.returncode == 0, [(e["host"], e["pid"], e["state"], e["reason"], e["why"]) for e in events]
    return {event["rank"]: event for event in events if event["state"] == "captured"}
