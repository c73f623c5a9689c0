"""Reports that are made and sent by themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from warpmeter.settings.common import SECRET
from warpmeter.settings.sending import Target


@dataclass(frozen=True)
class ReportSchedule:
    """A report by itself: `cron` (five fields, in `timezone`), of the last whole `period` before, by that time zone's
    days; report `job` has none, and is made of each job that ended.

    `targets`: names of [[reports.targets]]. `formats`: what goes along, of html, csv, parquet, png. A job is reported
    when it used `min_gpu_hours`, and fits `where`, a condition on the view `jobs` ("user = 'ann'").
    """

    name: str
    report: Literal["fleet-weekly", "job", "host-health", "captures"]
    cron: str = ""
    timezone: str = "UTC"
    period: Literal["day", "week", "month"] = "week"
    targets: tuple[str, ...] = ()
    formats: tuple[Literal["html", "csv", "parquet", "png"], ...] = ("html", "csv", "parquet", "png")
    min_gpu_hours: float = 0.0
    where: str = ""


@dataclass(frozen=True)
class Reports:
    """Reports that the elected scheduler makes and sends. They are kept at `url`, a folder or what fsspec knows with
    `options`, the same for scheduler, page and command, `keep_days` long (0: for ever).

    A report is rendered `settle_s` after its period's end at the soonest, and while its last rows are on their way
    they are waited for, `late_s` at most. A delivery that fails is tried again after `retry_s`, then after waits that
    double up to an hour, for `give_up_s`. `page`: where people reach the page, for links, e.g.
    https://warpmeter.example. Prices are in `currency`; 0: not known, nothing is said of cost.
    """

    url: str = "/var/lib/warpmeter/reports"
    options: Mapping[str, str] = field(default_factory=dict, metadata=SECRET)
    keep_days: float = 400.0
    settle_s: float = 300.0
    late_s: float = 6 * 3600.0
    retry_s: float = 30.0
    give_up_s: float = 24 * 3600.0
    page: str = ""
    price_per_kwh: float = 0.0
    price_per_gpu_hour: float = 0.0
    currency: str = "EUR"
    schedules: tuple[ReportSchedule, ...] = ()
    targets: tuple[Target, ...] = ()
