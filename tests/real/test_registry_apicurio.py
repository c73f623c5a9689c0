"""Schemas at a real Schema Registry: Apicurio's, through the API that is Confluent's."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.brokers.apicurio import Apicurio, KafkaMissingError
from tests.brokers.secured import Authority
from tests.wait import until
from warpmeter.acls import AGENT_WRITES
from warpmeter.producers.framing import Framing
from warpmeter.registry import CONTENT_TYPE, Registry, RegistryError, configured
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka

pytestmark = pytest.mark.kafka

GPU = TOPICS["gpu-samples"]


@dataclass
class World:
    registry: Apicurio
    authority: Authority

    def ask(self, method: str, path: str, body: object) -> None:
        """A call of the API beside ours."""
        raw = json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.registry.url}{path}", raw, {"Content-Type": CONTENT_TYPE}, method=method)
        urllib.request.urlopen(asked, timeout=30).close()

    def register(self, prefix: str, schema: str) -> None:
        """As another version of warpmeter did."""
        self.ask("POST", f"/subjects/{prefix}.gpu-samples-value/versions", {"schemaType": "PROTOBUF", "schema": schema})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("apicurio")
    authority = Authority(folder / "authority")
    try:
        registry = Apicurio(folder, authority.certificate("registry"))
    except KafkaMissingError as missing:
        pytest.skip(str(missing))
    with closing(registry):
        found = World(registry, authority)
        found.ask("PUT", "/config", {"compatibility": "BACKWARD"})
        yield found


def test_every_topics_schema_is_taken_and_keeps_its_id(world: World) -> None:
    first, again = Registry(world.registry.url, "all"), Registry(world.registry.url, "all")
    frames = {name: first.frame(topic) for name, topic in TOPICS.items()}
    assert len(set(frames.values())) == len(TOPICS)
    assert frames == {name: again.frame(topic) for name, topic in TOPICS.items()}


def test_a_new_optional_field_is_compatible_and_has_a_schema_of_its_own(world: World) -> None:
    world.register("older", GPU.proto.replace("optional uint32 sm_active_permille = 12;", ""))
    assert Registry(world.registry.url, "older").frame(GPU)


def test_a_field_whose_type_changed_is_refused_with_what_to_do(world: World) -> None:
    world.register(
        "wrong", GPU.proto.replace("optional uint32 sm_active_permille", "optional string sm_active_permille")
    )
    with pytest.raises(RegistryError, match=r"wrong\.gpu-samples-value at .* is not compatible with: .*topic_prefix"):
        Registry(world.registry.url, "wrong").frame(GPU)


def test_an_agent_learns_the_frames_of_all_that_it_writes(world: World) -> None:
    framing = Framing(Kafka(topic_prefix="agents", schema_registry_url=world.registry.url))
    until(lambda: framing.frames is not None, "the frames")
    framing.close()
    assert set(framing.frames or ()) == set(AGENT_WRITES)


def test_an_authority_of_ones_own_is_believed_and_an_unknown_one_is_not(world: World, tmp_path: Path) -> None:
    def at(ca_file: Path | None) -> Registry:
        found = configured(Kafka(schema_registry_url=world.registry.tls_url, schema_registry_ca_file=ca_file))
        assert found is not None
        return found

    assert at(world.authority.ca).frame(GPU)
    with pytest.raises(RegistryError, match="certificate verify failed"):
        at(None).frame(GPU)
    with pytest.raises(RegistryError, match="No such file"):
        at(tmp_path / "none.pem").frame(GPU)
