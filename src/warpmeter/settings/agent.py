"""The host agent, what it scrapes, and where its traces go."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from warpmeter.settings.common import SECRET

Output = Literal["kafka", "stdout", "prometheus", "otlp"]


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
