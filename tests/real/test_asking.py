"""What asks for captures goes on where the broker that it asked is another one by now."""

from contextlib import closing
from pathlib import Path

from tests.brokers import Tansu
from warpmeter import topics
from warpmeter.captures.asking import Asker, request
from warpmeter.settings import Kafka


def test_a_broker_that_began_anew_takes_requests_of_who_asked_before(tmp_path: Path, topic_prefix: str) -> None:
    with closing(Tansu(tmp_path)) as broker:
        kafka = Kafka(bootstrap_servers=broker.bootstrap_servers, topic_prefix=topic_prefix)
        topics.ensure(kafka)
        asker = Asker(kafka, "test")
        asker.ask(request("start", "ann", job_id="4711", duration_ms=500))
        broker.stop()
        broker.start()
        topics.ensure(kafka)
        asker.ask(request("start", "ann", job_id="4711", duration_ms=500))
