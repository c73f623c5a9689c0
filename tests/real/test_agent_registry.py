"""The agent with a Schema Registry: framed values, and a registry that answers late."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from tests.brokers import Tansu
from tests.brokers.process import free_ports
from tests.real import agents
from tests.wait import until
from warpmeter import bus
from warpmeter.clock import SystemClock
from warpmeter.producers import framing
from warpmeter.producers.shipper import Shipper, open_spool
from warpmeter.registry import unframed
from warpmeter.schemas.generated.metric_samples_pb2 import Envelope
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka
from warpmeter.wire import unpack

ID = 7


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        text = json.dumps({"id": ID}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def registry(port: int) -> Iterator[None]:
    """A registry that gives every schema the same id."""
    with ThreadingHTTPServer(("127.0.0.1", port), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def values(kafka: Kafka, count: int) -> list[bytes]:
    """The first values of `metric-samples` on the bus, as they are."""
    consumer = bus.consumer(kafka, "none")
    consumer.assign([TopicPartition(TOPICS["metric-samples"].full_name(kafka.topic_prefix), 0, OFFSET_BEGINNING)])
    found: list[bytes] = []

    def enough() -> bool:
        message = consumer.poll(0.3)
        value = None if message is None or message.error() else message.value()
        if isinstance(value, bytes):
            found.append(value)
        return len(found) >= count

    until(enough, f"{count} messages")
    consumer.close()
    return found


def test_values_wait_for_the_registry_and_then_carry_its_id_in_order(
    tansu: Tansu, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framing, "AGAIN_S", 0.1)
    port = free_ports(1)[0]
    bare = agents.with_topics(tansu.bootstrap_servers, topic_prefix)
    kafka = replace(bare, schema_registry_url=f"http://127.0.0.1:{port}")
    settings = agents.settings(tmp_path, kafka)
    shipper = Shipper(settings, open_spool(settings.agent, SystemClock()), SystemClock())

    def send(number: int) -> None:
        shipper.publish("metric-samples", [Envelope.MetricSample(host="gpu01", ts=1.8e9, name="n", value=number)])

    send(0)
    until(lambda: "cannot reach the Schema Registry" in shipper.health()[0].why, "the registry's absence to be told")
    shipper.pump()
    send(1)
    with registry(port):
        until(lambda: shipper.health()[0].state == "ok", "the registry's answer")
    until(lambda: not shipper.pump() and shipper._outbox.unacked == 0, "what waited to be sent")
    send(2)
    shipper.close(30.0)
    found = values(bare, 3)
    assert {value[:6] for value in found} == {b"\0" + ID.to_bytes(4, "big") + b"\0"}
    rows = [row for value in found for row in unpack(TOPICS["metric-samples"], unframed(value))]
    assert [row.value for row in rows] == [0, 1, 2]  # type: ignore[attr-defined]
