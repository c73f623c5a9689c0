from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class ReportEvent(_message.Message):
        __slots__ = ("report_id", "ts", "schedule", "report", "subject", "period_start", "period_end", "state", "target", "attempt", "why", "bytes", "url", "title")
        REPORT_ID_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        SCHEDULE_FIELD_NUMBER: _ClassVar[int]
        REPORT_FIELD_NUMBER: _ClassVar[int]
        SUBJECT_FIELD_NUMBER: _ClassVar[int]
        PERIOD_START_FIELD_NUMBER: _ClassVar[int]
        PERIOD_END_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        TARGET_FIELD_NUMBER: _ClassVar[int]
        ATTEMPT_FIELD_NUMBER: _ClassVar[int]
        WHY_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        URL_FIELD_NUMBER: _ClassVar[int]
        TITLE_FIELD_NUMBER: _ClassVar[int]
        report_id: str
        ts: float
        schedule: str
        report: str
        subject: str
        period_start: float
        period_end: float
        state: str
        target: str
        attempt: int
        why: str
        bytes: int
        url: str
        title: str
        def __init__(self, report_id: _Optional[str] = ..., ts: _Optional[float] = ..., schedule: _Optional[str] = ..., report: _Optional[str] = ..., subject: _Optional[str] = ..., period_start: _Optional[float] = ..., period_end: _Optional[float] = ..., state: _Optional[str] = ..., target: _Optional[str] = ..., attempt: _Optional[int] = ..., why: _Optional[str] = ..., bytes: _Optional[int] = ..., url: _Optional[str] = ..., title: _Optional[str] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.ReportEvent]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.ReportEvent, _Mapping]]] = ...) -> None: ...
