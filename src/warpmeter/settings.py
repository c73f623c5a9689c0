"""Every setting of every part, as one frozen object that is read once.

Plain dataclasses, so that the agent carries no validation library: `warpmeter.config` reads and validates them,
`warpmeter.launch` hands them to a child process.
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

SECRET: Final = {"secret": True}
PATH: Final = {"secret": "path"}
"""An address whose path is a secret, as that of an incoming webhook is."""
LOOPBACK: Final = ("127.", "::1", "localhost")
Output = Literal["kafka", "stdout", "prometheus", "otlp"]


def default_data() -> Path:
    """Where `warpmeter up` keeps its data: `$XDG_DATA_HOME/warpmeter`, else `~/.local/share/warpmeter`."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "warpmeter"


@dataclass(frozen=True)
class Kafka:
    """How to reach the bus. `options` are librdkafka's own, passed through (SASL, TLS); they win over ours.

    A Schema Registry is logged in to with a user and password in its URL, or with `schema_registry_token` (a bearer's);
    `schema_registry_ca_file`: whom to believe instead of the machine's authorities. What `warpmeter topics` asks for:
    `min_insync_replicas` (2 where there are three replicas), `compression` of what the brokers keep, and
    `retention_hours` by topic in place of the topic table's.
    """

    bootstrap_servers: str = "127.0.0.1:9092"
    topic_prefix: str = "warpmeter"
    partitions: int | None = None
    replication_factor: int = -1
    options: Mapping[str, str] = field(default_factory=dict, metadata=SECRET)
    schema_registry_url: str = field(default="", metadata=SECRET)
    schema_registry_token: str = field(default="", metadata=SECRET, repr=False)
    schema_registry_ca_file: Path | None = None
    min_insync_replicas: int | None = None
    compression: Literal["producer", "zstd", "lz4", "snappy", "gzip", "uncompressed"] = "producer"
    retention_hours: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Store:
    """The ClickHouse of all parts: `http://user:password@host:8123`, `https://…`, or `chdb:///path` (embedded).

    `shards`: of a `cluster` with several shards the address of each, in their order: a partition's rows always go to
    the same. Raw rows, windows and traces move to the volume `cold` of `storage_policy` after `cold_after_days`.
    """

    dsn: str = field(default="http://127.0.0.1:8123", metadata=SECRET)
    database: str = "warpmeter"
    cluster: str = ""
    shards: tuple[str, ...] = field(default=(), metadata=SECRET)
    insert_quorum: bool = False
    storage_policy: str = ""
    cold_after_days: int = 0
    raw_ttl_days: int = 14
    minute_ttl_days: int = 90
    hour_ttl_days: int = 1095

    def local(self, table: str) -> str:
        """The table of this shard, which ingest writes to; on a cluster `table` itself spans all shards."""
        return f"{table}_local" if self.cluster else table


