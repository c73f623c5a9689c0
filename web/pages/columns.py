"""Which columns tables and facts show, of which fields of the API."""

from collections.abc import Sequence
from typing import Final

from warpmeter.web.panels.table import Column

RATIO: Final = "ratio 0-1"

HOSTS: Final = (
    Column("host", "Host", "host", width=130, flex=1),
    Column("state", "State", "state", width=90),
    Column("spark", "GPU utilisation", "spark", width=114, sort=""),
    Column("gpu_util", "GPU", "value", RATIO, width=68),
    Column("sm_active", "SM", "value", RATIO, width=68),
    Column("gpus", "GPUs", "number", width=75),
    Column("gpus_gone", "Gone", "number", width=75),
    Column("gpu_power_watts", "Power", "value", "W", width=82),
    Column("cpu_util", "CPU", "value", RATIO, width=75),
    Column("mem_available_bytes", "Memory free", "value", "B", width=115),
    Column("last_seen_at", "Seen", "ago", width=90),
)
JOBS: Final = (
    Column("job_id", "Job", "job", width=96, flex=1),
    Column("name", "Name", width=100, flex=1),
    Column("user", "User", width=72),
    Column("state", "State", "state", width=90),
    Column("spark", "GPU utilisation", "spark", width=114, sort=""),
    Column("gpus", "GPUs", "number", width=62),
    Column("gpu_hours", "GPU hours", "value", width=92),
    Column("idle_gpu_hours", "Idle hours", "value", width=92),
    Column("hosts", "Hosts", "host", width=150, sort=""),
    Column("duration_s", "Ran", "duration", width=110),
    Column("started_at", "Started", "ago", width=110),
)
GPUS: Final = (
    Column("gpu", "GPU", "number", width=62),
    Column("model", "Model", width=130, flex=1),
    Column("status", "State", "state", width=90),
    Column("job_ids", "Job", "job", width=110, sort=""),
    Column("gpu_util", "Utilisation", "value", RATIO, width=95),
    Column("sm_active", "SM", "value", RATIO, width=72),
    Column("fb_used_bytes", "Memory", "value", "B", width=90),
    Column("fb_total_bytes", "of", "value", "B", width=80),
    Column("power_watts", "Power", "value", "W", width=80),
    Column("power_limit_watts", "Limit", "value", "W", width=76),
    Column("temperature_celsius", "Temp.", "value", "°C", width=76),
    Column("throttled_by", "Throttled by", "list", width=120, sort=""),
    Column("ecc_uncorrected_errors", "ECC errors", "number", width=95),
    Column("xids", "XIDs", "list", width=70, sort=""),
    Column("idle_since", "Idle since", "ago", width=105),
)
HOST_FACTS: Final = (
    Column("state", "State", "state"),
    Column("gpus", "GPUs", "number"),
    Column("gpus_gone", "GPUs gone", "number"),
    Column("gpu_models", "Model", "list"),
    Column("cores", "Cores", "number"),
    Column("mem_total_bytes", "Memory", "value", "B"),
    Column("uptime_s", "Up for", "duration"),
    Column("kernel", "Kernel"),
    Column("agent_version", "Agent"),
    Column("last_seen_at", "Seen", "ago"),
    Column("gpu_power_watts", "Power", "value", "W"),
    Column("problems", "Problems", "list"),
)
JOB_FACTS: Final = (
    Column("state", "State", "state"),
    Column("name", "Name"),
    Column("user", "User"),
    Column("scheduler", "Scheduler"),
    Column("gpus", "GPUs", "number"),
    Column("world_size", "World size", "number"),
    Column("hosts", "Hosts", "host"),
    Column("hosts_lost", "Hosts lost", "host"),
    Column("started_at", "Started", "time"),
    Column("ended_at", "Ended", "time"),
    Column("duration_s", "Ran", "duration"),
    Column("cpu_cores", "CPU cores", "value"),
    Column("rss_bytes_max", "Most memory", "value", "B"),
    Column("account", "Account"),
    Column("command", "Command", flex=1),
)


def few(columns: Sequence[Column], *without: str) -> tuple[Column, ...]:
    """The columns but those of some fields, for a table that has less room."""
    return tuple(column for column in columns if column.field not in without)
