from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class Alert(_message.Message):
        __slots__ = ("alert_id", "ts", "rule", "severity", "state", "fingerprint", "labels", "summary", "description", "value", "unit", "started_at", "fired_at", "resolved_at", "flapping", "silenced_by", "acknowledged_by", "capture_id", "findings")
        class LabelsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        ALERT_ID_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        RULE_FIELD_NUMBER: _ClassVar[int]
        SEVERITY_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
        LABELS_FIELD_NUMBER: _ClassVar[int]
        SUMMARY_FIELD_NUMBER: _ClassVar[int]
        DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        UNIT_FIELD_NUMBER: _ClassVar[int]
        STARTED_AT_FIELD_NUMBER: _ClassVar[int]
        FIRED_AT_FIELD_NUMBER: _ClassVar[int]
        RESOLVED_AT_FIELD_NUMBER: _ClassVar[int]
        FLAPPING_FIELD_NUMBER: _ClassVar[int]
        SILENCED_BY_FIELD_NUMBER: _ClassVar[int]
        ACKNOWLEDGED_BY_FIELD_NUMBER: _ClassVar[int]
        CAPTURE_ID_FIELD_NUMBER: _ClassVar[int]
        FINDINGS_FIELD_NUMBER: _ClassVar[int]
        alert_id: str
        ts: float
        rule: str
        severity: str
        state: str
        fingerprint: str
        labels: _containers.ScalarMap[str, str]
        summary: str
        description: str
        value: float
        unit: str
        started_at: float
        fired_at: float
        resolved_at: float
        flapping: bool
        silenced_by: str
        acknowledged_by: str
        capture_id: str
        findings: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, alert_id: _Optional[str] = ..., ts: _Optional[float] = ..., rule: _Optional[str] = ..., severity: _Optional[str] = ..., state: _Optional[str] = ..., fingerprint: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., summary: _Optional[str] = ..., description: _Optional[str] = ..., value: _Optional[float] = ..., unit: _Optional[str] = ..., started_at: _Optional[float] = ..., fired_at: _Optional[float] = ..., resolved_at: _Optional[float] = ..., flapping: _Optional[bool] = ..., silenced_by: _Optional[str] = ..., acknowledged_by: _Optional[str] = ..., capture_id: _Optional[str] = ..., findings: _Optional[_Iterable[str]] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.Alert]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.Alert, _Mapping]]] = ...) -> None: ...
