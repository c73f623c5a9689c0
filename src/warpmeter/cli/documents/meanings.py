"""What each setting means, in a few words; how they work together stands with their tables in `warpmeter.settings`."""

from typing import Final

_SENDING: Final = """
name: its own name
kind: which way it is told
url: where to: a folder, the incoming webhook, the server; its path is masked when shown
url_file: the file that holds `url`
host: the mail server
port: its port; 0: that of `tls`
tls: how the mail server is spoken to
username: who logs in there
password: with this; better in `password_file`
password_file: the file that holds `password`
sender: the address that mails come from
to: the addresses that they go to
headers: sent with every request
token: sent as a bearer token; better in `token_file`
token_file: the file that holds `token`
secret: the JSON is signed with it; better in `secret_file`
secret_file: the file that holds `secret`
ca_file: authorities to believe in place of the machine's, PEM
timeout_s: seconds that one attempt may take
"""
_CAPTURED: Final = """
process_limit: the most processes that are traced; 0: all
duration_ms: how long a trace is
iterations: in place of a duration: so many optimizer steps
shapes: with the shapes of tensors
memory: with allocations
stacks: with Python stacks
flops: with operations counted
modules: with the modules of the model
"""

TEXTS: Final = {
    "kafka": """
bootstrap_servers: brokers to begin with, host:port separated by commas
topic_prefix: topics are called PREFIX.gpu-samples and so on, groups PREFIX-ingest
partitions: partitions of a new topic; without it, what docs/architecture.md says of each
replication_factor: copies of a new topic; -1: what the brokers have as default
options: librdkafka's own settings (SASL, TLS); they win over ours
schema_registry_url: a registry of Confluent's API; values then carry its framing
schema_registry_token: logs in there, as a bearer's
schema_registry_ca_file: authorities to believe there, PEM
min_insync_replicas: copies that a new topic's brokers wait for; without it 2 where there are three
compression: of what brokers keep
retention_hours: of topics by their short names, in place of the topic table's
""",
    "store": """
dsn: the address, with user and password: http(s)://user:password@host:8123, or chdb:///path
database: the database that all tables are in
cluster: the cluster's name in ClickHouse; its tables are replicated then
shards: the address of each shard's server, in their order
insert_quorum: an insert is done when most replicas have it
storage_policy: the policy of the tables' volumes
cold_after_days: rows move to the volume `cold` after so many days; 0: never
raw_ttl_days: days that raw rows are kept
minute_ttl_days: days that the rows of minutes are kept
hour_ttl_days: days that the rows of hours are kept
""",
    "log": """
level: what is logged, and all that is graver
format: for people, or a JSON object a line
""",
    "metrics": """
listen: the address that a process's own metrics are served at
agent_port: the agent's; 0: none
ingest_port: that of ingest; a second one on a host needs another
engine_port: the embedded engine's
scheduler_port: the scheduler's
web_port: that of page and API
""",
    "agent": """
host: the name under which all rows of this host are stored
interval_s: seconds between samples of GPUs and host
device_interval_s: of NICs, RDMA ports and disks
job_interval_s: of jobs and their processes
job_event_interval_s: a running job is told of as often
pace_interval_s: how often the steps of optimizers are looked at
health_interval_s: how often sources tell of themselves
root: the folder that holds `proc` and `sys`; in a container the host's
job_pattern: expression on the tree of a process that makes it a job's; empty: the one of docs/jobs.md
job_ignore: expression that makes it none
gpu: read GPUs
ethtool: read what network adapters count
rdma: read RDMA ports
mounts: read file systems
mount_interval_s: how often
mount_ignore: expression on mount points that are left out
numa: read NUMA nodes
numa_interval_s: how often
cpu_counters: read instructions, cycles and cache misses
cpu_counter_interval_s: how often
scrape: Prometheus endpoints to read
spool_dir: where rows wait while Kafka is away
spool_max_bytes: how much waits there; then the oldest go, and it is counted
spool_max_age_s: how old it may become
queue_max_bytes: what waits in memory
outputs: the ways out, several at once
names: what metrics are called on standard output and at /metrics
otlp_url: a collector's address
otlp_headers: sent with every export
otlp_interval_s: seconds between exports
otlp_queue_max_bytes: what waits while the collector is away
kineto: PyTorch processes may register, to be traced on demand
kineto_socket_dir: the folder of its socket, the KINETO_IPC_SOCKET_DIR of jobs
command_wait_s: how long the broker may keep a request for commands
stacks: sample stacks of Python processes
stacks_interval_s: one turn of sampling each
stacks_sampling_s: how long a turn samples
stacks_rate_hz: samples a second
stacks_processes: how many processes are sampled at once
stacks_idle: also threads that wait
stacks_native: also C frames; pauses the process at each sample
stacks_blocking: pause the process at each sample
stacks_subprocesses: also what a rank's first process started
stacks_perf: the whole host, through perf
stacks_paths: expressions on paths of files, and what becomes of each match
rpc: answer dynolog's protocol
rpc_address: at this address
rpc_port: and port
rpc_tls_certificate: PEM; with it the port speaks TLS
rpc_tls_key: its key
rpc_token: what callers from elsewhere must send
""",
    "agent.scrape": """
name: its own name, in the health of sources
url: the endpoint, without credentials
page: what it is: any exporter, DCGM's, or Intel PCM's
period_s: seconds between reads
timeout_s: what a read may take
allow: expression on whole metric names that are taken
deny: and of those that are not
labels: labels to rename; to '' drops one
max_series: the most series that are taken of a page
max_bytes: the largest page that is read
username: for basic authentication
password_file: the file that holds its password
token_file: the file that holds a bearer token
ca_file: authorities to believe, PEM
""",
    "ingest": """
group: the consumer group, one a store; without it PREFIX-ingest, by kafka.topic_prefix
topics: only these; empty: all
batch_bytes: a batch closes at so many bytes
batch_rows: at so many rows
batch_age_s: or at this age
budget_bytes: what all open batches may hold together
session_timeout_s: after so long without a sign it is taken for dead
settle_after_s: when idle, offsets are committed after so long
ledger_dir: a folder for boundaries, where the broker keeps no metadata of commits
reject_window: of so many messages in a row
reject_share: this share may be refused before it halts
read_out: read topics to their end before stopping
""",
    "engine": """
data: the data folder
listen: the address that it is served at
port: the port of ClickHouse's HTTP protocol
write_token: the password of who may write; everybody else reads
threads: threads of the server
""",
    "traces": """
url: the trace store: a folder, or a URL such as s3://bucket/traces
options: fsspec's own for it: keys, endpoint
compression: of stored traces
max_file_bytes: a larger trace is refused
keep_days: days that traces are kept; 0: for ever
keep_bytes: bytes of traces that are kept; 0: no limit
""",
    "scheduler": """
group: the consumer group that elects the active one; without it PREFIX-scheduler, by kafka.topic_prefix
session_timeout_s: after so long without a sign another takes over
look_s: hosts answer a request within
resolve_s: a request is resolved to processes within
cancel_s: an end is acknowledged within
grace_s: a trace is stored so long after its end, or has failed
iteration_s: the longest step of an optimizer
request_age_s: an older request is not begun
analyse: analyse and load what is captured
analyse_s: seconds that an analysis may take
analyse_bytes: memory that it may take
data: a folder of its own
jobs_url: where the times of schedules are kept, as SQLAlchemy names databases; by default a file in `data`
schedules: captures by themselves
""",
    "scheduler.schedules": f"""
name: its own name
cron: five fields
every_s: or each so many seconds
at: or once, at this ISO time
timezone: of `cron`
jitter_s: each run is later by up to so much
late_s: a run that was missed is made up for within
job: of this job
hosts: of these hosts
where: of jobs for which this SQL holds
count: so many captures a run
{_CAPTURED}""",
    "web": """
listen: the address; beyond loopback `tokens` or `proxies` are needed
port: the port
hosts: names that browsers know it by
tls_certificate: PEM, with the chain
tls_key: its key
tokens: who may look and change
session_secret: signs the cookies of who logged in; by default made at each start
session_s: how long a login is good
proxies: addresses or networks of proxies that are believed
user_header: the header in which a proxy names the user
groups_header: and the user's groups
operator_groups: whose members are operators
viewer_groups: whose members may look; empty: everybody whom the proxy lets through
writes_per_minute: requests that change something, of one caller
body_bytes: the largest request
query_s: seconds that a query may take
query_rows: rows that it may answer
query_bytes: bytes that it may answer
query_memory: bytes that it may hold in the store
sql: the SQL console
sql_s: seconds that a query of it may take
sql_rows: rows that it may answer
sql_bytes: bytes that it may answer
""",
    "web.tokens": """
name: who it is, in logs and in what people ask for
role: what they may do
token: the token itself; better in `token_file`
token_file: the file that holds it
""",
    "reports": """
url: where reports are kept: a folder, or a URL such as s3://bucket/reports
options: fsspec's own for it
keep_days: days that reports are kept; 0: for ever
settle_s: a report is made so long after its period's end
late_s: and waits for rows on their way so long at most
retry_s: a delivery that failed is tried again after; the waits double
give_up_s: for so long
page: where people reach the page, for links
price_per_kwh: price of a kilowatt hour; 0: not known
price_per_gpu_hour: price of an hour of a GPU; 0: not known
currency: of prices
schedules: reports by themselves
targets: where they go
""",
    "reports.schedules": """
name: its own name
report: which one
cron: five fields; none for report `job`
timezone: of `cron`, and of days
period: the last whole one
targets: names of targets
formats: what goes along
min_gpu_hours: a job is reported that used so many
where: and for which this SQL holds
""",
    "reports.targets": f"""
{_SENDING}
options: fsspec's own for a folder's `url`
attach: endings of the files that a mail or webhook carries
attach_bytes: the most bytes of them together
""",
    "alerts": """
enabled: evaluate rules
evaluate_s: how often
rule_s: seconds of the store's time that a rule may take
rule_memory: bytes of its memory
repeat_s: what goes on is published again
flaps: so many firings
flap_s: within so long are flapping
flap_keep_s: and end after so long without the condition
captures_per_day: the most captures of all triggers in a day
rules: rules of one's own, and changes of built-in ones
receivers: who is told
triggers: alerts that ask for a capture
""",
    "alerts.rules": """
name: its own name, or a built-in rule's
enabled: false switches it off
sql: the condition, one row a subject that it holds for
summary: what is told, with {columns} of the row
description: what to do
severity: how grave it is
for_s: it must hold so long
keep_s: and be gone so long
every_s: evaluated as often
unit: of the value
labels: labels of one's own
parameters: its thresholds
""",
    "alerts.receivers": f"""
{_SENDING}
routes: which alerts; without any, all
send_resolved: also that it is over
repeat_s: what goes on is told again
""",
    "alerts.triggers": f"""
name: its own name
match: of which alerts
per_job_per_day: the most captures of a job, or host, a day
per_day: and of a rule
cooldown_s: seconds between captures of a job
{_CAPTURED}""",
}
"""Table -> lines of `key: meaning`."""


def meanings() -> dict[str, str]:
    """`table.key` -> its meaning."""
    return {
        f"{table}.{key}": meaning
        for table, text in TEXTS.items()
        for key, _, meaning in (line.partition(": ") for line in text.splitlines() if line)
    }
