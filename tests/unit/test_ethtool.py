"""What adapters count: names by driver, adapters that change under us, drivers that hang."""

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakekernel import MLX5, FakeKernel
from tests.wait import until
from warpmeter.producers import ethtool
from warpmeter.producers.devices import DeviceSource
from warpmeter.producers.ethtool import COUNTERS, NAMES, Adapters, Kernel, ethtool_columns, places
from warpmeter.producers.source import Sample
from warpmeter.schemas.generated.device_samples_pb2 import Envelope
from warpmeter.settings import Agent

BNXT = {
    "[0]: rx_discards": 9, "rx_total_ring_discards": 2, "rx_stat_discard": 3, "rx_pause_frames": 10,
    "tx_pause_frames": 20, "rx_pfc_frames": 999, **{f"rx_pfc_ena_frames_pri{n}": 1 for n in range(8)},
    "tx_stat_discard": 4,
}  # fmt: skip
ICE = {
    "rx_dropped": 999, "rx_dropped.nic": 3, "link_xon_rx.nic": 1, "link_xoff_rx.nic": 2, "link_xon_tx.nic": 3,
    "link_xoff_tx.nic": 4, "rx_priority_0_xon.nic": 1, "rx_priority_0_xoff.nic": 2, "tx_dropped_link_down.nic": 5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        (MLX5, {
            "rx_pauses_milli_per_s": 100, "tx_pauses_milli_per_s": 50, "rx_prio_pauses_milli_per_s": 28,
            "tx_prio_pauses_milli_per_s": 56, "pause_storm_warnings": 7, "pause_storm_errors": 1,
            "rx_nic_drops_milli_per_s": 7, "tx_nic_drops_milli_per_s": 5,
        }),
        (BNXT, {
            "rx_pauses_milli_per_s": 10, "tx_pauses_milli_per_s": 20, "rx_prio_pauses_milli_per_s": 8,
            "rx_nic_drops_milli_per_s": 5, "tx_nic_drops_milli_per_s": 4,
        }),
        (ICE, {
            "rx_pauses_milli_per_s": 3, "tx_pauses_milli_per_s": 7, "rx_prio_pauses_milli_per_s": 3,
            "rx_nic_drops_milli_per_s": 3, "tx_nic_drops_milli_per_s": 5,
        }),
        ({"port.rx_discards": 4, "port.link_xoff_rx": 2}, {"rx_nic_drops_milli_per_s": 4, "rx_pauses_milli_per_s": 2}),
        ({"rx_missed_errors": 1, "rx_no_dma_resources": 2, "rx_flow_control_xoff": 3, "tx_pb_0_pxon": 4}, {
            "rx_nic_drops_milli_per_s": 3, "rx_pauses_milli_per_s": 3, "tx_prio_pauses_milli_per_s": 4,
        }),
        ({"rx_drops": 6, "tx_drops": 7, "rx0_drops": 6}, {
            "rx_nic_drops_milli_per_s": 6, "tx_nic_drops_milli_per_s": 7,
        }),
        ({"rx_queue_0_drops": 1, "rx_queue_17_drops": 2}, {"rx_nic_drops_milli_per_s": 3}),
        ({"rx_bytes": 1}, {}),
        ({}, {}),
    ],
    ids=["mlx5", "bnxt", "ice", "i40e", "ixgbe", "ena and virtio", "older virtio", "nothing of it", "no counters"],
)  # fmt: skip
def test_names_of_the_drivers(counters: dict[str, int], expected: dict[str, int]) -> None:
    assert Kernel(FakeKernel({"eth0": counters})).counts("eth0") == expected


def test_rates_and_counters() -> None:
    fake = FakeKernel({"eth0": MLX5})
    kernel = Kernel(fake)
    before = kernel.counts("eth0")
    fake.nics["eth0"] = {name: value + 10 for name, value in MLX5.items()}
    columns = ethtool_columns(before, kernel.counts("eth0"), 2.0)
    assert columns["rx_pauses_milli_per_s"] == 5000
    assert columns["rx_prio_pauses_milli_per_s"] == 40_000
    assert (columns["pause_storm_warnings"], columns["pause_storm_errors"]) == (17, 11)


def test_a_driver_that_reset_its_counters_gives_no_rate() -> None:
    columns = ethtool_columns({"rx_pauses_milli_per_s": 9}, {"rx_pauses_milli_per_s": 1}, 1.0)
    assert columns["rx_pauses_milli_per_s"] is None


@pytest.mark.parametrize("strict", [True, False], ids=["kernels since 6.18", "older kernels"])
def test_an_adapter_that_gets_more_queues_is_learned_anew(strict: bool) -> None:
    fake = FakeKernel({"eth0": MLX5}, strict=strict)
    kernel = Kernel(fake)
    assert kernel.counts("eth0")["pause_storm_warnings"] == 7
    fake.nics["eth0"] = {"rx7_packets": 12345, **MLX5}
    assert kernel.counts("eth0") == {}
    assert kernel.counts("eth0")["pause_storm_warnings"] == 7


