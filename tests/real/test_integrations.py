"""Every code block of docs/integrations.md does what it says, where its tool is here."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.brokers import Broker, KafkaCluster
from warpmeter import bus, topics, wire
from warpmeter.schemas.generated.gpu_samples_pb2 import Envelope as Gpu
from warpmeter.schemas.topics import TOPICS
from warpmeter.settings import Kafka

ROOT: Final = Path(__file__).parent.parent.parent
PAGE: Final = ROOT / "docs" / "integrations.md"
PROTO: Final = ROOT / "schemas" / "gpu_samples.proto"
GPU: Final = TOPICS["gpu-samples"]
BLOCK: Final = re.compile(r"<!-- (?P<name>\S+) -->\n```\w+\n(?P<text>.*?)```", re.DOTALL)
EXPECTED: Final = ["gpu-01 gpu 0: 700.3 W", "gpu-01 gpu 2: 70.0 W"]
OLD_KCAT: Final = "-X api.version.request=false -X broker.version.fallback=0.9.0"


def blocks() -> dict[str, str]:
    """Name -> text of every named code block of the page."""
    return {found["name"]: found["text"] for found in BLOCK.finditer(PAGE.read_text())}


def block(name: str, kafka: Kafka) -> str:
    """A block, told of this test's broker and topic."""
    text = blocks()[name].replace("127.0.0.1:9092", kafka.bootstrap_servers)
    return text.replace("warpmeter.gpu-samples", GPU.full_name(kafka.topic_prefix))


def needed(*tools: str) -> pytest.MarkDecorator:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not here: {', '.join(missing)}")


def message() -> bytes:
    """Three GPUs, one of which does not tell its power."""
    watts = (7003, None, 700)
    rows = [
        Gpu.GpuSample(host="gpu-01", ts=1_780_000_000.0, gpu=gpu, power_deciwatts=power, sm_active_permille=500 + gpu)
        for gpu, power in enumerate(watts)
    ]
    return wire.pack(GPU, "gpu-01", rows).value


def filled(bootstrap_servers: str, prefix: str) -> Kafka:
    """A topic with one message."""
    kafka = Kafka(bootstrap_servers, prefix, partitions=1, replication_factor=1)
    topics.ensure(kafka, [GPU])
    producer: Producer = bus.producer(kafka, {"enable.idempotence": False})
    producer.produce(GPU.full_name(prefix), message(), b"gpu-01")
    assert producer.flush(60) == 0
    return kafka


@pytest.fixture
def on_broker(broker: Broker, topic_prefix: str) -> Kafka:
    return filled(broker.bootstrap_servers, topic_prefix)


@pytest.fixture
def on_kafka(kafka: KafkaCluster, topic_prefix: str) -> Kafka:
    return filled(kafka.bootstrap_servers, topic_prefix)


def first_lines(line: Sequence[str], folder: Path, count: int) -> list[str]:
    """What a reader that never ends prints first; it is ended with all its children."""
    log = folder / "reader.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            line, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        ) as reader,
    ):
        assert reader.stdout is not None
        told = [reader.stdout.readline().rstrip("\n") for _ in range(count)]
        os.killpg(reader.pid, signal.SIGKILL)
    assert all(told), log.read_text()
    return told


def test_every_block_is_tested_here() -> None:
    named = set(blocks())
    fenced = re.findall(r"^```\w+$", PAGE.read_text(), re.MULTILINE)
    assert len(named) == len(fenced), "each code block needs a name, `<!-- name -->`, in the line before"
    source = Path(__file__).read_text()
    assert [name for name in named if f'"{name}"' not in source] == []


def test_the_page_names_every_topic() -> None:
    assert set(re.findall(r"^\| `warpmeter\.(\S+)` \|", PAGE.read_text(), re.MULTILINE)) == set(TOPICS)


