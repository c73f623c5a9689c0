from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class DeviceSample(_message.Message):
        __slots__ = ("host", "ts", "period_ms", "kind", "device", "rx_kilobytes_per_s", "tx_kilobytes_per_s", "rx_packets_per_s", "tx_packets_per_s", "rx_errors_milli_per_s", "tx_errors_milli_per_s", "rx_drops_milli_per_s", "tx_drops_milli_per_s", "link_megabits_per_s", "link_up", "read_kilobytes_per_s", "write_kilobytes_per_s", "reads_milli_per_s", "writes_milli_per_s", "busy_permille", "queue_centi", "read_latency_microseconds", "write_latency_microseconds")
        HOST_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        PERIOD_MS_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        DEVICE_FIELD_NUMBER: _ClassVar[int]
        RX_KILOBYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
        TX_KILOBYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
        RX_PACKETS_PER_S_FIELD_NUMBER: _ClassVar[int]
        TX_PACKETS_PER_S_FIELD_NUMBER: _ClassVar[int]
        RX_ERRORS_MILLI_PER_S_FIELD_NUMBER: _ClassVar[int]
        TX_ERRORS_MILLI_PER_S_FIELD_NUMBER: _ClassVar[int]
        RX_DROPS_MILLI_PER_S_FIELD_NUMBER: _ClassVar[int]
        TX_DROPS_MILLI_PER_S_FIELD_NUMBER: _ClassVar[int]
        LINK_MEGABITS_PER_S_FIELD_NUMBER: _ClassVar[int]
        LINK_UP_FIELD_NUMBER: _ClassVar[int]
        READ_KILOBYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
        WRITE_KILOBYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
        READS_MILLI_PER_S_FIELD_NUMBER: _ClassVar[int]
        WRITES_MILLI_PER_S_FIELD_NUMBER: _ClassVar[int]
        BUSY_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        QUEUE_CENTI_FIELD_NUMBER: _ClassVar[int]
        READ_LATENCY_MICROSECONDS_FIELD_NUMBER: _ClassVar[int]
        WRITE_LATENCY_MICROSECONDS_FIELD_NUMBER: _ClassVar[int]
        host: str
        ts: float
        period_ms: int
        kind: str
        device: str
        rx_kilobytes_per_s: int
        tx_kilobytes_per_s: int
        rx_packets_per_s: int
        tx_packets_per_s: int
        rx_errors_milli_per_s: int
        tx_errors_milli_per_s: int
        rx_drops_milli_per_s: int
        tx_drops_milli_per_s: int
        link_megabits_per_s: int
        link_up: bool
        read_kilobytes_per_s: int
        write_kilobytes_per_s: int
        reads_milli_per_s: int
        writes_milli_per_s: int
        busy_permille: int
        queue_centi: int
        read_latency_microseconds: int
        write_latency_microseconds: int
        def __init__(self, host: _Optional[str] = ..., ts: _Optional[float] = ..., period_ms: _Optional[int] = ..., kind: _Optional[str] = ..., device: _Optional[str] = ..., rx_kilobytes_per_s: _Optional[int] = ..., tx_kilobytes_per_s: _Optional[int] = ..., rx_packets_per_s: _Optional[int] = ..., tx_packets_per_s: _Optional[int] = ..., rx_errors_milli_per_s: _Optional[int] = ..., tx_errors_milli_per_s: _Optional[int] = ..., rx_drops_milli_per_s: _Optional[int] = ..., tx_drops_milli_per_s: _Optional[int] = ..., link_megabits_per_s: _Optional[int] = ..., link_up: _Optional[bool] = ..., read_kilobytes_per_s: _Optional[int] = ..., write_kilobytes_per_s: _Optional[int] = ..., reads_milli_per_s: _Optional[int] = ..., writes_milli_per_s: _Optional[int] = ..., busy_permille: _Optional[int] = ..., queue_centi: _Optional[int] = ..., read_latency_microseconds: _Optional[int] = ..., write_latency_microseconds: _Optional[int] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.DeviceSample]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.DeviceSample, _Mapping]]] = ...) -> None: ...
