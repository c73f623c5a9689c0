from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("rows",)
    class GpuSample(_message.Message):
        __slots__ = ("host", "ts", "period_ms", "gpu", "uuid", "model", "gpu_instance", "compute_instance", "job_ids", "gpu_util_permille", "mem_copy_util_permille", "sm_active_permille", "sm_occupancy_permille", "tensor_active_permille", "dram_active_permille", "fp16_active_permille", "fp32_active_permille", "fp64_active_permille", "encoder_util_permille", "decoder_util_permille", "fb_used_mebibytes", "fb_total_mebibytes", "fb_reserved_mebibytes", "power_deciwatts", "power_limit_deciwatts", "energy_joules", "temperature_celsius", "mem_temperature_celsius", "fan_permille", "sm_clock_megahertz", "mem_clock_megahertz", "throttle_reasons", "performance_state", "pcie_tx_megabytes_per_s", "pcie_rx_megabytes_per_s", "nvlink_tx_megabytes_per_s", "nvlink_rx_megabytes_per_s", "pcie_link_generation", "pcie_link_width", "pcie_replays", "ecc_corrected_errors", "ecc_uncorrected_errors", "remapped_rows_corrected", "remapped_rows_uncorrected", "processes")
        HOST_FIELD_NUMBER: _ClassVar[int]
        TS_FIELD_NUMBER: _ClassVar[int]
        PERIOD_MS_FIELD_NUMBER: _ClassVar[int]
        GPU_FIELD_NUMBER: _ClassVar[int]
        UUID_FIELD_NUMBER: _ClassVar[int]
        MODEL_FIELD_NUMBER: _ClassVar[int]
        GPU_INSTANCE_FIELD_NUMBER: _ClassVar[int]
        COMPUTE_INSTANCE_FIELD_NUMBER: _ClassVar[int]
        JOB_IDS_FIELD_NUMBER: _ClassVar[int]
        GPU_UTIL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        MEM_COPY_UTIL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        SM_ACTIVE_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        SM_OCCUPANCY_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        TENSOR_ACTIVE_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        DRAM_ACTIVE_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        FP16_ACTIVE_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        FP32_ACTIVE_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        FP64_ACTIVE_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        ENCODER_UTIL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        DECODER_UTIL_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        FB_USED_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        FB_TOTAL_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        FB_RESERVED_MEBIBYTES_FIELD_NUMBER: _ClassVar[int]
        POWER_DECIWATTS_FIELD_NUMBER: _ClassVar[int]
        POWER_LIMIT_DECIWATTS_FIELD_NUMBER: _ClassVar[int]
        ENERGY_JOULES_FIELD_NUMBER: _ClassVar[int]
        TEMPERATURE_CELSIUS_FIELD_NUMBER: _ClassVar[int]
        MEM_TEMPERATURE_CELSIUS_FIELD_NUMBER: _ClassVar[int]
        FAN_PERMILLE_FIELD_NUMBER: _ClassVar[int]
        SM_CLOCK_MEGAHERTZ_FIELD_NUMBER: _ClassVar[int]
        MEM_CLOCK_MEGAHERTZ_FIELD_NUMBER: _ClassVar[int]
        THROTTLE_REASONS_FIELD_NUMBER: _ClassVar[int]
        PERFORMANCE_STATE_FIELD_NUMBER: _ClassVar[int]
        PCIE_TX_MEGABYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
        PCIE_RX_MEGABYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
        NVLINK_TX_MEGABYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
        NVLINK_RX_MEGABYTES_PER_S_FIELD_NUMBER: _ClassVar[int]
        PCIE_LINK_GENERATION_FIELD_NUMBER: _ClassVar[int]
        PCIE_LINK_WIDTH_FIELD_NUMBER: _ClassVar[int]
        PCIE_REPLAYS_FIELD_NUMBER: _ClassVar[int]
        ECC_CORRECTED_ERRORS_FIELD_NUMBER: _ClassVar[int]
        ECC_UNCORRECTED_ERRORS_FIELD_NUMBER: _ClassVar[int]
        REMAPPED_ROWS_CORRECTED_FIELD_NUMBER: _ClassVar[int]
        REMAPPED_ROWS_UNCORRECTED_FIELD_NUMBER: _ClassVar[int]
        PROCESSES_FIELD_NUMBER: _ClassVar[int]
        host: str
        ts: float
        period_ms: int
        gpu: int
        uuid: str
        model: str
        gpu_instance: int
        compute_instance: int
        job_ids: _containers.RepeatedScalarFieldContainer[str]
        gpu_util_permille: int
        mem_copy_util_permille: int
        sm_active_permille: int
        sm_occupancy_permille: int
        tensor_active_permille: int
        dram_active_permille: int
        fp16_active_permille: int
        fp32_active_permille: int
        fp64_active_permille: int
        encoder_util_permille: int
        decoder_util_permille: int
        fb_used_mebibytes: int
        fb_total_mebibytes: int
        fb_reserved_mebibytes: int
        power_deciwatts: int
        power_limit_deciwatts: int
        energy_joules: int
        temperature_celsius: int
        mem_temperature_celsius: int
        fan_permille: int
        sm_clock_megahertz: int
        mem_clock_megahertz: int
        throttle_reasons: int
        performance_state: int
        pcie_tx_megabytes_per_s: int
        pcie_rx_megabytes_per_s: int
        nvlink_tx_megabytes_per_s: int
        nvlink_rx_megabytes_per_s: int
        pcie_link_generation: int
        pcie_link_width: int
        pcie_replays: int
        ecc_corrected_errors: int
        ecc_uncorrected_errors: int
        remapped_rows_corrected: int
        remapped_rows_uncorrected: int
        processes: int
        def __init__(self, host: _Optional[str] = ..., ts: _Optional[float] = ..., period_ms: _Optional[int] = ..., gpu: _Optional[int] = ..., uuid: _Optional[str] = ..., model: _Optional[str] = ..., gpu_instance: _Optional[int] = ..., compute_instance: _Optional[int] = ..., job_ids: _Optional[_Iterable[str]] = ..., gpu_util_permille: _Optional[int] = ..., mem_copy_util_permille: _Optional[int] = ..., sm_active_permille: _Optional[int] = ..., sm_occupancy_permille: _Optional[int] = ..., tensor_active_permille: _Optional[int] = ..., dram_active_permille: _Optional[int] = ..., fp16_active_permille: _Optional[int] = ..., fp32_active_permille: _Optional[int] = ..., fp64_active_permille: _Optional[int] = ..., encoder_util_permille: _Optional[int] = ..., decoder_util_permille: _Optional[int] = ..., fb_used_mebibytes: _Optional[int] = ..., fb_total_mebibytes: _Optional[int] = ..., fb_reserved_mebibytes: _Optional[int] = ..., power_deciwatts: _Optional[int] = ..., power_limit_deciwatts: _Optional[int] = ..., energy_joules: _Optional[int] = ..., temperature_celsius: _Optional[int] = ..., mem_temperature_celsius: _Optional[int] = ..., fan_permille: _Optional[int] = ..., sm_clock_megahertz: _Optional[int] = ..., mem_clock_megahertz: _Optional[int] = ..., throttle_reasons: _Optional[int] = ..., performance_state: _Optional[int] = ..., pcie_tx_megabytes_per_s: _Optional[int] = ..., pcie_rx_megabytes_per_s: _Optional[int] = ..., nvlink_tx_megabytes_per_s: _Optional[int] = ..., nvlink_rx_megabytes_per_s: _Optional[int] = ..., pcie_link_generation: _Optional[int] = ..., pcie_link_width: _Optional[int] = ..., pcie_replays: _Optional[int] = ..., ecc_corrected_errors: _Optional[int] = ..., ecc_uncorrected_errors: _Optional[int] = ..., remapped_rows_corrected: _Optional[int] = ..., remapped_rows_uncorrected: _Optional[int] = ..., processes: _Optional[int] = ...) -> None: ...
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: _containers.RepeatedCompositeFieldContainer[Envelope.GpuSample]
    def __init__(self, rows: _Optional[_Iterable[_Union[Envelope.GpuSample, _Mapping]]] = ...) -> None: ...