@dataclass(frozen=True)
class Log:
    """`format`: `auto` is `console` on a terminal and `json` elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "console", "json"] = "auto"


@dataclass(frozen=True)
class Metrics:
    """Where a process serves its own Prometheus metrics; port 0 takes none. Each part has its own port."""

    listen: str = "127.0.0.1"
    agent_port: int = 9701
    ingest_port: int = 9702
    engine_port: int = 9703
    scheduler_port: int = 9704
    web_port: int = 9705


@dataclass(frozen=True)
class Scrape:
    """One Prometheus endpoint that the agent reads.

    `page`: `any` publishes its values as `metric-samples`, `dcgm` and `pcm` fill the columns of GPUs and CPU sockets.
    For `any` also: `allow` and `deny` are regular expressions on whole metric names; `labels` renames a label, or
    drops it when its new name is ''; of a page with more than `max_series` wanted series the first are published.
    Credentials are `username` with `password_file`, or `token_file` (a bearer token); `ca_file` is for https.
    """

    name: str
    url: str
    page: Literal["any", "dcgm", "pcm"] = "any"
    period_s: float = 10.0
    timeout_s: float = 5.0
    allow: str = ".*"
    deny: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    max_series: int = 5000
    max_bytes: int = 16 << 20
    username: str = ""
    password_file: Path | None = None
    token_file: Path | None = None
    ca_file: Path | None = None

    @property
    def limit_s(self) -> float:
        """What a read may take: never longer than a period."""
        return min(self.timeout_s, self.period_s)


@dataclass(frozen=True)
class Agent:
    """The host agent. `root` is the folder that holds `proc` and `sys` (for a container: the host's).

    `outputs`: the ways out, several at once. `names`: what metrics are called on standard output and at `/metrics`.
    `otlp_url`: a collector's address, or the full URL of its metrics endpoint. `kineto`: PyTorch processes may
    register, to be traced on demand; `kineto_socket_dir`: their KINETO_IPC_SOCKET_DIR. `command_wait_s`: so long the
    broker may keep the agent's request for commands, which is answered at once when there is one. `rpc`: dynolog's
    port.

    `stacks`: of each `stacks_interval_s` so many seconds are sampled, so many times a second, of at most
    `stacks_processes` Python processes at once (of more, they take turns). `stacks_idle`: also threads that wait.
    `stacks_native`: also C frames, for which a process is paused at each sample, as with `stacks_blocking`.
    `stacks_subprocesses`: also what the first Python process of a rank started. `stacks_perf`: the whole host through
    perf, with `auto` where that is there and allowed. `stacks_paths`: regular expressions, and what becomes of the
    part of a file's path that each matches.
    """

    host: str = field(default_factory=socket.gethostname)
    interval_s: float = 1.0
    device_interval_s: float = 1.0
    job_interval_s: float = 2.0
    job_event_interval_s: float = 10.0
    pace_interval_s: float = 30.0
    health_interval_s: float = 10.0
    root: Path = Path("/")
    job_pattern: str = ""
    job_ignore: str = ""
    gpu: bool = True
    ethtool: bool = True
    rdma: bool = True
    mounts: bool = True
    mount_interval_s: float = 10.0
    mount_ignore: str = ""
    numa: bool = True
    numa_interval_s: float = 5.0
    cpu_counters: bool = True
    cpu_counter_interval_s: float = 5.0
    scrape: tuple[Scrape, ...] = ()
    spool_dir: Path = Path("/var/lib/warpmeter/spool")
    spool_max_bytes: int = 256 << 20
    spool_max_age_s: float = 24 * 3600.0
    queue_max_bytes: int = 32 << 20
    outputs: tuple[Output, ...] = ("kafka",)
    names: Literal["warpmeter", "dynolog"] = "warpmeter"
    otlp_url: str = field(default="", metadata=SECRET)
    otlp_headers: Mapping[str, str] = field(default_factory=dict, metadata=SECRET)
    otlp_interval_s: float = 10.0
    otlp_queue_max_bytes: int = 8 << 20
    kineto: bool = True
    kineto_socket_dir: Path = Path("/run/warpmeter/kineto")
    command_wait_s: float = 10.0
    stacks: bool = True
    stacks_interval_s: float = 60.0
    stacks_sampling_s: float = 10.0
    stacks_rate_hz: int = 19
    stacks_processes: int = 8
    stacks_idle: bool = False
    stacks_native: bool = False
    stacks_blocking: bool = False
    stacks_subprocesses: bool = True
    stacks_perf: Literal["off", "auto", "on"] = "auto"
    stacks_paths: Mapping[str, str] = field(default_factory=dict)
    rpc: bool = True
    rpc_address: str = "127.0.0.1"
    rpc_port: int = 1778
    rpc_tls_certificate: Path | None = None
    rpc_tls_key: Path | None = None
    rpc_token: str = field(default="", metadata=SECRET)


@dataclass(frozen=True)
class Traces:
    """The trace store, the same for all parts. `url`: a folder, or any URL that fsspec knows, e.g. `s3://bucket/traces`.

    `options`: fsspec's own for it (keys, endpoint). A trace larger than `max_file_bytes`, as the process wrote it, is
    refused. gzip is what everything opens; zstd costs a third of the CPU. Traces at `url` go, the oldest first, when
    they are older than `keep_days`, or all together are more than `keep_bytes`; 0: no limit.
    """

    url: str = "/var/lib/warpmeter/traces"
    options: Mapping[str, str] = field(default_factory=dict, metadata=SECRET)
    compression: Literal["gzip", "zstd"] = "gzip"
    max_file_bytes: int = 4 << 30
    keep_days: float = 30.0
    keep_bytes: int = 0


@dataclass(frozen=True)
class Ingest:
    """The consumer. Batches close at `batch_bytes`, `batch_rows` or `batch_age_s`, whichever is first.

    `read_out`: read the topics to their end before stopping, for a broker whose log ends with it.
    """

    group: str = "warpmeter-ingest"
    topics: tuple[str, ...] = ()
    batch_bytes: int = 24 << 20
    batch_rows: int = 200_000
    batch_age_s: float = 5.0
    budget_bytes: int = 64 << 20
    session_timeout_s: float = 45.0
    settle_after_s: float = 5.0
    ledger_dir: Path | None = None
    reject_window: int = 1000
    reject_share: float = 0.05
    read_out: bool = False


@dataclass(frozen=True)
class Schedule:
    """Captures by themselves. `cron` (five fields), `every_s`, or `at` (an ISO time, once): one of them.

    `job`, `hosts`, `where`: as in `warpmeter capture`. `jitter_s`: each run is later by up to so much. A run that was
    missed, because no scheduler was there, is made up for within `late_s`, once however many were missed. A run is
    skipped while a capture of the schedule before it goes on.
    """

    name: str
    cron: str = ""
    every_s: float = 0.0
    at: str = ""
    timezone: str = "UTC"
    jitter_s: float = 0.0
    late_s: float = 60.0
    job: str = ""
    hosts: tuple[str, ...] = ()
    where: str = ""
    process_limit: int = 0
    duration_ms: int = 0
    iterations: int = 0
    count: int = 1
    shapes: bool = False
    memory: bool = False
    stacks: bool = False
    flops: bool = False
    modules: bool = False


@dataclass(frozen=True)
class Scheduler:
    """Captures. Hosts answer within `look_s`; a trace is stored within `grace_s` of its end, and a step of an optimizer
    takes at most `iteration_s`, or it has failed. A request that nobody took within `request_age_s` is not begun.

    `analyse`: what is captured is analysed and loaded, within `analyse_s`, by a process of at most `analyse_bytes`.
    `jobs_url`: where the times of the schedules are kept, as SQLAlchemy names databases; by default a file in `data`.
    """

    group: str = "warpmeter-scheduler"
    session_timeout_s: float = 6.0
    look_s: float = 10.0
    resolve_s: float = 20.0
    cancel_s: float = 15.0
    grace_s: float = 120.0
    iteration_s: float = 10.0
    request_age_s: float = 300.0
    analyse: bool = True
    analyse_s: float = 900.0
    analyse_bytes: int = 4 << 30
    data: Path = Path("/var/lib/warpmeter/scheduler")
    jobs_url: str = field(default="", metadata=SECRET)
    schedules: tuple[Schedule, ...] = ()


@dataclass(frozen=True)
class Engine:
    """The embedded engine: its data folder and the ClickHouse HTTP endpoint that serves it."""

    data: Path = field(default_factory=default_data)
    listen: str = "127.0.0.1"
    port: int = 8123
    write_token: str = field(default="", metadata=SECRET)
    threads: int = 4


@dataclass(frozen=True)
class Token:
    """Who may ask the API and log in at the page: the token itself, or the file that holds it."""

    name: str
    role: Literal["viewer", "operator"] = "viewer"
    token: str = field(default="", metadata=SECRET, repr=False)
    token_file: Path | None = None


def unsendable(token: str) -> str:
    """Why programs cannot send that token in a header, '' when they can."""
    if token.isascii() and token.isprintable():
        return ""
    return "has characters that no header carries: make one of ASCII, e.g. of `openssl rand -hex 24`"


@dataclass(frozen=True)
class Web:
    """API and pages. On another address than loopback `tokens` or `proxies` say who may look; docs/web.md tells how.

    `hosts`: names that browsers know it by, beside its own address. `proxies`: addresses or networks whose
    `user_header` and `groups_header` are believed; members of `operator_groups` are operators, those of `viewer_groups`
    viewers (empty: whoever the proxy lets through). `session_secret` signs the cookies of those who log in, which are
    good for `session_s`; without one, a restart logs them out. A query may take `query_s` seconds and `query_memory`
    bytes, and answer `query_rows` rows of `query_bytes`; `sql_…` are those of the SQL console. A caller may make
    `writes_per_minute` requests that change something.
    """

    listen: str = "127.0.0.1"
    port: int = 8080
    hosts: tuple[str, ...] = ()
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tokens: tuple[Token, ...] = ()
    session_secret: str = field(default="", metadata=SECRET, repr=False)
    session_s: float = 12 * 3600.0
    proxies: tuple[str, ...] = ()
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"
    operator_groups: tuple[str, ...] = ()
    viewer_groups: tuple[str, ...] = ()
    writes_per_minute: int = 60
    body_bytes: int = 1 << 20
    query_s: float = 10.0
    query_rows: int = 1_000_000
    query_bytes: int = 256 << 20
    query_memory: int = 2 << 30
    sql: bool = True
    sql_s: float = 30.0
    sql_rows: int = 10_000
    sql_bytes: int = 16 << 20

    @property
    def loopback(self) -> bool:
        """Only this machine reaches it."""
        return self.listen.startswith(LOOPBACK)

    @property
    def address(self) -> str:
        """Where a browser on this machine finds it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.listen, self.listen)
        return f"http{'s' if self.tls_certificate else ''}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def guarded(self) -> bool:
        """Who asks must say who they are."""
        return bool(self.tokens or self.proxies)


