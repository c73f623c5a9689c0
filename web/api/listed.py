"""Captures as the API shows them."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field


class Capture(BaseModel):
    """A capture. `captured` of `processes` have a trace in the store; `why` says what came of it when it has ended."""

    capture_id: str = Field(examples=["20260131T120000-1a2b3c"])
    name: str = Field(examples=["slow step"])
    requested_by: str = Field(examples=["ann"])
    requested_at: datetime
    state: Literal["requested", "running", "ended", "lost"] = Field(
        description="requested: no scheduler has taken it yet; lost: it should have ended, and nobody says so."
    )
    reason: str = Field(description="Empty where it ended as it should; a word of docs/profiling.md.", examples=[""])
    why: str = Field(examples=["8 of 8 processes captured"])
    summary: str = Field(
        "",
        description="How it stands, in a line; of one capture alone.",
        examples=["2 captured, 2 of 8 processes done"],
    )
    job_id: str = Field(examples=["4711"])
    mode: str = Field(examples=["trace"])
    begun_at: datetime | None
    ended_at: datetime | None
    rounds: int = Field(examples=[1])
    hosts: list[str] = Field(examples=[["gpu-0001"]])
    processes: int = Field(examples=[8])
    captured: int = Field(examples=[8])
    analysed: int = Field(examples=[8])
    failed: int = Field(examples=[0])
    hosts_failed: list[str] = Field(examples=[[]])
    clocks_off: list[str] = Field(description="Hosts whose clocks are off.", examples=[[]])
    bytes: int | None = Field(description="Of its traces in the store.", examples=[52_428_800])
    duration_ms: int = Field(examples=[2000])
    iterations: int = Field(examples=[0])
    count: int = Field(examples=[1])
    interval_s: int = Field(examples=[0])
    shapes: bool
    memory: bool
    stacks: bool
    flops: bool
    modules: bool
    max_count: int
    max_bytes: int
    max_seconds: int
    asked_hosts: list[str]
    pids: list[int]
    condition: str = Field(description="On the view jobs, of schedules.", examples=[""])


class CapturePage(BaseModel):
    """A page of captures."""

    data: list[Capture]
    total: int = Field(examples=[1])
    next: int | None = Field(examples=[None])


class Process(BaseModel):
    """A process in a round of a capture, or (`pid` null) a host where none could be asked."""

    sequence: int = Field(description="The round, from 1.", examples=[1])
    host: str = Field(examples=["gpu-0001"])
    pid: int | None = Field(examples=[31337])
    rank: int | None = Field(examples=[0])
    job_id: str = Field(examples=["4711"])
    state: str = Field(
        description="requested, seen, accepted, started, captured, analysed, failed, cancelled", examples=["captured"]
    )
    reason: str = Field(description="A word of docs/profiling.md.", examples=["busy"])
    meaning: str = Field(
        description="What that word means.",
        examples=["it traces already, for another capture or by a profiler in its own code"],
    )
    why: str = Field(description="What happened and what to do.", examples=[""])
    clock: str = Field(description="A warning about the clock of its host.", examples=[""])
    start_at: datetime | None
    traced_from: datetime | None
    traced_until: datetime | None
    stored: bool = Field(description="Its trace is in the store: /traces/{capture}/file has it.")
    bytes: int | None = Field(examples=[6_553_600])
    raw_bytes: int | None = Field(description="As PyTorch wrote it.", examples=[131_072_000])
    slowdown_permille: int | None = Field(description="Steps a second lost while capturing.", examples=[None])


class ProcessPage(BaseModel):
    """Processes of a capture, and the capture itself: one answer is of one moment."""

    capture: Capture
    states: dict[str, int] = Field(
        description="How many are in each state, of all rounds.", examples=[{"captured": 7, "failed": 1}]
    )
    data: list[Process]
    total: int = Field(examples=[8])
    next: int | None = Field(examples=[None])


class Candidate(BaseModel):
    """A process of a job, and whether it can be traced now."""

    host: str = Field(examples=["gpu-0001"])
    pid: int | None = Field(examples=[31337])
    rank: int | None = Field(examples=[0])
    ready: bool
    reason: str = Field(description="Empty when it can; a word of docs/profiling.md.", examples=["missing_variables"])
    meaning: str = Field(
        description="What that word means.",
        examples=["it was started without a variable that makes PyTorch ask for captures"],
    )
    why: str = Field(
        description="What stands between, and what to do.",
        examples=["process 31337 was started without KINETO_USE_DAEMON=1"],
    )


class Profilable(BaseModel):
    """Whether the processes of a job can be traced, as their agents say now."""

    job_id: str = Field(examples=["4711"])
    running: bool = Field(description="Some host runs it.")
    why: str = Field(description="In a line.", examples=["7 of 8 processes can be traced"])
    ready: int = Field(examples=[7])
    total: int = Field(examples=[8])
    hosts: int = Field(examples=[1])
    silent: int = Field(description="Hosts whose agent did not answer.", examples=[0])
    data: list[Candidate]
