from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class SourceHealth(_message.Message):
        __slots__ = ("host", "ts", "period_ms", "source", "subject", "state", "seconds", "why", "count")
        HOST_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        PERIOD_MS_FIELD_NUMBER: _ClassVar[int]
        SOURCE_FIELD_NUMBER: _ClassVar[int]
        SUBJECT_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        SECONDS_FIELD_NUMBER: _ClassVar[int]
        WHY_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        host: str
        ts: float
        period_ms: int
        source: str
        subject: str
        state: str
        seconds: float
        why: str
        count: int
        def __init__(self, host: _Optional[str] = ..., ts: _Optional[float] = ..., period_ms: _Optional[int] = ..., source: _Optional[str] = ..., subject: _Optional[str] = ..., state: _Optional[str] = ..., seconds: _Optional[float] = ..., why: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.SourceHealth]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.SourceHealth, _Mapping]]] = ...) -> None: ...
