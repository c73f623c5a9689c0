from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class CaptureSchedule(_message.Message):
        __slots__ = ("name", "ts", "action", "set_by", "cron", "every_s", "at", "timezone", "jitter_s", "late_s", "job_id", "hosts", "where", "process_limit", "duration_ms", "iterations", "count", "shapes", "memory", "stacks", "flops", "modules")
        NAME_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        ACTION_FIELD_NUMBER: _ClassVar[int]
        SET_BY_FIELD_NUMBER: _ClassVar[int]
        CRON_FIELD_NUMBER: _ClassVar[int]
        EVERY_S_FIELD_NUMBER: _ClassVar[int]
        AT_FIELD_NUMBER: _ClassVar[int]
        TIMEZONE_FIELD_NUMBER: _ClassVar[int]
        JITTER_S_FIELD_NUMBER: _ClassVar[int]
        LATE_S_FIELD_NUMBER: _ClassVar[int]
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        HOSTS_FIELD_NUMBER: _ClassVar[int]
        WHERE_FIELD_NUMBER: _ClassVar[int]
        PROCESS_LIMIT_FIELD_NUMBER: _ClassVar[int]
        DURATION_MS_FIELD_NUMBER: _ClassVar[int]
        ITERATIONS_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        SHAPES_FIELD_NUMBER: _ClassVar[int]
        MEMORY_FIELD_NUMBER: _ClassVar[int]
        STACKS_FIELD_NUMBER: _ClassVar[int]
        FLOPS_FIELD_NUMBER: _ClassVar[int]
        MODULES_FIELD_NUMBER: _ClassVar[int]
        name: str
        ts: float
        action: str
        set_by: str
        cron: str
        every_s: float
        at: str
        timezone: str
        jitter_s: float
        late_s: float
        job_id: str
        hosts: _containers.RepeatedScalarFieldContainer[str]
        where: str
        process_limit: int
        duration_ms: int
        iterations: int
        count: int
        shapes: bool
        memory: bool
        stacks: bool
        flops: bool
        modules: bool
        def __init__(self, name: _Optional[str] = ..., ts: _Optional[float] = ..., action: _Optional[str] = ..., set_by: _Optional[str] = ..., cron: _Optional[str] = ..., every_s: _Optional[float] = ..., at: _Optional[str] = ..., timezone: _Optional[str] = ..., jitter_s: _Optional[float] = ..., late_s: _Optional[float] = ..., job_id: _Optional[str] = ..., hosts: _Optional[_Iterable[str]] = ..., where: _Optional[str] = ..., process_limit: _Optional[int] = ..., duration_ms: _Optional[int] = ..., iterations: _Optional[int] = ..., count: _Optional[int] = ..., shapes: _Optional[bool] = ..., memory: _Optional[bool] = ..., stacks: _Optional[bool] = ..., flops: _Optional[bool] = ..., modules: _Optional[bool] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.CaptureSchedule]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.CaptureSchedule, _Mapping]]] = ...) -> None: ...
