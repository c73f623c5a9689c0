"""Whatever goes wrong with a capture, the command, `captures` and the view end with its reason, and in time.

One world: a scheduler, seven hosts with an agent each, and processes that ask and write as PyTorch does. All captures
go on at once, each by a `warpmeter capture` of its own.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

from tests.brokers import Tansu
from tests.kineto_client import answered, asking
from tests.real import agents
from tests.real.test_disk_full import mounted
from tests.real.up import warpmeter
from tests.scheduler_process import Heard, SchedulerProcess
from tests.tables import ask, land
from tests.wait import until
from warpmeter import topics
from warpmeter.settings import Kafka, Metrics, Scheduler, Settings, Store, Traces
from warpmeter.store import Client

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]

GRACE_S: Final = 12.0
LATE_S: Final = 30.0
"""Beyond its deadline: the scheduler's own slack for a last word, and a machine that has more to do."""
SHORT: Final = ("--duration", "200ms", "--warmup", "1s")
FULL: Final[Mapping[str, Any]] = {"size": 4_000_000, "trick": "noise"}
OFF_S: Final = 0.4


@dataclass
class Host:
    """A host: its agent's settings, and its agent while it runs."""

    settings: Settings
    log: Path
    clock: Path
    agent: "subprocess.Popen[bytes] | None" = None

    @property
    def name(self) -> str:
        return str(self.settings.agent.host)

    @property
    def sockets(self) -> Path:
        return self.settings.agent.kineto_socket_dir

    def begin(self, stack: ExitStack) -> None:
        """Start its agent."""
        line = agents.running(self.settings, str(self.clock), log=self.log, module="tests.real.agent_child")
        self.agent = stack.enter_context(line)

    def kill(self) -> None:
        """End its agent as a crash does."""
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait(60)


@dataclass
class Asked:
    """A capture that a command asked for and follows; `at` is when. `lines`: what it printed."""

    process: "subprocess.Popen[str]"
    out: Path
    at: float = field(default_factory=time.time)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.read_text().splitlines() if line.endswith("}")]

    @property
    def name(self) -> str:
        return str(self.events[0]["capture_id"])

    def reached(self, state: str) -> bool:
        return any(event["state"] == state for event in self.events)


class World:
    """All of it."""

    def __init__(self, kafka: Kafka, folder: Path, stack: ExitStack) -> None:
        self.kafka, self.folder, self._stack = kafka, folder, stack
        self.hosts: dict[str, Host] = {}
        self.asked: dict[str, Asked] = {}
        self._answers: list[Path] = []
        self.traces = folder / "traces"
        self.traces.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "WARPMETER_KAFKA__TOPIC_PREFIX": self.kafka.topic_prefix,
            "WARPMETER_KAFKA__BOOTSTRAP_SERVERS": self.kafka.bootstrap_servers,
            "WARPMETER_SCHEDULER__ANALYSE": "false",
            "WARPMETER_SCHEDULER__GRACE_S": str(GRACE_S),
        }
        return {**os.environ, **own}

    def host(self, name: str, **traces: Any) -> Host:
        """A host with an agent."""
        folder = self.folder / name
        folder.mkdir()
        sockets = Path(self._stack.enter_context(TemporaryDirectory(prefix="kineto-")))
        made = agents.settings(
            folder, self.kafka, host=name, kineto=True, rpc=False, kineto_socket_dir=sockets,
            interval_s=5.0, device_interval_s=5.0, job_interval_s=1.0, job_event_interval_s=10.0,
            health_interval_s=10.0,
        )  # fmt: skip
        settings = replace(made, traces=Traces(**{"url": str(folder / "store"), **traces}))
        self.hosts[name] = Host(settings, folder / "agent.log", folder / "clock")
        return self.hosts[name]

    def process(self, host: Host, traces: Path | None = None, **options: Any) -> int:
        """A process of a host that asks for captures; its pid."""
        (pid,) = self._stack.enter_context(asking(host.sockets, traces or self.traces, 1, poll_s=0.2, **options))
        self._answers.append(answered(host.sockets, pid))
        return pid

    def listens(self) -> bool:
        """Every agent listens, and knows the processes of its host."""
        return all((host.sockets / "dynolog").exists() for host in self.hosts.values()) and all(
            each.exists() for each in self._answers
        )

    def capture(self, case: str, host: Host, pid: int, *words: str) -> Asked:
        """Ask for a capture of a process by the command."""
        line = warpmeter("capture", "--host", host.name, "--pid", str(pid), *(words or SHORT), "--json")
        out = self.folder / f"{case}.jsonl"
        with out.open("w") as file:
            process = subprocess.Popen(line, env=self.environment, stdout=file, stderr=subprocess.PIPE, text=True)
        self.asked[case] = Asked(process, out)
        return self.asked[case]

    def known(self) -> Mapping[str, Mapping[str, Any]]:
        """What `captures list` says of each case."""
        line = warpmeter("captures", "list", "--json")
        done = subprocess.run(line, env=self.environment, capture_output=True, text=True, timeout=90, check=True)
        found = {each["capture_id"]: each for each in json.loads(done.stdout)}
        return {case: found[asked.name] for case, asked in self.asked.items()}


