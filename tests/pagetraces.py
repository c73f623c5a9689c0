"""A trace with everything that the report can show, for its tests."""

from typing import Any, Final

from tests.tracebuilder import TraceBuilder

HOSTILE: Final = "</script><script>window.taken = 1</script><img src=x onerror='window.taken = 1'>\"&{{ 7 * 7 }}"


def training(*, rank: int, name: str = "sm90_xmma_gemm_bf16bf16_bf16f32") -> TraceBuilder:
    """Three steps of one of two ranks: stacks, shapes, a collective, copies, memory, waits, 20 small kernels."""
    builder = TraceBuilder()
    builder.device(0, "NVIDIA H100 80GB HBM3", totalGlobalMem=85_000_000_000, numSms=132)
    group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}
    builder.distributed(rank, 2, [group])
    builder.name(thread=0, text="main")
    for i in range(3):
        _step(builder, i, 1_000_000 * i, name)
    return builder


def _step(builder: TraceBuilder, number: int, at: int, name: str) -> None:
    builder.step(number, at, 990_000)
    builder.frame("train.py(1): main", at + 100, 900_000, id=10 * number + 1)
    builder.frame("nn.Module: Linear_0", at + 200, 300_000, id=10 * number + 2, parent=10 * number + 1)
    dims = [[4096, 1024], [1024, 4096]]
    builder.operator("aten::mm", at + 1_000, 50_000, dims=dims, types=["c10::BFloat16", "c10::BFloat16"])
    builder.launch(name, (at + 2_000, 5_000), (at + 9_000, 60_000))
    builder.memory(at + 1_500, 1 << 20, address=7, allocated=(1 << 30) + (1 << 20), reserved=1 << 31)
    builder.memory(at + 800_000, -(1 << 20), address=7, allocated=1 << 30, reserved=1 << 31)
    builder.operator("record_param_comms", at + 60_000, 20_000)
    told: dict[str, Any] = {
        "collective": "allreduce",
        "dtype": "Float",
        "group": "0",
        "group_description": "default_pg",
        "group_size": 2,
        "group_ranks": "[0, 1]",
    }
    told |= {"in_elements": 1 << 20, "out_elements": 1 << 20}
    builder.launch("ncclDevKernel_AllReduce", (at + 62_000, 5_000), (at + 70_000, 90_000), stream=9, **told)
    copied = builder.call("cudaMemcpyAsync", at + 100_000, 4_000)
    builder.copy(at + 170_000, 30_000, bytes=1 << 24, correlation=copied)
    for i in range(20):
        builder.launch(f"small_{i}", (at + 200_000 + 9_000 * i, 4_000), (at + 210_000 + 9_000 * i, 700))
    builder.call("cudaDeviceSynchronize", at + 500_000, 300_000)
