"""The contract holds: meanings never change, old messages stay readable, and what is made from it is current."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from warpmeter import migrate, wire
from warpmeter.producers.jobs.scheduler import SLURM_LABELS
from warpmeter.schemas import compared, document, equals
from warpmeter.schemas.labels import ACCOUNTS, LABELS
from warpmeter.schemas.metrics import METRICS, SCALES, Kind, of_topic
from warpmeter.schemas.topics import TOPICS, Topic, row_type

GOLDEN: Final = Path(__file__).parent.parent / "golden"
DESCRIPTORS: Final = GOLDEN / "descriptors.json"
PAYLOADS: Final = GOLDEN / "payloads"
VERSIONS: Final = ("v1", "v2")
CAPTURES: Final = ("capture-requests", "capture-schedules", "capture-commands", "capture-events")
STACKS: Final = "stack-samples"
SAID: Final = ("alerts", "alert-words", "report-events")
YOUNGER: Final = {"v1": ("gpu-processes", "gpu-events", STACKS, *CAPTURES, *SAID), "v2": (STACKS, *CAPTURES, *SAID)}
"""Topics that a version did not have."""
TYPES: Final = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}
# Optional numbers that say what a row is about, not what was measured.
IDENTITIES: Final = {
    "gpu-samples": {"gpu_instance", "compute_instance"},
    "gpu-events": {"pid"},
    "metric-samples": {"rate_per_s"},
    "capture-commands": {"start_at"},
    "capture-events": {
        "pid",
        "rank",
        "start_at",
        "traced_from",
        "traced_until",
        "bytes",
        "raw_bytes",
        "clock_skew_ms",
        "slowdown_permille",
        "step_count",
        "step_us",
    },
    "job-events": {"rank", "world_size"},
    "stack-samples": {"rank"},
    "alerts": {"value", "fired_at", "resolved_at"},
    "alert-words": {"starts_at", "ends_at"},
    "report-events": {"bytes"},
    "source-health": {"seconds", "count"},
}
every_topic = pytest.mark.parametrize("topic", TOPICS.values(), ids=TOPICS.keys())


def described(topic: Topic) -> dict[str, list[str]]:
    """Field number -> name, type, and whether it is optional, repeated or neither."""
    return {str(field.number): _described(field) for field in row_type(topic.envelope).fields}


def _described(field: FieldDescriptor) -> list[str]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
        return [field.name, f"map<{TYPES[key.type]}, {TYPES[value.type]}>", ""]
    label = "repeated" if field.is_repeated else "optional" if field.has_presence else ""
    return [field.name, TYPES[field.type], label]


def test_fields_never_change_their_number_name_or_type(update: bool) -> None:
    now = {name: described(topic) for name, topic in TOPICS.items()}
    golden: dict[str, dict[str, list[str]]] = json.loads(DESCRIPTORS.read_text()) if DESCRIPTORS.exists() else {}
    for topic, fields in golden.items():
        for number, field in fields.items():
            assert now.get(topic, {}).get(number) == field, f"{topic}: field {number} is {field} for ever"
    if update:
        DESCRIPTORS.write_text(json.dumps(now, indent=1) + "\n")
    else:
        assert now == golden, "new fields: run `pytest tests/unit/test_schemas.py --update` and commit the golden file"


@every_topic
def test_an_envelope_has_one_field_and_a_package_of_its_own(topic: Topic) -> None:
    envelope = topic.envelope.DESCRIPTOR
    assert [(field.name, field.number) for field in envelope.fields] == [("rows", 1)]
    assert envelope.name == "Envelope"
    assert envelope.file.package == f"warpmeter.{topic.table}.v1"
    assert f"message {topic.message} {{" in topic.proto


def filled(descriptor: Descriptor) -> dict[str, Any]:
    """A value for each field, other for each."""
    return {field.name: _filled(field) for field in descriptor.fields}


def _filled(field: FieldDescriptor) -> Any:
    if field.message_type is not None:  # our maps are of strings
        return {f"{field.name}-key": f"{field.name}-value"}
    one = {
        FieldDescriptor.CPPTYPE_STRING: f"{field.name} ü"
        if field.type == field.TYPE_STRING
        else b"\x00\xff" + bytes(3),
        FieldDescriptor.CPPTYPE_DOUBLE: 1_780_000_000.125 + field.number,
        FieldDescriptor.CPPTYPE_BOOL: True,
        FieldDescriptor.CPPTYPE_UINT64: (1 << 40) + field.number,
    }.get(field.cpp_type, 70_000 + field.number)
    return [one] if field.is_repeated else one


def example(topic: Topic) -> list[Message]:
    """One row with every field of today, and one with the least."""
    row = getattr(topic.envelope, topic.message)
    least = {"ts": 1_780_000_000.0} | ({"host": "gpu-0001"} if topic.name != "dead-letters" else {"topic": "t"})
    return [row(**filled(row_type(topic.envelope))), row(**least)]


@every_topic
@pytest.mark.parametrize("version", VERSIONS)
def test_messages_of_every_version_decode(topic: Topic, version: str, update: bool) -> None:
    kept = PAYLOADS / version / f"{topic.name}.json"
    if topic.name in YOUNGER.get(version, ()):
        return
    if update and version == VERSIONS[-1] and not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        rows = example(topic)
        payload = {"hex": wire.pack(topic, "gpu-0001", rows).value.hex(), "rows": [_plain(row) for row in rows]}
        kept.write_text(json.dumps(payload, indent=1, ensure_ascii=False) + "\n")
    payload = json.loads(kept.read_text())
    assert [_plain(row) for row in wire.unpack(topic, bytes.fromhex(payload["hex"]))] == payload["rows"]


def _plain(row: Message) -> dict[str, Any]:
    return MessageToDict(row, preserving_proto_field_name=True)


def test_every_metric_is_a_field_and_every_measured_field_is_a_metric() -> None:
    for topic in TOPICS.values():
        fields = {field.name: field for field in row_type(topic.envelope).fields}
        measured = {name for name, field in fields.items() if _measured(field)} - IDENTITIES.get(topic.name, set())
        assert {metric.column for metric in of_topic(topic.name)} == measured, topic.name


def _measured(field: FieldDescriptor) -> bool:
    return field.has_presence and not field.is_repeated and field.cpp_type != FieldDescriptor.CPPTYPE_STRING


def test_metrics_stand_in_the_order_of_their_fields() -> None:
    for topic in TOPICS.values():
        numbers = {field.name: field.number for field in row_type(topic.envelope).fields}
        order = [numbers[metric.column] for metric in of_topic(topic.name)]
        assert order == sorted(order), topic.name


def test_names_are_si_unique_and_told_apart_by_unit() -> None:
    for topic in TOPICS:
        names = [metric.name for metric in of_topic(topic)]
        assert len(names) == len(set(names))
    for metric in METRICS:
        assert metric.kind in get_args(Kind)
        assert (metric.kind == "bits") == metric.meaning.startswith("bits "), metric.column
        assert (metric.kind == "ratio") == metric.column.endswith("_permille"), metric.column
        assert metric.kind != "rate" or metric.unit.endswith("/s"), metric.column
        assert metric.meaning, metric.column
        assert metric.sources, metric.column
        assert not any(metric.name.endswith(suffix) for suffix in SCALES if SCALES[suffix].si_suffix), metric.name


@pytest.mark.parametrize(
    ("column", "name", "factor", "unit"),
    [
        ("sm_active_permille", "sm_active", 0.001, "ratio 0-1"),
        ("power_deciwatts", "power_watts", 0.1, "W"),
        ("fb_used_mebibytes", "fb_used_bytes", 1048576, "B"),
        ("pcie_tx_megabytes_per_s", "pcie_tx_bytes_per_s", 1e6, "B/s"),
        ("sm_clock_megahertz", "sm_clock_hertz", 1e6, "Hz"),
        ("reads_milli_per_s", "reads_per_s", 0.001, "1/s"),
        ("l3_loads_kilo_per_s", "l3_loads_per_s", 1e3, "1/s"),
        ("instructions_mega_per_s", "instructions_per_s", 1e6, "1/s"),
        ("l2_hit_ratio_permille", "l2_hit_ratio", 0.001, "ratio 0-1"),
        ("cpu_cores_milli", "cpu_cores", 0.001, "1"),
        ("load1_centi", "load1", 0.01, "1"),
        ("energy_joules", "energy_joules", 1.0, "J"),
        ("context_switches_per_s", "context_switches_per_s", 1.0, "1/s"),
        ("uptime_s", "uptime_s", 1.0, "s"),
    ],
)
def test_the_suffix_says_the_scale(column: str, name: str, factor: float, unit: str) -> None:
    metric = next(metric for metric in METRICS if metric.column == column)
    assert (metric.name, metric.factor, metric.unit) == (name, factor, unit)


def test_the_metrics_page_is_current() -> None:
    assert document.TARGET.read_text() == document.document(), "run `make docs` and commit docs/metrics.md"


def test_the_metrics_page_names_every_metric() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", document.document(), re.MULTILINE))
    assert {metric.name for metric in METRICS} <= named


def test_no_row_of_what_others_show_is_empty() -> None:
    assert len(compared.DYNOLOG_PAGE) == 17
    assert len(compared.DCGM_FIELDS) == 19
    assert compared.PANELS.keys() == compared.HOST_COLUMNS.keys()
    assert len(compared.PANELS) == 8
    theirs = (*compared.DYNOLOG_PAGE, *compared.DCGM_FIELDS.values(), *compared.DYNOLOG_HOST, *compared.DYNOLOG_RDMA)
    places = [compared.place_of(name) for name in (*theirs, *compared.IDENTITIES)]
    places += [*compared.HOST_TIMES.values(), *compared.PRIORITY_PAUSES.values()]
    places += [place for panel in compared.PANELS.values() for place in panel]
    for place in places:
        assert place.field in row_type(TOPICS[place.topic].envelope).fields_by_name, place


def test_what_is_said_to_equal_a_metric_of_others_is_a_metric() -> None:
    ours = {(metric.topic, metric.column) for metric in METRICS}
    dynolog = {(of.partition("/")[0], column) for of, table in equals.DYNOLOG.items() for column in table}
    node = {(topic, column) for topic, table in equals.NODE_EXPORTER.items() for column in table}
    assert dynolog | node | {("gpu-samples", column) for column in equals.DCGM} <= ours
    assert len(set(equals.DCGM.values())) == len(equals.DCGM)


def test_the_labels_that_jobs_get_are_those_of_the_contract() -> None:
    assert set(SLURM_LABELS) <= set(LABELS)
    assert set(ACCOUNTS) <= set(LABELS)
    jobs = next(script.text for script in migrate.views() if script.name.endswith("_jobs"))
    assert json.dumps(ACCOUNTS) in jobs, "the view takes the account from the same labels in the same order"


def test_dynologs_names_come_with_the_scale_it_has() -> None:
    assert equals.dynolog("gpu-samples", "sm_clock_megahertz") == equals.Alias("gpu_frequency_mhz", 1e-6)
    assert equals.dynolog("host-samples", "cpu_util_permille") == equals.Alias("cpu_util", 100.0)
    assert equals.dynolog("device-samples", "rx_kilobytes_per_s", "nic") == equals.Alias("rx_bytes_{}", 1.0, True)
    words = equals.dynolog("device-samples", "rx_kilobytes_per_s", "rdma")
    assert words == equals.Alias("{}.port_rcv_data", 0.25, True)
    assert equals.dynolog("device-samples", "rx_kilobytes_per_s") is None


def test_the_generated_code_is_current(tmp_path: Path) -> None:
    generate = pytest.importorskip("warpmeter.schemas.generate", reason="grpcio-tools makes the code, and is missing")
    for folder in generate.FOLDERS:
        fresh = tmp_path / folder.name
        fresh.mkdir()
        generate.generate(folder, fresh)
        assert generate.stale(fresh, folder / "generated") == [], "run `make proto` and commit the result"


def test_every_topic_has_a_proto_file_and_every_proto_file_a_topic() -> None:
    files = {path.stem for path in document.TARGET.parent.parent.joinpath("schemas").glob("*.proto")}
    assert files == {topic.table for topic in TOPICS.values()}


def _rows(topic: Topic) -> Iterator[bytes]:
    for number in range(3):
        yield wire.pack(topic, "h", [getattr(topic.envelope, topic.message)(ts=float(number))]).value


@every_topic
def test_envelopes_joined_are_an_envelope(topic: Topic) -> None:
    rows = wire.unpack(topic, b"".join(_rows(topic)))
    assert [row.ts for row in rows] == [0.0, 1.0, 2.0]  # type: ignore[attr-defined]