@dataclass(frozen=True, kw_only=True)
class Way:
    """How something is sent. A secret may stand in a file of its own; one attempt takes at most `timeout_s`.

    mail: `host`, `port` (0: that of `tls`), `username` and `password`, `sender`, `to`. slack: the incoming webhook's
    `url`. webhook: `url`, `headers`, `token` (sent as a bearer's), `secret` (the JSON is signed with it). `ca_file`:
    whom to believe instead of the machine's authorities.
    """

    url: str = field(default="", metadata=PATH, repr=False)
    url_file: Path | None = None
    host: str = ""
    port: int = 0
    tls: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password: str = field(default="", metadata=SECRET, repr=False)
    password_file: Path | None = None
    sender: str = ""
    to: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict, metadata=SECRET, repr=False)
    token: str = field(default="", metadata=SECRET, repr=False)
    token_file: Path | None = None
    secret: str = field(default="", metadata=SECRET, repr=False)
    secret_file: Path | None = None
    ca_file: Path | None = None
    timeout_s: float = 30.0


@dataclass(frozen=True)
class Target(Way):
    """Where reports, and alerts, go. `kind`: folder, mail, slack or webhook.

    folder: `url` is a folder of this machine or any URL that fsspec knows, with its `options`. `attach`: endings of the
    files that a mail or webhook carries, at most `attach_bytes` together; ["*"] all of them.
    """

    name: str
    kind: Literal["folder", "mail", "slack", "webhook"]
    options: Mapping[str, str] = field(default_factory=dict, metadata=SECRET, repr=False)
    attach: tuple[str, ...] = (".csv",)
    attach_bytes: int = 8 << 20

    def attaches(self, name: str) -> bool:
        """Whether a file of that name goes along."""
        return any(end == "*" or name.endswith(end) for end in self.attach)