def test_another_adapter_of_the_same_name_is_learned_anew() -> None:
    fake = FakeKernel({"eth0": {"rx_drops": 1, "a": 2}})
    kernel = Kernel(fake)
    kernel.counts("eth0")
    fake.nics["eth0"] = {"a": 2, "rx_drops": 1}
    kernel.forget("eth0")
    assert kernel.counts("eth0") == {"rx_nic_drops_milli_per_s": 1}


def test_a_driver_without_counters_is_not_asked_again() -> None:
    fake = FakeKernel({"eth0": MLX5}, {("eth0", 0x37): errno.EOPNOTSUPP})
    look = Adapters(fake).look(["eth0"])
    assert (look.counts, look.health) == ({"eth0": {}}, [])


@pytest.mark.parametrize(
    ("number", "state", "remedy"),
    [(errno.ENODEV, "unsupported", "hostNetwork"), (errno.EPERM, "denied", "as root"), (errno.EIO, "failed", "dmesg")],
)
def test_why_an_adapter_gives_nothing_while_the_others_do(number: int, state: str, remedy: str) -> None:
    fake = FakeKernel({"eth0": MLX5, "eth1": MLX5}, {("eth0", 0x37): number})
    look = Adapters(fake).look(["eth0", "eth1"])
    assert list(look.counts) == ["eth1"]
    (health,) = look.health
    assert (health.subject, health.state) == ("eth0/ethtool", state)
    assert remedy in health.why


def test_an_adapter_that_fails_later_is_asked_anew() -> None:
    fake = FakeKernel({"eth0": MLX5})
    adapters = Adapters(fake)
    adapters.look(["eth0"])
    fake.refuse[("eth0", 0x1D)] = errno.EBUSY
    assert adapters.look(["eth0"]).health[0].state == "failed"
    fake.refuse.clear()
    assert adapters.look(["eth0"]).counts["eth0"]["pause_storm_warnings"] == 7


@pytest.fixture
def hung() -> Iterator[threading.Event]:
    """A driver that answers once the event is set."""
    event = threading.Event()
    yield event
    event.set()


def test_a_driver_that_hangs_holds_nobody(hung: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ethtool, "ANSWER_S", 1.0)

    def hang(nic: str) -> None:
        if nic == "eth1":
            hung.wait()

    adapters = Adapters(FakeKernel({"eth0": MLX5, "eth1": MLX5}, before=hang))
    for _ in range(2):
        look = adapters.look(["eth0", "eth1"])
        assert look.counts == {}
        assert [(health.subject, health.state) for health in look.health] == [("ethtool", "timeout")]
        assert "eth1 took over" in look.health[0].why
    monkeypatch.setattr(ethtool, "ANSWER_S", 30.0)
    hung.set()
    until(lambda: len(adapters.look(["eth0", "eth1"]).counts) == 2, "the driver's answer", 30.0)


def host(root: Path) -> None:
    """A host with one adapter and one bond."""
    (root / "proc/net").mkdir(parents=True)
    (root / "proc/net/dev").write_text("h\nh\n" + "".join(f" {nic}: " + "0 " * 16 + "\n" for nic in ("eth0", "bond0")))
    for nic in ("eth0", "bond0"):
        (root / f"sys/class/net/{nic}").mkdir(parents=True)
    (root / "sys/class/net/eth0/device").mkdir()
    (root / "sys/class/net/eth0/carrier_changes").write_text("5\n")


def test_rows_of_nics_carry_what_the_adapter_counts(tmp_path: Path) -> None:
    host(tmp_path)
    fake = FakeKernel({"eth0": MLX5})
    source = DeviceSource(Agent(root=tmp_path), Adapters(fake))
    before = Sample(1.0, 1.0, 1.0, source.read())
    fake.nics["eth0"] = {name: value + 10 for name, value in MLX5.items()}
    found: Any = {row.device: row for row in source.parse(Sample(2.0, 2.0, 1.0, source.read()), before).rows}  # type: ignore[attr-defined]
    assert found["eth0"].rx_pauses_milli_per_s == 10_000
    assert (found["eth0"].carrier_changes, found["eth0"].pause_storm_errors) == (5, 11)
    assert not found["bond0"].HasField("rx_pauses_milli_per_s")


def test_adapters_need_not_be_asked(tmp_path: Path) -> None:
    host(tmp_path)
    source = DeviceSource(Agent(root=tmp_path, ethtool=False))
    assert len(source.parse(Sample(1.0, 1.0, 1.0, source.read()), None).rows) == 2


counts = st.dictionaries(st.sampled_from(sorted(NAMES)), st.integers(0, 2**64 - 1))


@given(old=counts, new=counts, elapsed=st.floats(1e-3, 1e5))
def test_no_pair_of_counters_gives_an_unfitting_value(old: dict[str, int], new: dict[str, int], elapsed: float) -> None:
    Envelope.DeviceSample(**ethtool_columns(old, new, elapsed))


@given(st.lists(st.text(max_size=31), max_size=30))
def test_any_names_are_taken(names: list[str]) -> None:
    assert all(0 <= place < len(names) for found in places(names).values() for place in found)
    assert set(places(names)) <= set(NAMES)
    assert set(NAMES) > COUNTERS
