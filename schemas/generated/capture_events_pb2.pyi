from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class CaptureEvent(_message.Message):
        __slots__ = ("capture_id", "ts", "sequence", "state", "reason", "why", "by", "host", "pid", "rank", "job_id", "start_at", "traced_from", "traced_until", "url", "bytes", "raw_bytes", "sha256", "clock_skew_ms", "slowdown_permille", "step_count", "step_us")
        CAPTURE_ID_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        WHY_FIELD_NUMBER: _ClassVar[int]
        BY_FIELD_NUMBER: _ClassVar[int]
        HOST_FIELD_NUMBER: _ClassVar[int]
        PID_FIELD_NUMBER: _ClassVar[int]
        RANK_FIELD_NUMBER: _ClassVar[int]
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        START_AT_FIELD_NUMBER: _ClassVar[int]
        TRACED_FROM_FIELD_NUMBER: _ClassVar[int]
        TRACED_UNTIL_FIELD_NUMBER: _ClassVar[int]
        URL_FIELD_NUMBER: _ClassVar[int]
        BYTES_FIELD_NUMBER: _ClassVar[int]
        RAW_BYTES_FIELD_NUMBER: _ClassVar[int]
        SHA256_FIELD_NUMBER: _ClassVar[int]
        CLOCK_SKEW_MS_FIELD_NUMBER: _ClassVar[int]
        SLOWDOWN_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        STEP_COUNT_FIELD_NUMBER: _ClassVar[int]
        STEP_US_FIELD_NUMBER: _ClassVar[int]
        capture_id: str
        ts: float
        sequence: int
        state: str
        reason: str
        why: str
        by: str
        host: str
        pid: int
        rank: int
        job_id: str
        start_at: float
        traced_from: float
        traced_until: float
        url: str
        bytes: int
        raw_bytes: int
        sha256: str
        clock_skew_ms: int
        slowdown_permille: int
        step_count: int
        step_us: int
        def __init__(self, capture_id: _Optional[str] = ..., ts: _Optional[float] = ..., sequence: _Optional[int] = ..., state: _Optional[str] = ..., reason: _Optional[str] = ..., why: _Optional[str] = ..., by: _Optional[str] = ..., host: _Optional[str] = ..., pid: _Optional[int] = ..., rank: _Optional[int] = ..., job_id: _Optional[str] = ..., start_at: _Optional[float] = ..., traced_from: _Optional[float] = ..., traced_until: _Optional[float] = ..., url: _Optional[str] = ..., bytes: _Optional[int] = ..., raw_bytes: _Optional[int] = ..., sha256: _Optional[str] = ..., clock_skew_ms: _Optional[int] = ..., slowdown_permille: _Optional[int] = ..., step_count: _Optional[int] = ..., step_us: _Optional[int] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.CaptureEvent]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.CaptureEvent, _Mapping]]] = ...) -> None: ...
