from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class AlertWord(_message.Message):
        __slots__ = ("subject", "ts", "action", "said_by", "matchers", "starts_at", "ends_at", "comment")
        class MatchersEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        SUBJECT_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        ACTION_FIELD_NUMBER: _ClassVar[int]
        SAID_BY_FIELD_NUMBER: _ClassVar[int]
        MATCHERS_FIELD_NUMBER: _ClassVar[int]
        STARTS_AT_FIELD_NUMBER: _ClassVar[int]
        ENDS_AT_FIELD_NUMBER: _ClassVar[int]
        COMMENT_FIELD_NUMBER: _ClassVar[int]
        subject: str
        ts: float
        action: str
        said_by: str
        matchers: _containers.ScalarMap[str, str]
        starts_at: float
        ends_at: float
        comment: str
        def __init__(self, subject: _Optional[str] = ..., ts: _Optional[float] = ..., action: _Optional[str] = ..., said_by: _Optional[str] = ..., matchers: _Optional[_Mapping[str, str]] = ..., starts_at: _Optional[float] = ..., ends_at: _Optional[float] = ..., comment: _Optional[str] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.AlertWord]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.AlertWord, _Mapping]]] = ...) -> None: ...
