"""Apache Kafka 4 in KRaft mode: one or three nodes, each broker and controller, as Java processes on loopback."""

import base64
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.brokers import maven
from tests.brokers.maven import KafkaMissingError
from tests.brokers.process import free_ports, send, spawn, tail

__all__ = ["KafkaCluster", "KafkaMissingError", "Node"]

READY_TIMEOUT_S: Final = 240.0
STOP_TIMEOUT_S: Final = 10.0

# The first compiler and the serial collector start fastest and leave two cores to the tests.
JVM: Final = (
    *("-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
    *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true"),
)


@dataclass(frozen=True)
class Node:
    """One node's place: its id (from 1), ports and folder."""

    id: int
    port: int
    controller_port: int
    folder: Path

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"127.0.0.1:{self.port}"

    @property
    def properties_file(self) -> Path:
        """Its configuration."""
        return self.folder / "server.properties"

    @property
    def log(self) -> Path:
        """Its output: warnings and errors."""
        return self.folder / "kafka.log"


def node_properties(node: Node, nodes: list[Node]) -> dict[str, object]:
    """The configuration of one node of a cluster."""
    controllers = ",".join(f"{peer.id}@127.0.0.1:{peer.controller_port}" for peer in nodes)
    replicas, in_sync = min(3, len(nodes)), min(2, len(nodes))
    return {
        "process.roles": "broker,controller",
        "node.id": node.id,
        "controller.quorum.voters": controllers,
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{node.address},CONTROLLER://127.0.0.1:{node.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{node.address}",
        "log.dirs": node.folder / "data",
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": 3,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        # No waiting for members that tests do not have; a killed node is out after seconds, not nine.
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 1000,
        # A paused node is given up after seconds, not 30.
        "controller.socket.timeout.ms": 3000,
        "replica.lag.time.max.ms": 3000,
        "replica.socket.timeout.ms": 3000,
        "log.cleaner.dedupe.buffer.size": 16 << 20,
    }


class KafkaCluster:
    """A running cluster; nodes are numbered from 0 in `kill(i)` and the like."""

    name = "kafka"
    keeps_commit_metadata = True
    jvm: tuple[str, ...] = ()
    """Options of Java beside those of all nodes."""
    storage: tuple[str, ...] = ()
    """What its storage is formatted with, beside an id."""
    client: Mapping[str, str] = {}
    """librdkafka's options for who may do all."""

    def __init__(self, folder: Path, size: int = 1) -> None:
        """Format and start `size` nodes under `folder` and wait; raises KafkaMissingError or RuntimeError."""
        self._java, self._jars = maven.java(), maven.jars()
        ports = free_ports(2 * size)
        self.nodes = [Node(i + 1, ports[2 * i], ports[2 * i + 1], folder / f"node-{i + 1}") for i in range(size)]
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * size
        cluster_id = _cluster_id()
        for node in self.nodes:
            self._format(node, cluster_id)
        try:
            for i in range(size):
                self._launch(i)
            for i in range(size):
                self.wait_ready(i)
            self._wait_members(size)
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        """How many nodes, running or not."""
        return len(self.nodes)

    @property
    def bootstrap_servers(self) -> str:
        """The `bootstrap.servers` of a client: all nodes."""
        return ",".join(node.address for node in self.nodes)

    def properties(self, node: Node) -> dict[str, object]:
        """The configuration of one node."""
        return node_properties(node, self.nodes)

    def pid(self, i: int) -> int:
        """Of a running node's process."""
        process = self._processes[i]
        assert process is not None, f"node {i} does not run"
        return process.pid

    def kill(self, i: int) -> None:
        """SIGKILL: its unflushed log pages stay in the page cache, as after a crash of the process."""
        self._end(i, signal.SIGKILL)

    def stop(self, i: int) -> None:
        """SIGTERM: hands its partitions over, closes its log; killed when that takes longer than 10 s."""
        self._end(i, signal.SIGTERM)

    def start(self, i: int) -> None:
        """Start a stopped or killed node again on its ports and data, and wait until it answers."""
        self.begin(i)
        self.wait_ready(i)

    def begin(self, i: int) -> None:
        """Start a stopped or killed node, without waiting for it; one that ended by itself too."""
        process = self._processes[i]
        if process is None or process.poll() is not None:
            self._launch(i)

    def ask_to_stop(self, i: int) -> None:
        """SIGTERM, without waiting; `kill` it before it is started again."""
        self._signal(i, signal.SIGTERM)

    def pause(self, i: int) -> None:
        """SIGSTOP: connections stay open, nothing answers."""
        self._signal(i, signal.SIGSTOP)

    def resume(self, i: int) -> None:
        """SIGCONT after `pause`."""
        self._signal(i, signal.SIGCONT)

    def close(self) -> None:
        """End all nodes at once; idempotent. Their data is thrown away, so there is no orderly stop."""
        for i in range(self.size):
            self.kill(i)

    def wait_ready(self, i: int, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Return once node `i` itself answers and is a member; raises RuntimeError with the end of its log."""
        node, process = self.nodes[i], self._processes[i]
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if process is None or process.poll() is not None:
                raise RuntimeError(f"Kafka node {node.id} ended while starting:\n{tail(node.log)}")
            if _listens(node.port) and node.id in self._members(node.address):
                return
            time.sleep(0.05)
        raise RuntimeError(f"Kafka node {node.id} is not ready after {timeout_s:g} s:\n{tail(node.log)}")

    def _members(self, bootstrap_servers: str) -> set[int]:
        """The ids of the brokers that are members, as one of them says; empty while it does not answer."""
        options: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        try:
            return set(AdminClient(options | dict(self.client)).list_topics(timeout=5).brokers)
        except KafkaException:
            return set()

    def _wait_members(self, count: int, timeout_s: float = READY_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while len(self._members(self.bootstrap_servers)) < count:
            if time.monotonic() > deadline:
                raise RuntimeError(f"fewer than {count} Kafka nodes found each other in {timeout_s:g} s")
            time.sleep(0.05)

    def _format(self, node: Node, cluster_id: str) -> None:
        node.folder.mkdir(parents=True)
        lines = [f"{key}={value}\n" for key, value in self.properties(node).items()]
        node.properties_file.write_text("".join(lines))
        tool = ["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(node.properties_file), *self.storage]
        done = subprocess.run(self._line(*tool), capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"Kafka's storage could not be formatted: {done.stdout}{done.stderr}")

    def _launch(self, i: int) -> None:
        node = self.nodes[i]
        self._processes[i] = spawn(self._line("kafka.Kafka", str(node.properties_file)), node.log)

    def _line(self, *arguments: str) -> list[str]:
        return [self._java, *JVM, *self.jvm, "-cp", f"{self._jars}/*", *arguments]

    def _signal(self, i: int, number: signal.Signals) -> None:
        process = self._processes[i]
        if process is not None:
            send(process, number)

    def _end(self, i: int, number: signal.Signals) -> None:
        process, self._processes[i] = self._processes[i], None
        if process is None:
            return
        send(process, number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _cluster_id() -> str:
    """A random id as Kafka writes UUIDs: 22 characters of base64, never starting like an option."""
    return "w" + base64.urlsafe_b64encode(uuid4().bytes).decode()[1:22]


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
