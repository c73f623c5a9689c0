"""Parts of SQL that the dashboards share: times, means of rollups, and named queries with Grafana's variables in them.

Fleet and job panels read minutes up to a range of two days and hours beyond it: `${windows}` is `1m` or `1h`, a hidden
variable that follows the range.
"""

import re
from typing import Final

from deploy.grafana.source.model import Variable
from warpmeter import queries
from warpmeter.schemas.metrics import SCALES

MINUTES_UP_TO_S: Final = 2 * 86400
WINDOWS: Final = Variable(
    "windows",
    "Windows",
    f"SELECT if(dateDiff('second', $__fromTime, $__toTime) > {MINUTES_UP_TO_S}, '1h', '1m') AS windows",
    hidden=True,
)
BEGIN: Final = "if('${windows}' = '1h', toStartOfHour($__fromTime), toStartOfMinute($__fromTime))"
TIME: Final = "$__timeInterval(window) AS time"
WITHIN: Final = f"window >= {BEGIN} AND window <= $__toTime"
HOURS: Final = "window >= toStartOfHour($__fromTime) AND window <= $__toTime"
HOURLY: Final = "toStartOfInterval(window, toIntervalSecond(greatest(3600, $__interval_s)))"
STEP_S: Final = "if('${windows}' = '1h', 3600, 60)"
CLOSED: Final = f"window < toStartOfInterval(now(), toIntervalSecond({STEP_S}))"
"""Not the window that goes on: what is counted in it would be too little."""

HOST: Final = Variable(
    "host",
    "Host",
    f"SELECT host FROM host_windows_1h WHERE {HOURS} GROUP BY host ORDER BY host",
)
HOSTS: Final = Variable("host", "Host", HOST.sql, many=True)
USERS: Final = Variable(
    "user",
    "User",
    "SELECT user FROM jobs WHERE last_seen_at >= $__fromTime AND started_at <= $__toTime AND user != '' "
    "GROUP BY user ORDER BY user",
    many=True,
)
JOB: Final = Variable(
    "job",
    "Job",
    "SELECT job_id, concat(name, ' (', job_id, ')') AS text FROM jobs WHERE last_seen_at >= $__fromTime "
    "AND started_at <= $__toTime AND $__conditionalAll(user IN (${user:singlequote}), $user) "
    "ORDER BY started_at DESC LIMIT 1000",
)
OF_HOSTS: Final = "$__conditionalAll(host IN (${host:singlequote}), $host)"
OF_HOST: Final = "host = ${host:singlequote}"
OF_JOB: Final = "job_id = ${job:singlequote}"
PAGE: Final = Variable("page", "warpmeter's page", default="http://127.0.0.1:8080")
TOP: Final = Variable("top", "Lines", choices={"10": "10", "20": "20", "50": "50", "100": "100"}, default="20")
ORDER: Final = Variable("order", "Of hosts and GPUs, the", choices={"DESC": "highest", "ASC": "lowest"}, default="DESC")
METRIC: Final = Variable(
    "metric",
    "Metric",
    choices={
        f"{name}_permille": name
        for name in (
            "gpu_util", "sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp16_active", "fp32_active",
            "mem_copy_util", "encoder_util", "decoder_util", "fan",
        )
    },
    default="gpu_util_permille",
)  # fmt: skip


def mean(stem: str) -> str:
    """The mean of a metric over rows of a rollup, in its SI unit; NULL where it is not known."""
    scale = next((each.factor for suffix, each in SCALES.items() if stem.endswith(suffix)), 1.0)
    scale = 0.001 if "${" in stem else scale
    return f"sum({stem}_sum) / nullIf(sum({stem}_count), 0)" + ("" if scale == 1 else f" * {scale:.10g}")


def weighed(name: str) -> str:
    """The mean of a metric over a job's share of its GPUs; NULL where it is not known."""
    return f"sum({name}_seconds) / nullIf(sum({name}_known_seconds), 0)"


def named(query: str, **given: str) -> str:
    """A named query (`sql/queries`) with SQL in the place of its parameters; defaults for those that are not given.

    Raises ValueError where one is given that it has not, or not given that it needs.
    """
    found = queries.get(query)
    defaults = {each.name: each.default for each in found.parameters}
    if unknown := set(given) - set(defaults):
        raise ValueError(f"{query} has no {', '.join(sorted(unknown))}")

    def put(use: re.Match[str]) -> str:
        name, kind = use[1], use[2]
        value = given.get(name, defaults[name])
        if value is None:
            raise ValueError(f"{query} needs {name}")
        return value if name in given or kind != "String" else f"'{value}'"

    lines = (line for line in found.sql.splitlines() if not line.lstrip().startswith("--"))
    return re.sub(r"\{(\w+):\s*([^{}]+)\}", put, "\n".join(lines))
