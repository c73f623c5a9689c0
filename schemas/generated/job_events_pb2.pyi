from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class JobEvent(_message.Message):
        __slots__ = ("host", "ts", "period_ms", "job_id", "event", "name", "command", "user", "scheduler", "pid", "started_at", "rank", "world_size", "tree_id", "labels", "processes", "cpu_cores_milli", "rss_mebibytes", "read_bytes", "written_bytes", "gpu_memory_mebibytes", "gpus", "gpu_uuids", "ranks", "local_ranks", "rank_pids")
        class LabelsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        HOST_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        PERIOD_MS_FIELD_NUMBER: _ClassVar[int]
        JOB_ID_FIELD_NUMBER: _ClassVar[int]
        EVENT_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        COMMAND_FIELD_NUMBER: _ClassVar[int]
        USER_FIELD_NUMBER: _ClassVar[int]
        SCHEDULER_FIELD_NUMBER: _ClassVar[int]
        PID_FIELD_NUMBER: _ClassVar[int]
        STARTED_AT_FIELD_NUMBER: _ClassVar[int]
        RANK_FIELD_NUMBER: _ClassVar[int]
        WORLD_SIZE_FIELD_NUMBER: _ClassVar[int]
        TREE_ID_FIELD_NUMBER: _ClassVar[int]
        LABELS_FIELD_NUMBER: _ClassVar[int]
        PROCESSES_FIELD_NUMBER: _ClassVar[int]
        CPU_CORES_MILLI_FIELD_NUMBER: _ClassVar[int]
        RSS_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        READ_BYTES_FIELD_NUMBER: _ClassVar[int]
        WRITTEN_BYTES_FIELD_NUMBER: _ClassVar[int]
        GPU_MEMORY_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        GPUS_FIELD_NUMBER: _ClassVar[int]
        GPU_UUIDS_FIELD_NUMBER: _ClassVar[int]
        RANKS_FIELD_NUMBER: _ClassVar[int]
        LOCAL_RANKS_FIELD_NUMBER: _ClassVar[int]
        RANK_PIDS_FIELD_NUMBER: _ClassVar[int]
        host: str
        ts: float
        period_ms: int
        job_id: str
        event: str
        name: str
        command: str
        user: str
        scheduler: str
        pid: int
        started_at: float
        rank: int
        world_size: int
        tree_id: str
        labels: _containers.ScalarMap[str, str]
        processes: int
        cpu_cores_milli: int
        rss_mebibytes: int
        read_bytes: int
        written_bytes: int
        gpu_memory_mebibytes: int
        gpus: _containers.RepeatedScalarFieldContainer[int]
        gpu_uuids: _containers.RepeatedScalarFieldContainer[str]
        ranks: _containers.RepeatedScalarFieldContainer[int]
        local_ranks: _containers.RepeatedScalarFieldContainer[int]
        rank_pids: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, host: _Optional[str] = ..., ts: _Optional[float] = ..., period_ms: _Optional[int] = ..., job_id: _Optional[str] = ..., event: _Optional[str] = ..., name: _Optional[str] = ..., command: _Optional[str] = ..., user: _Optional[str] = ..., scheduler: _Optional[str] = ..., pid: _Optional[int] = ..., started_at: _Optional[float] = ..., rank: _Optional[int] = ..., world_size: _Optional[int] = ..., tree_id: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., processes: _Optional[int] = ..., cpu_cores_milli: _Optional[int] = ..., rss_mebibytes: _Optional[int] = ..., read_bytes: _Optional[int] = ..., written_bytes: _Optional[int] = ..., gpu_memory_mebibytes: _Optional[int] = ..., gpus: _Optional[_Iterable[int]] = ..., gpu_uuids: _Optional[_Iterable[str]] = ..., ranks: _Optional[_Iterable[int]] = ..., local_ranks: _Optional[_Iterable[int]] = ..., rank_pids: _Optional[_Iterable[int]] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.JobEvent]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.JobEvent, _Mapping]]] = ...) -> None: ...
