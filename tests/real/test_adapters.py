"""The adapters of the host that the tests run on, through the real ioctl."""

from pathlib import Path
from typing import Any

import pytest

from warpmeter.producers.devices import DeviceSource
from warpmeter.producers.ethtool import NAMES, Adapters, Kernel
from warpmeter.producers.source import Sample
from warpmeter.settings import Agent

PHYSICAL = sorted(path.parent.name for path in Path("/sys/class/net").glob("*/device"))

pytestmark = pytest.mark.skipif(not PHYSICAL, reason="no adapter here")


def test_every_adapter_answers_with_counters_of_the_columns_or_none() -> None:
    look = Adapters().look(PHYSICAL)
    assert set(look.counts) | {health.subject.partition("/")[0] for health in look.health} == set(PHYSICAL)
    for counts in look.counts.values():
        assert set(counts) <= set(NAMES)
        assert all(count >= 0 for count in counts.values())


def test_counters_of_virtio_are_known_by_name() -> None:
    virtio = [nic for nic in PHYSICAL if "virtio" in str((Path("/sys/class/net") / nic / "device/driver").resolve())]
    if not virtio:
        pytest.skip("no virtio adapter here")
    before, after = (Kernel().counts(virtio[0]) for _ in range(2))
    assert after["rx_nic_drops_milli_per_s"] >= before["rx_nic_drops_milli_per_s"] >= 0


def test_a_name_that_nobody_has_is_told() -> None:
    (health,) = Adapters().look(["nobody0"]).health
    assert (health.subject, health.state) == ("nobody0/ethtool", "unsupported")


def test_rows_of_this_hosts_nics() -> None:
    source = DeviceSource(Agent(host="h"))
    before = Sample(1.0, 1.0, 1.0, source.read())
    rows: dict[str, Any] = {row.device: row for row in source.parse(Sample(2.0, 2.0, 1.0, source.read()), before).rows}  # type: ignore[attr-defined]
    assert rows[PHYSICAL[0]].HasField("carrier_changes")
    source.close()