@contextmanager
def made(tansu: Tansu, prefix: str, folder: Path) -> Iterator[World]:
    """A world with a scheduler and no host yet."""
    kafka = Kafka(bootstrap_servers=tansu.bootstrap_servers, topic_prefix=prefix, partitions=3)
    topics.ensure(kafka)
    settings = Settings(
        kafka=kafka, store=Store(dsn="http://127.0.0.1:1"), metrics=Metrics(scheduler_port=0),
        log=agents.settings(folder, kafka).log,
        scheduler=Scheduler(group=prefix, analyse=False, grace_s=GRACE_S, data=folder / "scheduler"),
    )  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(closing(SchedulerProcess(settings, folder / "scheduler.log"))).until_active()
        yield World(kafka, folder, stack)


EXPECTED: Final[Mapping[str, tuple[str, str]]] = {
    "process killed": ("failed", "process_ended"),
    "agent killed and back": ("captured", ""),
    "agent killed": ("failed", "agent_away"),
    "store full": ("failed", "disk_full"),
    "process's folder full": ("failed", "disk_full"),
    "variables missing": ("failed", "missing_variables"),
    "first": ("captured", ""),
    "second": ("failed", "busy"),
    "clock off": ("captured", ""),
    "no step": ("captured", "no_step"),
    "store away": ("failed", "upload_failed"),
    "no agent": ("failed", "agent_away"),
    "no process": ("failed", "no_process"),
    "stopped": ("failed", "not_polling"),
}


def test_each_failure_ends_with_its_reason_in_time(
    tansu: Tansu, topic_prefix: str, tmp_path: Path, tables: Client
) -> None:
    with ExitStack() as stack:
        stack.enter_context(mounted(tmp_path / "small", 1))
        stack.enter_context(mounted(tmp_path / "cramped", 2))
        world = stack.enter_context(made(tansu, topic_prefix, tmp_path))
        heard = {
            topic: stack.enter_context(closing(Heard(world.kafka, topic)))
            for topic in ("capture-requests", "capture-commands", "capture-events")
        }
        _, back, gone, off = (world.host(name) for name in ("plain", "back", "gone", "off"))
        world.host("full", url=str(tmp_path / "small"))
        world.host("away", url="ftp://127.0.0.1:1/traces")
        off.clock.write_text(str(OFF_S))
        for host in world.hosts.values():
            host.begin(stack)
        begun = _begun(world, stack, tmp_path / "cramped")
        until(world.listens, "the agents to listen, and the processes to be known")
        os.kill(begun["stopped"][1], signal.SIGSTOP)
        for case, (host, pid, words) in begun.items():
            world.capture(case, host, pid, *words)
        _go_wrong(world, stack, begun, back, gone)
        until(lambda: all(each.process.poll() is not None for each in world.asked.values()), "all to end", 240)
        known = world.known()
        until(lambda: _over(heard["capture-events"].rows, world), "all ends to be heard")
    found = {case: _came_of(document) for case, document in known.items()}
    assert found == EXPECTED
    _in_time(world)
    assert list(known["clock off"]["warnings"]) == ["off"]
    assert "ahead" in known["clock off"]["warnings"]["off"]
    assert "trace store" in _why(known["store full"])
    assert str(tmp_path / "cramped") in _why(known["process's folder full"])
    assert "KINETO_USE_DAEMON=1" in _why(known["variables missing"])
    assert all(_why(known[case]) for case, (_, reason) in EXPECTED.items() if reason)
    statuses = {case: asked.process.returncode for case, asked in world.asked.items()}
    assert statuses == {case: int(state == "failed") for case, (state, _) in EXPECTED.items()}
    for topic, of in heard.items():
        land(tables, topic, of.rows)
    assert _viewed(tables, world) == EXPECTED
    assert ask(tables, "SELECT DISTINCT host FROM capture_ranks WHERE clock_skewed") == [("off",)]


