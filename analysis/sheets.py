"""What a device can do at most, by its data sheet: dense peaks by type, memory bandwidth, link bandwidth.

Peaks are the makers' figures for dense matrix products at boost clock, with the matrix units where there are any (FP16
and BF16 with FP32 accumulation). Figures with structured sparsity, which most sheets print in large, are twice as high
and never used. A device is what the trace calls one: of an MI250X each of its two dies.
"""

import re
from dataclasses import dataclass
from typing import Final

TYPES: Final = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp4", "int8")


@dataclass(frozen=True)
class Sheet:
    """A device's data sheet.

    `peak_flops_per_s` by type, as in `TYPES` (int8: operations); what a device has no unit for is not there.
    `link_bytes_per_s` is what all its links to its neighbours (NVLink, Infinity Fabric) carry together in one
    direction, half of what most sheets print; None where it has none.
    """

    name: str
    peak_flops_per_s: dict[str, float]
    memory_bytes_per_s: float
    link_bytes_per_s: float | None
    source: str


@dataclass(frozen=True)
class _Row:
    """`pattern` is held against the device's name. Peaks in teraflops in the order of `TYPES`, bandwidths in GB/s."""

    name: str
    pattern: str
    peaks: str
    memory: float
    link: float | None
    source: str

    def sheet(self) -> Sheet:
        peaks = zip(TYPES, self.peaks.split(), strict=True)
        return Sheet(
            name=self.name,
            peak_flops_per_s={dtype: float(round(float(peak) * 1e12)) for dtype, peak in peaks if peak != "-"},
            memory_bytes_per_s=self.memory * 1e9,
            link_bytes_per_s=self.link * 1e9 if self.link is not None else None,
            source=self.source,
        )


_V100 = "NVIDIA V100 datasheet, 2020"
_T4 = "NVIDIA T4 datasheet, 2019"
_A100 = "NVIDIA A100 datasheet, 2021"
_AMPERE = "NVIDIA A10, A30 and A40 datasheets, 2021"
_A10G = "NVIDIA A10G datasheet, 2021"
_H100 = "NVIDIA H100 datasheet and architecture whitepaper, 2023"
_H200 = "NVIDIA H200 datasheet, 2024"
_GH200 = "NVIDIA GH200 datasheet, 2024"
_ADA = "NVIDIA L4, L40 and L40S datasheets, 2023"
_HGX = "NVIDIA HGX B200 and B300 specifications, 2025"
_NVL72 = "NVIDIA GB200 and GB300 NVL72 specifications, 2025"
_RTX = "NVIDIA RTX A6000 and RTX 6000 Ada datasheets"
_GEFORCE = "NVIDIA GA102, AD102 and Blackwell RTX architecture whitepapers"
_MI100 = "AMD Instinct MI100 data sheet, 2020"
_MI200 = "AMD Instinct MI210, MI250 and MI250X data sheets, 2022"
_MI300 = "AMD Instinct MI300A, MI300X and MI325X data sheets, 2024"
_MI350 = "AMD Instinct MI350X and MI355X data sheets, 2025"

