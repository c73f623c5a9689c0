from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class GpuProcess(_message.Message):
        __slots__ = ("host", "ts", "period_ms", "gpu", "uuid", "pid", "job_id", "name", "user", "mem_mebibytes", "sm_util_permille", "mem_util_permille", "encoder_util_permille", "decoder_util_permille")
        HOST_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        PERIOD_MS_FIELD_NUMBER: _ClassVar[int]
        GPU_FIELD_NUMBER: _ClassVar[int]
        UUID_FIELD_NUMBER: _ClassVar[int]
        PID_FIELD_NUMBER: _ClassVar[int]
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        USER_FIELD_NUMBER: _ClassVar[int]
        MEM_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        SM_UTIL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        MEM_UTIL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        ENCODER_UTIL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        DECODER_UTIL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        host: str
        ts: float
        period_ms: int
        gpu: int
        uuid: str
        pid: int
        job_id: str
        name: str
        user: str
        mem_mebibytes: int
        sm_util_permille: int
        mem_util_permille: int
        encoder_util_permille: int
        decoder_util_permille: int
        def __init__(self, host: _Optional[str] = ..., ts: _Optional[float] = ..., period_ms: _Optional[int] = ..., gpu: _Optional[int] = ..., uuid: _Optional[str] = ..., pid: _Optional[int] = ..., job_id: _Optional[str] = ..., name: _Optional[str] = ..., user: _Optional[str] = ..., mem_mebibytes: _Optional[int] = ..., sm_util_permille: _Optional[int] = ..., mem_util_permille: _Optional[int] = ..., encoder_util_permille: _Optional[int] = ..., decoder_util_permille: _Optional[int] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.GpuProcess]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.GpuProcess, _Mapping]]] = ...) -> None: ...
