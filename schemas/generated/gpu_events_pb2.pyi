from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class GpuEvent(_message.Message):
        __slots__ = ("host", "ts", "gpu", "uuid", "kind", "code", "what", "state", "pid", "job_ids", "why")
        HOST_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        GPU_FIELD_NUMBER: _ClassVar[int]
        UUID_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        CODE_FIELD_NUMBER: _ClassVar[int]
        WHAT_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        PID_FIELD_NUMBER: _ClassVar[int]
        JOB_IDS_FIELD_NUMBER: _ClassVar[int]
        WHY_FIELD_NUMBER: _ClassVar[int]
        host: str
        ts: float
        gpu: int
        uuid: str
        kind: str
        code: int
        what: str
        state: str
        pid: int
        job_ids: _containers.RepeatedScalarFieldContainer[str]
        why: str
        def __init__(self, host: _Optional[str] = ..., ts: _Optional[float] = ..., gpu: _Optional[int] = ..., uuid: _Optional[str] = ..., kind: _Optional[str] = ..., code: _Optional[int] = ..., what: _Optional[str] = ..., state: _Optional[str] = ..., pid: _Optional[int] = ..., job_ids: _Optional[_Iterable[str]] = ..., why: _Optional[str] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.GpuEvent]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.GpuEvent, _Mapping]]] = ...) -> None: ...