_TABLE: Final = (
    #                                            fp64 fp32 tf32 fp16 bf16 fp8 fp4 int8             GB/s  link
    _Row("V100S PCIe", r"V100S", "8.2 16.4 - 130 - - - -", 1134, None, _V100),
    _Row("V100 PCIe", r"V100-(PCIE|FHHL)", "7 14 - 112 - - - -", 900, None, _V100),
    _Row("V100 SXM2", r"\bV100", "7.8 15.7 - 125 - - - -", 900, 150, _V100),
    _Row("T4", r"\bT4\b", "- 8.1 - 65 - - - 130", 320, None, _T4),
    _Row("A800 PCIe", r"\bA800.*PCIE", "19.5 19.5 156 312 312 - - 624", 1935, 200, _A100),
    _Row("A800 SXM4", r"\bA800-SXM", "19.5 19.5 156 312 312 - - 624", 2039, 200, _A100),
    _Row("A100 PCIe 80GB", r"\bA100.*80GB.*PCIE", "19.5 19.5 156 312 312 - - 624", 1935, 300, _A100),
    _Row("A100 PCIe 40GB", r"\bA100.*PCIE", "19.5 19.5 156 312 312 - - 624", 1555, 300, _A100),
    _Row("A100 SXM4 80GB", r"\bA100.*80GB", "19.5 19.5 156 312 312 - - 624", 2039, 300, _A100),
    _Row("A100 SXM4 40GB", r"\bA100", "19.5 19.5 156 312 312 - - 624", 1555, 300, _A100),
    _Row("A10G", r"\bA10G\b", "- 31.5 35 70 70 - - 140", 600, None, _A10G),
    _Row("A10", r"\bA10\b", "- 31.2 62.5 125 125 - - 250", 600, None, _AMPERE),
    _Row("A30", r"\bA30\b", "10.3 10.3 82 165 165 - - 330", 933, 100, _AMPERE),
    _Row("A40", r"\bA40\b", "- 37.4 74.8 149.7 149.7 - - 299.3", 696, 56.25, _AMPERE),
    _Row("GH200 144GB", r"\bGH200.*144G", "66.9 66.9 494.7 989.4 989.4 1978.9 - 1978.9", 4900, 450, _GH200),
    _Row("GH200 96GB", r"\bGH200", "66.9 66.9 494.7 989.4 989.4 1978.9 - 1978.9", 4000, 450, _GH200),
    _Row("H200 NVL", r"\bH200 NVL", "60 60 417.5 835.5 835.5 1670.5 - 1670.5", 4800, 450, _H200),
    _Row("H200 SXM", r"\bH200", "66.9 66.9 494.7 989.4 989.4 1978.9 - 1978.9", 4800, 450, _H200),
    _Row("H100 PCIe", r"\bH100 PCIE", "51.2 51.2 378 756 756 1513 - 1513", 2039, 300, _H100),
    _Row("H100 NVL", r"\bH100 NVL", "60 60 417.5 835.5 835.5 1670.5 - 1670.5", 3938, 300, _H100),
    _Row("H100 SXM5", r"\bH100", "66.9 66.9 494.7 989.4 989.4 1978.9 - 1978.9", 3352, 450, _H100),
    _Row("GB300", r"\bGB300", "1.3 80 1250 2500 2500 5000 15000 -", 8000, 900, _NVL72),
    _Row("GB200", r"\bGB200", "40 80 1250 2500 2500 5000 10000 5000", 8000, 900, _NVL72),
    _Row("B300", r"\bB300", "1.25 75 1125 2250 2250 4500 13500 -", 8000, 900, _HGX),
    _Row("B200", r"\bB200", "37 75 1100 2250 2250 4500 9000 4500", 7700, 900, _HGX),
    _Row("L40S", r"\bL40S\b", "- 91.6 183 362 362 733 - 733", 864, None, _ADA),
    _Row("L40", r"\bL40\b", "- 90.5 90.5 181 181 362 - 362", 864, None, _ADA),
    _Row("L4", r"\bL4\b", "- 30.3 60 121 121 242.5 - 242.5", 300, None, _ADA),
    _Row("RTX 6000 Ada", r"RTX 6000 Ada", "- 91.1 182.1 364.2 364.2 728.5 - 728.5", 960, None, _RTX),
    _Row("RTX A6000", r"RTX A6000", "- 38.7 77.4 154.8 154.8 - - 309.7", 768, 56.25, _RTX),
    _Row("RTX 3090", r"RTX 3090(?! Ti)", "- 35.6 35.6 71 71 - - 284", 936, 56.25, _GEFORCE),
    _Row("RTX 4090", r"RTX 4090(?! D)", "- 82.6 82.6 165.2 165.2 330.3 - 660.6", 1008, None, _GEFORCE),
    _Row("RTX 5090", r"RTX 5090(?! D)", "- 104.8 104.8 209.5 209.5 419 1676 838", 1792, None, _GEFORCE),
    _Row("MI100", r"\bMI100\b", "11.5 46.1 - 184.6 92.3 - - 184.6", 1228.8, 138, _MI100),
    _Row("MI210", r"\bMI210\b", "45.3 45.3 - 181 181 - - 181", 1638.4, 150, _MI200),
    _Row("MI250X, one die", r"\bMI250X", "47.9 47.9 - 191.5 191.5 - - 191.5", 1638.4, 200, _MI200),
    _Row("MI250, one die", r"\bMI250\b", "45.3 45.3 - 181 181 - - 181", 1638.4, 150, _MI200),
    _Row("MI300A", r"\bMI300A\b", "122.6 122.6 490.3 980.6 980.6 1961.2 - 1961.2", 5300, 384, _MI300),
    _Row("MI300X", r"\bMI300X\b", "163.4 163.4 653.7 1307.4 1307.4 2614.9 - 2614.9", 5300, 448, _MI300),
    _Row("MI325X", r"\bMI325X\b", "163.4 163.4 653.7 1307.4 1307.4 2614.9 - 2614.9", 6000, 448, _MI300),
    _Row("MI350X", r"\bMI350X\b", "72.1 144.2 - 2306.9 2306.9 4613.7 9227.5 4613.7", 8000, 537.6, _MI350),
    _Row("MI355X", r"\bMI355X\b", "78.6 157.3 - 2516.6 2516.6 5033.2 10066.3 5033.2", 8000, 537.6, _MI350),
)
"""In the order in which patterns are tried."""


def sheet(name: str) -> Sheet | None:
    """The data sheet of a device, by the name that its driver gives ("NVIDIA H100 80GB HBM3") or people do ("H100").

    None for one that is not in the table, and for a part of one (MIG): its peaks are not those of the whole.
    """
    if re.search(r"\bMIG\b", name):
        return None
    row = next((row for row in _TABLE if re.search(row.pattern, name, re.IGNORECASE)), None)
    return row.sheet() if row is not None else None


def sheets() -> list[Sheet]:
    """All data sheets that are known."""
    return [row.sheet() for row in _TABLE]