@dataclass(frozen=True)
class Receiver(Way):
    """Who is told of alerts. `kind`: webhook, slack, mail, or alertmanager (`url` is Alertmanager's own address, and it
    takes `username` and `password`, too).

    `routes`: which alerts, any of them: each is a table of matchers as a silence has them, all of which must fit
    (`rule`, `severity` or a label, and its value, or `~` and an expression); without routes all alerts.
    `send_resolved`: it is told of the end, too, of what it was told. What goes on is told again each `repeat_s`, 0:
    after 4 hours, and after a minute to Alertmanager, which else takes it for resolved.
    """

    name: str
    kind: Literal["webhook", "slack", "alertmanager", "mail"]
    routes: tuple[Mapping[str, str], ...] = ()
    send_resolved: bool = True
    repeat_s: float = 0.0


@dataclass(frozen=True)
class AlertRule:
    """A rule of one's own, or of a built-in one what is to be otherwise; docs/alerts.md has them.

    Of a built-in rule's `name`, what is left out stays as it is: `parameters` are its thresholds, `enabled` false
    switches it off. A rule of one's own needs `sql` and `summary`.
    """

    name: str
    enabled: bool = True
    sql: str = ""
    summary: str = ""
    description: str = ""
    severity: Literal["", "info", "warning", "critical"] = ""
    for_s: float | None = None
    keep_s: float | None = None
    every_s: float | None = None
    unit: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True)
