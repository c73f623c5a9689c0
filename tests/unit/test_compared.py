"""Each row of the page's table of what others show has a column, and each column a test in which a source fills it.

Which test that is stands here; that it exists and names the column is what is tested.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from warpmeter.schemas import compared
from warpmeter.schemas.compared import Place

TESTS: Final = Path(__file__).resolve().parents[1]

# Tests by topic and kind of device; one by column stands above it.
BY_KIND: Final[Mapping[str, str]] = {
    "host-samples": "unit/test_host.py::test_cpu_shares_are_of_the_interval",
    "gpu-samples": "real/test_gpu_source.py::test_every_field_of_eight_gpus_is_right",
    "source-health": "real/test_gpu_source.py::test_the_agents_runner_tells_lost_unsupported_and_failed_apart",
    "device-samples nic": "unit/test_devices.py::test_nic_rates",
    "device-samples disk": "unit/test_devices.py::test_disk_rates",
    "device-samples mount": "unit/test_mounts.py::test_sizes_and_nfs",
    "device-samples rdma": "unit/test_rdma.py::test_rates_of_a_port",
    "device-samples numa": "unit/test_numa.py::test_two_looks",
    "device-samples socket": "unit/test_perf.py::test_all_columns_of_two_sockets",
}
BY_COLUMN: Final[Mapping[str, str]] = {
    "uptime_s": "unit/test_host.py::test_the_first_look_has_gauges_and_no_rates",
    "tx_pauses_milli_per_s": "unit/test_ethtool.py::test_names_of_the_drivers",
    "tx_prio_pauses_milli_per_s": "unit/test_ethtool.py::test_names_of_the_drivers",
    "pause_storm_warnings": "unit/test_ethtool.py::test_rates_and_counters",
    "pause_storm_errors": "unit/test_ethtool.py::test_rates_and_counters",
}
DCGM: Final = "unit/test_dcgm.py::test_without_nvml_the_page_alone_makes_the_rows"


def rows() -> Iterator[tuple[str, Place]]:
    """What others show, and the place of each in our tables."""
    theirs = (*compared.DYNOLOG_PAGE, *compared.DYNOLOG_HOST, *compared.DYNOLOG_RDMA, *compared.IDENTITIES)
    for name in (*theirs, *compared.HOST_TIMES, *compared.PRIORITY_PAUSES):
        yield name, compared.place_of(name)
    for panel, places in compared.PANELS.items():
        yield from ((panel, place) for place in places)


def kinds(place: Place) -> tuple[str, ...]:
    """Of devices, as the note of the place has them."""
    if place.topic != "device-samples":
        return ("",)
    words = place.note.replace(" and ", " ").split()
    return tuple(words[1:]) if words[0] in ("kind", "kinds") else ("nic",)


CASES: Final = sorted(
    {(place.field, f"{place.topic} {kind}".strip()) for _, place in rows() for kind in kinds(place)}
)  # fmt: skip


@cache
def text_of(test: str) -> str:
    """The text of a test, with its decorators; raises AssertionError when there is none of that name."""
    path, _, name = test.partition("::")
    source = (TESTS / path).read_text()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            lines = source.splitlines()
            return "\n".join(
                lines[min([node.lineno, *(each.lineno for each in node.decorator_list)]) - 1 : node.end_lineno]
            )
    raise AssertionError(f"no test {test}")


@pytest.mark.parametrize(("field", "of"), CASES)
def test_a_source_fills_each_column(field: str, of: str) -> None:
    test = BY_COLUMN.get(field) or BY_KIND[of]
    assert field in text_of(test), test


@pytest.mark.parametrize("name", compared.DCGM_FIELDS.values())
def test_dcgms_page_fills_each_of_its_fields(name: str) -> None:
    assert compared.place_of(name).field in text_of(DCGM)