@needed("kcat", "protoc")
def test_kcat_and_protoc(on_broker: Kafka, broker: Broker) -> None:
    script = block("kcat", on_broker)
    if broker.name == "tansu" and "librdkafka 2.0" in subprocess.check_output(["kcat", "-V"], text=True):
        script = script.replace("kcat ", f"kcat {OLD_KCAT} ")
    told = subprocess.check_output(["sh", "-ec", script], cwd=ROOT, text=True, timeout=180)
    assert f'topic "{GPU.full_name(on_broker.topic_prefix)}" with 1 partitions' in told
    assert told.count("rows {") == 3
    assert "power_deciwatts: 7003" in told


def test_python(on_broker: Kafka, tmp_path: Path) -> None:
    script = tmp_path / "reader.py"
    script.write_text(block("reader.py", on_broker).replace("power-reader", on_broker.topic_prefix))
    assert first_lines([sys.executable, str(script)], tmp_path, 2) == EXPECTED


@pytest.mark.kafka
@pytest.mark.timeout(600)
@needed("go", "protoc")
def test_go(on_kafka: Kafka, tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text(block("main.go", on_kafka))
    shutil.copy(PROTO, tmp_path)
    script = block("go.sh", on_kafka)
    assert first_lines(["sh", "-ec", script], tmp_path, 2) == EXPECTED


@pytest.mark.kafka
@pytest.mark.timeout(600)
@needed("java", "mvn")
def test_java(on_kafka: Kafka, tmp_path: Path) -> None:
    for name in ("pom.xml", "src/main/java/Reader.java"):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(block(name, on_kafka).replace("power-reader", on_kafka.topic_prefix))
    protos = tmp_path / "src" / "main" / "protobuf"
    protos.mkdir()
    shutil.copy(PROTO, protos)
    told = first_lines(["sh", "-ec", block("java.sh", on_kafka)], tmp_path, 2)
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in told] == EXPECTED


DECODE: Final = r"""
import sys
from chdb import session

queue, view, schema = sys.argv[1], sys.argv[2], open(sys.argv[3]).read()
columns = queue[queue.index("(") + 1 : queue.index(")\nENGINE")]
queue = queue.replace("…", schema.replace("'", "\\'"))
settings = queue[queue.index("format_schema_source") :]
engine = session.Session("engine")
engine.query(f"CREATE TABLE gpu_samples_queue ({columns}) ENGINE = Memory")
engine.query(view)
read = f"SELECT * FROM file('message', 'ProtobufSingle', '{columns}')"
engine.query(f"INSERT INTO gpu_samples_queue {read} SETTINGS {settings}")
power = "SELECT host, toUnixTimestamp(ts), gpu, sm_active, round(power_watts, 6) FROM gpu_power ORDER BY gpu"
print(engine.query(power, "CSV"), end="")
try:  # the engine itself does not run inside chDB, but names a setting that it does not know before it says so
    engine.query(queue.replace("gpu_samples_queue", "queue"))
except Exception as error:
    print("UNKNOWN_SETTING" if "UNKNOWN_SETTING" in str(error) else "settings known")
"""


def test_clickhouse_reads_a_message_by_the_columns_and_settings_of_its_kafka_engine(tmp_path: Path) -> None:
    (tmp_path / "message").write_bytes(message())
    queue, view = blocks()["kafka_engine.sql"], blocks()["kafka_engine_view.sql"]
    told = subprocess.run(
        [sys.executable, "-c", DECODE, queue, view, str(PROTO)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert told.stdout.splitlines() == [
        '"gpu-01",1780000000,0,0.5,700.3',
        '"gpu-01",1780000000,1,0.501,\\N',
        '"gpu-01",1780000000,2,0.502,70',
        "settings known",
    ], told.stderr


def test_kafka_connect_takes_all_topics_as_bytes() -> None:
    connector = json.loads(blocks()["connect-archive.json"])["config"]
    assert all(re.fullmatch(connector["topics.regex"], topic.full_name("warpmeter")) for topic in TOPICS.values())
    assert connector["value.converter"].endswith(".ByteArrayConverter")
    assert all(isinstance(value, str) for value in connector.values())
