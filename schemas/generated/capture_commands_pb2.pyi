from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class CaptureCommand(_message.Message):
        __slots__ = ("host", "ts", "capture_id", "sequence", "action", "expires_at", "deadline_at", "job_id", "pids", "process_limit", "start_at", "duration_ms", "iterations", "iteration_roundup", "warmup_s", "warmup_iterations", "shapes", "memory", "stacks", "flops", "modules", "activities", "max_file_bytes")
        HOST_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        CAPTURE_ID_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        ACTION_FIELD_NUMBER: _ClassVar[int]
        EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
        DEADLINE_AT_FIELD_NUMBER: _ClassVar[int]
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        PIDS_FIELD_NUMBER: _ClassVar[int]
        PROCESS_LIMIT_FIELD_NUMBER: _ClassVar[int]
        START_AT_FIELD_NUMBER: _ClassVar[int]
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
        MAX_FILE_BYTES_FIELD_NUMBER: _ClassVar[int]
        host: str
        ts: float
        capture_id: str
        sequence: int
        action: str
        expires_at: float
        deadline_at: float
        job_id: str
        pids: _containers.RepeatedScalarFieldContainer[int]
        process_limit: int
        start_at: float
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
        max_file_bytes: int
        def __init__(self, host: _Optional[str] = ..., ts: _Optional[float] = ..., capture_id: _Optional[str] = ..., sequence: _Optional[int] = ..., action: _Optional[str] = ..., expires_at: _Optional[float] = ..., deadline_at: _Optional[float] = ..., job_id: _Optional[str] = ..., pids: _Optional[_Iterable[int]] = ..., process_limit: _Optional[int] = ..., start_at: _Optional[float] = ..., duration_ms: _Optional[int] = ..., iterations: _Optional[int] = ..., iteration_roundup: _Optional[int] = ..., warmup_s: _Optional[int] = ..., warmup_iterations: _Optional[int] = ..., shapes: _Optional[bool] = ..., memory: _Optional[bool] = ..., stacks: _Optional[bool] = ..., flops: _Optional[bool] = ..., modules: _Optional[bool] = ..., activities: _Optional[_Iterable[str]] = ..., max_file_bytes: _Optional[int] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.CaptureCommand]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.CaptureCommand, _Mapping]]] = ...) -> None: ...