def _begun(world: World, stack: ExitStack, cramped: Path) -> dict[str, tuple[Host, int, Sequence[str]]]:
    """Of each case whom to capture, and how."""
    hosts = world.hosts
    plain = hosts["plain"]
    without = stack.enter_context(subprocess.Popen(["sleep", "600"], env={"PATH": os.environ["PATH"]}))
    stack.callback(without.kill)
    nowhere = Host(replace(plain.settings, agent=replace(plain.settings.agent, host="nowhere")), plain.log, plain.clock)
    return {
        "process killed": (plain, world.process(plain), ("--duration", "15s", "--warmup", "1s")),
        "agent killed and back": (hosts["back"], world.process(hosts["back"]), SHORT),
        "agent killed": (hosts["gone"], world.process(hosts["gone"]), SHORT),
        "store full": (hosts["full"], world.process(hosts["full"], **FULL), SHORT),
        "process's folder full": (plain, world.process(plain, cramped, size=4_000_000), SHORT),
        "variables missing": (plain, without.pid, SHORT),
        "first": (plain, world.process(plain), ("--duration", "15s", "--warmup", "1s")),
        "clock off": (hosts["off"], world.process(hosts["off"]), SHORT),
        "no step": (plain, world.process(plain, trick="no steps"), ("--iterations", "3")),
        "store away": (hosts["away"], world.process(hosts["away"]), SHORT),
        "no agent": (nowhere, 1, SHORT),
        "no process": (plain, (1 << 22) + 1, SHORT),
        "stopped": (plain, world.process(plain), SHORT),
    }


def _go_wrong(
    world: World, stack: ExitStack, begun: Mapping[str, tuple[Host, int, Sequence[str]]], back: Host, gone: Host
) -> None:
    """What goes wrong meanwhile, each when its capture has got so far."""

    def returns() -> None:
        back.kill()
        back.begin(stack)

    due: dict[tuple[str, str], Callable[[], object]] = {
        ("agent killed and back", "accepted"): returns,
        ("agent killed", "accepted"): gone.kill,
        ("process killed", "started"): lambda: os.kill(begun["process killed"][1], signal.SIGKILL),
        ("first", "accepted"): lambda: world.capture("second", *begun["first"][:2]),
    }
    while due:
        ready = [key for key in due if world.asked[key[0]].reached(key[1])]
        for key in ready:
            due.pop(key)()
        assert not any(world.asked[case].process.poll() for case, _ in due), {
            case: world.asked[case].events[-1:] for case, _ in due
        }
        time.sleep(0.05)


def _over(events: Sequence[Any], world: World) -> bool:
    ended = {event.capture_id for event in events if event.state == "ended"}
    return ended >= {asked.name for asked in world.asked.values()}


def _came_of(document: Mapping[str, Any]) -> tuple[str, str]:
    """State and reason of its one process, or of its host."""
    (said,) = document["ranks"] or document["hosts"]
    return said["state"], said["reason"]


def _why(document: Mapping[str, Any]) -> str:
    (said,) = document["ranks"] or document["hosts"]
    return str(said["why"])


def _in_time(world: World) -> None:
    """Of each the end is not later than its deadline, which follows from its start."""
    for case, asked in world.asked.items():
        events = asked.events
        start = max((event["start_at"] or 0.0 for event in events), default=0.0) or asked.at
        asked_for = events[-1]["ts"] - start
        longest = 20 * 10 + GRACE_S if case == "no step" else 5 * 15 + GRACE_S
        assert events[-1]["state"] == "ended", case
        assert asked_for < longest + LATE_S, case


def _viewed(tables: Client, world: World) -> dict[str, tuple[str, str]]:
    """What the view says of each case."""
    rows = ask(tables, "SELECT capture_id, state, reason FROM capture_ranks")
    ended = {name for name, state in ask(tables, "SELECT capture_id, state FROM captures") if state == "ended"}
    names = {asked.name: case for case, asked in world.asked.items()}
    assert ended == names.keys()
    return {names[name]: (state, reason) for name, state, reason in rows}