class Trigger:
    """Alerts that fire and fit `match` (matchers as a silence has them: `rule`, `severity` or a label, and its value,
    or `~` and an expression) ask for a capture of their job, or of their host where they name no job.

    `duration_ms` or `iterations`, half a second without either, and the rest as in `warpmeter capture`. Of a job, or
    host, there are at most `per_job_per_day` captures, `cooldown_s` apart, and for a rule at most `per_day`.
    """

    name: str
    match: Mapping[str, str] = field(default_factory=dict)
    duration_ms: int = 0
    iterations: int = 0
    process_limit: int = 8
    shapes: bool = False
    memory: bool = False
    stacks: bool = False
    flops: bool = False
    modules: bool = False
    per_job_per_day: int = 3
    per_day: int = 20
    cooldown_s: float = 3600.0


@dataclass(frozen=True)
class Alerts:
    """Alerts, which the elected scheduler evaluates each `evaluate_s`, a rule in `rule_s` of the store's time at most.

    What goes on is published again each `repeat_s`. A subject that fired `flaps` times within `flap_s` is flapping: its
    alert goes on until the condition has been gone for `flap_keep_s`.
    `receivers` are told; without one, alerts are in the store and on the page alone. `triggers` ask for captures, all
    of them together for at most `captures_per_day`; without one, no alert does.
    """

    enabled: bool = True
    evaluate_s: float = 60.0
    rule_s: float = 10.0
    rule_memory: int = 2 << 30
    repeat_s: float = 6 * 3600.0
    flaps: int = 4
    flap_s: float = 3600.0
    flap_keep_s: float = 1800.0
    captures_per_day: int = 50
    rules: tuple[AlertRule, ...] = ()
    receivers: tuple[Receiver, ...] = ()
    triggers: tuple[Trigger, ...] = ()


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


@dataclass(frozen=True)
class Settings:
    """All of it. One TOML table a field; environment variables `WARPMETER_<TABLE>__<KEY>`."""

    kafka: Kafka = field(default_factory=Kafka)
    store: Store = field(default_factory=Store)
    log: Log = field(default_factory=Log)
    metrics: Metrics = field(default_factory=Metrics)
    agent: Agent = field(default_factory=Agent)
    ingest: Ingest = field(default_factory=Ingest)
    engine: Engine = field(default_factory=Engine)
    traces: Traces = field(default_factory=Traces)
    scheduler: Scheduler = field(default_factory=Scheduler)
    web: Web = field(default_factory=Web)
    reports: Reports = field(default_factory=Reports)
    alerts: Alerts = field(default_factory=Alerts)

    @property
    def page(self) -> str:
        """Where links of reports and alerts lead: reports.page, else where a browser on this machine finds the page."""
        return (self.reports.page or self.web.address).rstrip("/")
