from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class DeadLetter(_message.Message):
        __slots__ = ("topic", "topic_uuid", "partition", "offset", "ts", "reason", "key", "value", "headers")
        class HeadersEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        TOPIC_FIELD_NUMBER: _ClassVar[int]
        TOPIC_UUID_FIELD_NUMBER: _ClassVar[int]
        PARTITION_FIELD_NUMBER: _ClassVar[int]
        OFFSET_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        HEADERS_FIELD_NUMBER: _ClassVar[int]
        topic: str
        topic_uuid: str
        partition: int
        offset: int
        ts: float
        reason: str
        key: bytes
        value: bytes
        headers: _containers.ScalarMap[str, str]
        def __init__(self, topic: _Optional[str] = ..., topic_uuid: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., ts: _Optional[float] = ..., reason: _Optional[str] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., headers: _Optional[_Mapping[str, str]] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.DeadLetter]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.DeadLetter, _Mapping]]] = ...) -> None: ...
