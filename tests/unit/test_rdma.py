"""RDMA ports: rates in bytes, counters that stop at their limit, ports that vanish and come back."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.fakesys import FakeSys
from tests.wait import until
from warpmeter.producers import rdma
from warpmeter.producers.rdma import FILES, Port, Ports, RdmaSource, columns, sources
from warpmeter.producers.source import Attribution, Reading, Sample, SourceError
from warpmeter.schemas.generated.device_samples_pb2 import Envelope
from warpmeter.settings import Agent

TS = 1_800_000_000.0


class World:
    """A tree, its source, and a clock."""

    def __init__(self, root: Path) -> None:
        self.sys = FakeSys(root)
        self.now = 100.0
        self.source = RdmaSource(Agent(host="gpu01", root=root), monotonic=lambda: self.now)
        self.before: Sample[Ports] | None = None

    def tick(self, seconds: float = 2.0) -> tuple[dict[str, Any], Reading]:
        """Rows by port, and all of the reading."""
        self.now += seconds
        sample = Sample(TS + self.now, self.now, 1.0, self.source.read())
        reading = self.source.parse(sample, self.before)
        self.before = sample
        return {row.device: row for row in reading.rows}, reading  # type: ignore[attr-defined]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_rates_of_a_port(world: World) -> None:
    world.sys.port("mlx5_0/1", port_rcv_data=1000, np_cnp_sent=5, link_downed=3)
    world.tick()
    world.sys.port(
        "mlx5_0/1", port_rcv_data=1000 + 25_000_000_000, port_xmit_data=500, port_rcv_packets=2_000_000,
        port_xmit_packets=20, port_rcv_errors=1, port_xmit_discards=3, np_cnp_sent=25, rp_cnp_handled=30,
        np_ecn_marked_roce_packets=7, rx_read_requests=800, rx_write_requests=1600, rx_atomic_requests=2,
        port_xmit_wait=9_000, symbol_error=4, out_of_sequence=6, packet_seq_err=4, local_ack_timeout_err=2,
        out_of_buffer=1, link_downed=4, link_error_recovery=1,
    )  # fmt: skip
    rows, reading = world.tick()
    row = rows["mlx5_0/1"]
    assert (row.host, row.kind, row.period_ms) == ("gpu01", "rdma", 2000)
    assert row.rx_kilobytes_per_s == 50_000_000  # 25e9 words of 4 bytes in 2 s: 400 Gb/s
    assert (row.tx_kilobytes_per_s, row.rx_packets_per_s, row.tx_packets_per_s) == (1, 1_000_000, 10)
    assert (row.rx_errors_milli_per_s, row.tx_drops_milli_per_s, row.rx_drops_milli_per_s) == (500, 1500, 500)
    assert (row.cnp_sent_milli_per_s, row.cnp_handled_milli_per_s, row.ecn_marked_milli_per_s) == (10_000, 15_000, 3500)
    assert (row.rdma_reads_per_s, row.rdma_writes_per_s, row.rdma_atomics_per_s) == (400, 800, 1)
    assert (row.tx_waits_per_s, row.symbol_errors_milli_per_s) == (4500, 2000)
    assert (row.sequence_errors_milli_per_s, row.ack_timeouts_milli_per_s) == (5000, 1000)
    assert (row.link_downs, row.link_recoveries) == (4, 1)
    assert (row.link_megabits_per_s, row.link_up) == (400_000, True)
    assert list(reading.health) == []


def test_a_counter_that_was_reset_is_unknown_for_this_interval_and_the_others_are_not(world: World) -> None:
    world.sys.port("mlx5_0/1", port_rcv_data=5000, port_xmit_data=10)
    world.tick()
    world.sys.port("mlx5_0/1", port_rcv_data=0, port_xmit_data=510)
    row = world.tick()[0]["mlx5_0/1"]
    assert not row.HasField("rx_kilobytes_per_s")
    assert row.tx_kilobytes_per_s == 1


def test_a_counter_at_its_limit_is_said_to_count_no_further(world: World) -> None:
    world.sys.port("mlx5_0/1", symbol_error=65535, link_downed=255)
    world.tick()
    rows, reading = world.tick()
    assert not rows["mlx5_0/1"].HasField("symbol_errors_milli_per_s")
    assert rows["mlx5_0/1"].link_downs == 255
    assert {(health.subject, health.state) for health in reading.health} == {
        ("mlx5_0/1/symbol_error", "failed"),
        ("mlx5_0/1/link_downed", "failed"),
    }
    assert "perfquery -R -C mlx5_0 -P 1" in reading.health[0].why


def test_words_where_numbers_should_be_are_unknown(world: World) -> None:
    world.sys.port("mlx5_0/1", port_rcv_data="N/A (no PMA)", port_xmit_data="nan", port_rcv_packets="")
    world.tick()
    row = world.tick()[0]["mlx5_0/1"]
    assert not any(row.HasField(name) for name in ("rx_kilobytes_per_s", "tx_kilobytes_per_s", "rx_packets_per_s"))
    assert row.tx_packets_per_s == 0


def test_a_port_that_vanishes_between_listing_and_reading_is_gone_and_may_come_back(world: World) -> None:
    world.sys.port("mlx5_0/1")
    folder = world.sys.port("mlx5_1/1")
    world.tick()
    shutil.rmtree(folder)
    rows, reading = world.tick(1.0)
    assert list(rows) == ["mlx5_0/1"]
    assert [(health.subject, health.state) for health in reading.health] == [("mlx5_1/1", "gone")]
    world.sys.port("mlx5_1/1", port_rcv_data=7)
    rows, reading = world.tick(10.0)
    assert list(rows) == ["mlx5_0/1", "mlx5_1/1"]
    assert list(reading.health) == []


def test_a_port_is_gone_for_ten_minutes_and_then_forgotten(world: World) -> None:
    world.sys.port("mlx5_0/1")
    shutil.rmtree(world.sys.port("mlx5_1/1").parents[1])
    world.sys.port("mlx5_1/1")
    world.tick()
    shutil.rmtree(world.sys.sys / "class/infiniband/mlx5_1")
    assert world.tick()[1].health != []
    assert list(world.tick(601.0)[1].health) == []


def test_when_all_ports_are_gone_the_source_lives_on(world: World) -> None:
    world.sys.port("mlx5_0/1")
    world.tick()
    shutil.rmtree(world.sys.sys / "class/infiniband")
    rows, reading = world.tick()
    assert rows == {}
    assert [(health.subject, health.state) for health in reading.health] == [("mlx5_0/1", "gone")]


def test_a_counter_whose_file_cannot_be_read_leaves_the_others(world: World) -> None:
    folder = world.sys.port("mlx5_0/1")
    (folder / "hw_counters/np_cnp_sent").unlink()
    (folder / "hw_counters/np_cnp_sent").mkdir()  # reading a folder fails, for root too
    world.tick()
    row = world.tick()[0]["mlx5_0/1"]
    assert not row.HasField("cnp_sent_milli_per_s")
    assert row.cnp_handled_milli_per_s == 0


def test_counters_that_may_not_be_read_are_said(world: World) -> None:
    raw = Ports({"mlx5_0/1": Port({}, denied="[Errno 13] Permission denied: 'port_rcv_data'")})
    (health,) = world.source.parse(Sample(TS, 1.0, 1.0, raw), None).health
    assert (health.subject, health.state) == ("mlx5_0/1", "denied")
    assert "run the agent as root" in health.why


def test_ports_of_other_drivers(world: World) -> None:
    folder = world.sys.port("efa_0/1", rate="100 Gb/sec (4X EDR)", state="1: DOWN")
    shutil.rmtree(folder / "counters")
    shutil.rmtree(folder / "hw_counters")
    (folder / "hw_counters").mkdir()
    (folder / "hw_counters/rx_bytes").write_text("0\n")
    world.tick()
    (folder / "hw_counters/rx_bytes").write_text("4000000\n")
    row = world.tick()[0]["efa_0/1"]
    assert row.rx_kilobytes_per_s == 2000
    assert (row.link_up, row.link_megabits_per_s) == (False, 100_000)
    assert not row.HasField("link_downs")


def test_an_adapter_that_hangs_stops_only_its_own_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.sys.port("mlx5_0/1")
    folder = world.sys.port("mlx5_1/1")
    world.tick()
    counter = folder / "counters/port_rcv_data"
    counter.unlink()
    os.mkfifo(counter)  # reading it waits until somebody writes
    monkeypatch.setattr(rdma, "ANSWER_S", 1.0)
    for _ in range(2):
        rows, reading = world.tick()
        assert list(rows) == ["mlx5_0/1"]
        assert [(health.subject, health.state) for health in reading.health] == [("mlx5_1/1", "timeout")]
    with counter.open("w") as writer:
        writer.write("5\n")
    monkeypatch.setattr(rdma, "ANSWER_S", 30.0)
    counter.unlink()
    counter.write_text("7\n")
    until(lambda: len(world.tick()[0]) == 2, "the adapter's answer", 30)


def test_a_host_without_rdma_says_so(world: World) -> None:
    with pytest.raises(SourceError, match="no RDMA adapter") as raised:
        world.source.read()
    assert raised.value.state == "unsupported"


def test_settings() -> None:
    (source,) = sources(Agent(device_interval_s=2.0), Attribution())
    assert (source.name, source.topic, source.period_s) == ("rdma", "device-samples", 2.0)
    assert list(sources(Agent(rdma=False), Attribution())) == []


counts = st.fixed_dictionaries({column: st.none() | st.integers(0, 2**64 - 1) for column in FILES})


@given(old=counts, new=counts, elapsed=st.floats(1e-3, 1e5))
def test_no_pair_of_counters_gives_an_unfitting_value(
    old: dict[str, int | None], new: dict[str, int | None], elapsed: float
) -> None:
    Envelope.DeviceSample(**columns(Port(old), Port(new), elapsed))
