"""What the kernel says of memory, files and connections: what it does not say is unknown, never zero."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpmeter.producers import vitals
from warpmeter.producers.counters import fitting, growth, permille, rate, summed, whole
from warpmeter.schemas.generated.host_samples_pb2 import Envelope


@pytest.mark.parametrize("text", [None, b"", b" \n", b"nan\n", b"-1", b"1.5", b"0x10", b"N/A", b"\xff\xfe"])
def test_what_is_no_count_is_unknown(text: bytes | None) -> None:
    assert whole(text) is None


def test_a_counter_that_went_back_has_no_growth() -> None:
    assert (growth(5, 4), rate(5, 4, 1.0), growth(None, 4), growth(4, 4)) == (None, None, None, 0)


def test_more_than_a_column_holds_is_unknown() -> None:
    assert (fitting(2.0**32), fitting(float("nan")), fitting(-1.0), fitting(7.6)) == (None, None, None, 8)
    assert rate(0, 2**63, 1.0) is None


def test_no_time_between_two_reads_gives_no_rate() -> None:
    assert rate(1, 2, 0.0) is None


def test_sums_and_shares() -> None:
    assert (summed(None, 3, 4), summed(None), permille(1.2), permille(-0.1)) == (7, None, 1000, 0)


def test_refaults_of_a_kernel_that_does_not_tell_the_kinds_apart() -> None:
    found = vitals.rates({b"workingset_refault": b"10"}, {b"workingset_refault": b"30"}, {}, {}, 2.0)
    assert found["refaults_per_s"] == 10
    assert found["direct_reclaims_per_s"] is None


def test_huge_pages_of_which_one_size_cannot_be_read_are_unknown(tmp_path: Path) -> None:
    for size in ("2048kB", "1048576kB"):
        folder = tmp_path / f"kernel/mm/hugepages/hugepages-{size}"
        folder.mkdir(parents=True)
        (folder / "nr_hugepages").write_text("2\n")
        (folder / "free_hugepages").write_text("1\n")
    sizes = vitals.huge_page_sizes(str(tmp_path))
    (tmp_path / "kernel/mm/hugepages/hugepages-2048kB/free_hugepages").unlink()
    found = vitals.gauges({}, {}, None, vitals.read_huge_pages(sizes))
    assert (found["mem_huge_total_mebibytes"], found["mem_huge_free_mebibytes"]) == (2052, None)


def test_a_kernel_without_huge_pages(tmp_path: Path) -> None:
    assert vitals.huge_page_sizes(str(tmp_path)) == []
    assert vitals.gauges({}, {}, None, ())["mem_huge_total_mebibytes"] is None


@given(st.binary(max_size=200) | st.text("TcpUd: \n0123456789CurrEstab").map(str.encode))
def test_no_page_of_the_network_breaks_it(text: bytes) -> None:
    columns: dict[str, Any] = {**vitals.gauges({}, vitals.snmp(text), text, ())}
    columns |= vitals.rates({}, {}, vitals.snmp(text), vitals.snmp(text), 1.0)
    Envelope.HostSample(**columns)
