"""Data sheets: names as drivers give them find theirs, and no peak is one with sparsity."""

from pathlib import Path

import pytest

from warpmeter.analysis.sheets import TYPES, sheet, sheets


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("Tesla V100-SXM2-32GB", "V100 SXM2"),
        ("Tesla V100-PCIE-16GB", "V100 PCIe"),
        ("Tesla V100S-PCIE-32GB", "V100S PCIe"),
        ("Tesla T4", "T4"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("NVIDIA A100-PG509-200", "A100 SXM4 40GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA H100 NVL", "H100 NVL"),
        ("H100", "H100 SXM5"),
        ("NVIDIA H200", "H200 SXM"),
        ("NVIDIA H200 NVL", "H200 NVL"),
        ("NVIDIA GH200 480GB", "GH200 96GB"),
        ("NVIDIA GH200 144G HBM3e", "GH200 144GB"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA GB200", "GB200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("AMD Instinct MI250X / MI250", "MI250X, one die"),
        ("AMD Instinct MI250", "MI250, one die"),
        ("AMD Instinct MI300X", "MI300X"),
        ("AMD Instinct MI325X", "MI325X"),
        ("AMD Instinct MI355X", "MI355X"),
    ],
)
def test_drivers_names_find_their_sheets(device: str, name: str) -> None:
    found = sheet(device)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "device",
    [
        "",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce GTX 1080",
        "NVIDIA H20",
        "AMD Radeon Graphics",
        "Intel(R) Data Center GPU Max 1550",
    ],
)
def test_what_is_not_in_the_table_or_a_part_of_a_device_has_none(device: str) -> None:
    assert sheet(device) is None


def test_figures_that_everybody_knows() -> None:
    h100 = sheet("NVIDIA H100 80GB HBM3")
    assert h100 is not None
    # 989 teraflops dense; the 1,979 of the sheet's large print are with sparsity.
    assert h100.peak_flops_per_s["bf16"] == 989.4e12
    assert h100.peak_flops_per_s["tf32"] == 494.7e12
    assert h100.peak_flops_per_s["fp8"] == 1978.9e12
    assert h100.memory_bytes_per_s == 3352e9
    assert h100.link_bytes_per_s == 450e9
    a100 = sheet("NVIDIA A100-SXM4-80GB")
    assert a100 is not None
    assert (a100.peak_flops_per_s["bf16"], a100.peak_flops_per_s["tf32"]) == (312e12, 156e12)
    assert "fp8" not in a100.peak_flops_per_s
    v100 = sheet("Tesla V100-SXM2-32GB")
    assert v100 is not None
    assert {"tf32", "bf16"}.isdisjoint(v100.peak_flops_per_s)


def test_all_rows_are_sound() -> None:
    """Halving a number's bits never slows matrix units down, and no two rows share a name."""
    rows = sheets()
    assert len({row.name for row in rows}) == len(rows)
    for row in rows:
        peaks = row.peak_flops_per_s
        assert set(peaks) <= set(TYPES)
        assert row.source
        assert row.memory_bytes_per_s > 0
        assert peaks["fp16"] > peaks["fp32"]
        assert peaks.get("fp8", peaks["fp16"]) >= peaks["fp16"]
        assert peaks.get("tf32", 0) <= peaks["fp16"]
        # With sparsity FP16 would be four times TF32 or more on every row that has both.
        assert "tf32" not in peaks or peaks["fp16"] <= 2.1 * peaks["tf32"]


def test_the_document_names_all_devices() -> None:
    text = Path(__file__).parents[2].joinpath("docs/analysis.md").read_text()
    listed = text[text.index("**The peak.**") :].split("sources are in")[0].replace("\n", " ")
    missing = [
        row.name for row in sheets() if row.name.split(",")[0].split()[-1] not in listed.replace(",", " ").split()
    ]
    assert [name for name in missing if name.split()[0] not in listed] == []
