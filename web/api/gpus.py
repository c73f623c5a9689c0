"""GPUs and MIG instances with their latest values."""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, Field

from warpmeter.web.request import paging
from warpmeter.web.request.access import Viewer
from warpmeter.web.request.context import Asking
from warpmeter.web.request.known import host_or_404
from warpmeter.web.request.paging import Page
from warpmeter.web.store.answers import Answers, told

router = APIRouter(tags=["gpus"])

Status = Literal["busy", "idle", "failing", "gone"]


class Gpu(BaseModel):
    """A GPU or MIG instance with its latest values; null is what is not known."""

    host: str = Field(examples=["gpu-0001"])
    gpu: int = Field(description="NVML's index on its host; MIG instances have their GPU's.")
    uuid: str = Field(examples=["GPU-36f2c06c-7b76-43b8-bc36-06d51346e315"])
    model: str = Field(examples=["NVIDIA H100 80GB HBM3"])
    state: Literal["ok", "gone", "silent"] = Field(description="gone: its host says so; silent: nobody says anything.")
    why: str
    first_seen_at: str
    last_seen_at: str
    period_ms: int = Field(description="How often it is sampled.")
    job_ids: list[str]
    gpu_util: float | None
    sm_active: float | None
    tensor_active: float | None
    dram_active: float | None
    fb_used_bytes: int | None
    fb_total_bytes: int | None
    power_watts: float | None
    power_limit_watts: float | None
    temperature_celsius: int | None
    throttle_reasons: int | None
    throttled_by: list[str]
    ecc_uncorrected_errors: int | None
    processes: int | None
    idle_since: str | None = Field(description="Set while it is idle.")
    xids: list[int] = Field(description="XIDs that stand.")
    problems: list[str] = Field(
        description="What somebody must look at: XIDs, memory errors, what harms and holds its clocks down.",
        examples=[["XID 48", "hw_thermal_slowdown"]],
    )
    status: Status


class Gpus(BaseModel):
    """A page of GPUs."""

    data: list[Gpu]
    total: int
    next: int | None = Field(description="Offset of the page after; null on the last.")


SORTABLE: Final = tuple(
    name for name in Gpu.model_fields if name not in ("job_ids", "throttled_by", "xids", "problems")
)


@router.get("/gpus", response_class=Response, responses=told(Gpus, named=True))
def gpus(
    _: Viewer, reads: Asking, answers: Answers, page: Annotated[Page, Depends(paging.by(SORTABLE, "host"))],
    host: Annotated[str, Query(max_length=400, description="Of this host alone.")] = "",
    job: Annotated[str, Query(max_length=400, description="Held by this job now.")] = "",
    status: Annotated[Status | None, Query(description="In this state alone.")] = None,
    search: Annotated[str, Query(max_length=400, description="In host, uuid or model.")] = "",
) -> Response:  # fmt: skip
    """GPUs as they are now."""
    given = {"host": host, "job_id": job, "status": status or "", "search": search}
    data, total = paging.page_of(reads, "gpus_listed", page, **given)
    if host and not total:
        host_or_404(reads, host, "query")
    return answers.json(paging.answer(data, total, page))
