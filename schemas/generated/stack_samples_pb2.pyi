from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class StackSample(_message.Message):
        __slots__ = ("host", "ts", "period_ms", "sampled_ms", "source", "job_id", "rank", "pid", "process", "tid", "thread", "stack", "frames", "samples", "weight", "unit")
        HOST_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        PERIOD_MS_FIELD_NUMBER: _ClassVar[int]
        SAMPLED_MS_FIELD_NUMBER: _ClassVar[int]
        SOURCE_FIELD_NUMBER: _ClassVar[int]
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        RANK_FIELD_NUMBER: _ClassVar[int]
        PID_FIELD_NUMBER: _ClassVar[int]
        PROCESS_FIELD_NUMBER: _ClassVar[int]
        TID_FIELD_NUMBER: _ClassVar[int]
        THREAD_FIELD_NUMBER: _ClassVar[int]
        STACK_FIELD_NUMBER: _ClassVar[int]
        FRAMES_FIELD_NUMBER: _ClassVar[int]
        SAMPLES_FIELD_NUMBER: _ClassVar[int]
        WEIGHT_FIELD_NUMBER: _ClassVar[int]
        UNIT_FIELD_NUMBER: _ClassVar[int]
        host: str
        ts: float
        period_ms: int
        sampled_ms: int
        source: str
        job_id: str
        rank: int
        pid: int
        process: str
        tid: int
        thread: str
        stack: int
        frames: _containers.RepeatedScalarFieldContainer[str]
        samples: int
        weight: int
        unit: str
        def __init__(self, host: _Optional[str] = ..., ts: _Optional[float] = ..., period_ms: _Optional[int] = ..., sampled_ms: _Optional[int] = ..., source: _Optional[str] = ..., job_id: _Optional[str] = ..., rank: _Optional[int] = ..., pid: _Optional[int] = ..., process: _Optional[str] = ..., tid: _Optional[int] = ..., thread: _Optional[str] = ..., stack: _Optional[int] = ..., frames: _Optional[_Iterable[str]] = ..., samples: _Optional[int] = ..., weight: _Optional[int] = ..., unit: _Optional[str] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.StackSample]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.StackSample, _Mapping]]] = ...) -> None: ...
