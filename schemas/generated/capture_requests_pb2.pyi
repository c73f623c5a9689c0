from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class CaptureRequest(_message.Message):
        __slots__ = ("capture_id", "ts", "action", "requested_by", "name", "job_id", "hosts", "pids", "where", "process_limit", "duration_ms", "iterations", "iteration_roundup", "warmup_s", "warmup_iterations", "shapes", "memory", "stacks", "flops", "modules", "activities", "mode", "count", "interval_s", "max_count", "max_bytes", "max_seconds", "max_slowdown_permille")
        CAPTURE_ID_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        ACTION_FIELD_NUMBER: _ClassVar[int]
        REQUESTED_BY_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        HOSTS_FIELD_NUMBER: _ClassVar[int]
        PIDS_FIELD_NUMBER: _ClassVar[int]
        WHERE_FIELD_NUMBER: _ClassVar[int]
        PROCESS_LIMIT_FIELD_NUMBER: _ClassVar[int]
        DURATION_MS_FIELD_NUMBER: _ClassVar[int]
        ITERATIONS_FIELD_NUMBER: _ClassVar[int]
        ITERATION_ROUNDUP_FIELD_NUMBER: _ClassVar[int]
        WARMUP_S_FIELD_NUMBER: _ClassVar[int]
        WARMUP_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
        SHAPES_FIELD_NUMBER: _ClassVar[int]
        MEMORY_FIELD_NUMBER: _ClassVar[int]
        STACKS_FIELD_NUMBER: _ClassVar[int]
        FLOPS_FIELD_NUMBER: _ClassVar[int]
        MODULES_FIELD_NUMBER: _ClassVar[int]
        ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
        MODE_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
        MAX_COUNT_FIELD_NUMBER: _ClassVar[int]
        MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
        MAX_SECONDS_FIELD_NUMBER: _ClassVar[int]
        MAX_SLOWDOWN_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        capture_id: str
        ts: float
        action: str
        requested_by: str
        name: str
        job_id: str
        hosts: _containers.RepeatedScalarFieldContainer[str]
        pids: _containers.RepeatedScalarFieldContainer[int]
        where: str
        process_limit: int
        duration_ms: int
        iterations: int
        iteration_roundup: int
        warmup_s: int
        warmup_iterations: int
        shapes: bool
        memory: bool
        stacks: bool
        flops: bool
        modules: bool
        activities: _containers.RepeatedScalarFieldContainer[str]
        mode: str
        count: int
        interval_s: int
        max_count: int
        max_bytes: int
        max_seconds: int
        max_slowdown_permille: int
        def __init__(self, capture_id: _Optional[str] = ..., ts: _Optional[float] = ..., action: _Optional[str] = ..., requested_by: _Optional[str] = ..., name: _Optional[str] = ..., job_id: _Optional[str] = ..., hosts: _Optional[_Iterable[str]] = ..., pids: _Optional[_Iterable[int]] = ..., where: _Optional[str] = ..., process_limit: _Optional[int] = ..., duration_ms: _Optional[int] = ..., iterations: _Optional[int] = ..., iteration_roundup: _Optional[int] = ..., warmup_s: _Optional[int] = ..., warmup_iterations: _Optional[int] = ..., shapes: _Optional[bool] = ..., memory: _Optional[bool] = ..., stacks: _Optional[bool] = ..., flops: _Optional[bool] = ..., modules: _Optional[bool] = ..., activities: _Optional[_Iterable[str]] = ..., mode: _Optional[str] = ..., count: _Optional[int] = ..., interval_s: _Optional[int] = ..., max_count: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_seconds: _Optional[int] = ..., max_slowdown_permille: _Optional[int] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.CaptureRequest]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.CaptureRequest, _Mapping]]] = ...) -> None: ...
