"""The one funnel to NVML: optional symbols, versioned structs and return codes are known here only.

Calls go through the library that nvidia-ml-py loads, with its structs. Its wrappers look a function up and make new
objects at every call; here each call of each GPU is prepared once and then costs about a microsecond.

A failed call is a value (`Problem`), never an exception.
"""

from warpmeter.producers.gpu.nvml.events import (
    Event,
    EventSet,
    address,
)
from warpmeter.producers.gpu.nvml.fields import (
    Fields,
    Single,
    field,
)
from warpmeter.producers.gpu.nvml.gpm import (
    Gpm,
)
from warpmeter.producers.gpu.nvml.library import (
    Handle,
    bus_id,
    count,
    driver_version,
    handle,
    instance_ids,
    mig_enabled,
    mig_handle,
    mig_slots,
    minor_number,
    model,
    same,
    start,
    stop,
    unload,
    uuid,
)
from warpmeter.producers.gpu.nvml.links import (
    link_errors,
    links_up,
)
from warpmeter.producers.gpu.nvml.problem import (
    NO_FUNCTION,
    NO_LIBRARY,
    NOT_LISTED,
    TIMEOUT,
    UNINITIALIZED,
    VERSION_MISMATCH,
    Problem,
)
from warpmeter.producers.gpu.nvml.processes import (
    IDLE,
    GpuProcess,
    ProcessList,
    Use,
    Utilization,
    compute_processes,
    mps_processes,
)
from warpmeter.producers.gpu.nvml.ways import (
    BAR1,
    MEMORY_V1,
    MEMORY_V2,
    TEMPERATURE_V,
    UTILIZATION,
    Numbers,
    Read,
    Way,
    retired_pages,
    uint,
    uints,
    ull,
)

__all__ = [
    "BAR1",
    "IDLE",
    "Event",
    "EventSet",
    "Use",
    "Utilization",
    "address",
    "bus_id",
    "driver_version",
    "field",
    "link_errors",
    "links_up",
    "minor_number",
    "retired_pages",
    "NOT_LISTED",
    "NO_FUNCTION",
    "NO_LIBRARY",
    "TIMEOUT",
    "UNINITIALIZED",
    "VERSION_MISMATCH",
    "Problem",
    "Handle",
    "count",
    "handle",
    "instance_ids",
    "mig_enabled",
    "mig_handle",
    "mig_slots",
    "model",
    "same",
    "start",
    "stop",
    "unload",
    "uuid",
    "MEMORY_V1",
    "MEMORY_V2",
    "TEMPERATURE_V",
    "UTILIZATION",
    "Numbers",
    "Read",
    "Way",
    "uint",
    "uints",
    "ull",
    "GpuProcess",
    "ProcessList",
    "compute_processes",
    "mps_processes",
    "Fields",
    "Single",
    "Gpm",
]
