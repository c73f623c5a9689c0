"""docs/views.md: the stable interface in SQL, column by column, as the engine describes it."""

from pathlib import Path

from tests.tables import ask
from warpmeter.store import Client

PAGE = Path(__file__).parents[2] / "docs" / "views.md"
VIEWS = {
    "hosts": (
        "one row a host: is it there, and how is it; `state` is ok, failing (a source of its agent fails, or a GPU is "
        "gone or failing: `problems` says which and why) or silent"
    ),
    "gpus": "one row a GPU or MIG instance with its latest values; `state` is ok, gone or silent",
    "gpu_statuses": (
        "the view `gpus` with `xids`, those that stand, `problems`, what somebody must look at (XIDs, memory errors "
        "that ECC could not mend since the driver was loaded, heat, a power brake or the hardware that hold its clocks "
        "down), and `status`: busy, idle, failing (it has problems) or gone"
    ),
    "gpu_xids": "one row a time that a GPU reported an XID: when, how often, and whether it is over (`cleared_at`)",
    "gpu_sources": "one row a GPU and column: which source gives it, and the GPU's driver",
    "jobs": "one row a job over all its hosts and ranks; `state` is running, ended or lost",
    "job_efficiency": "one row a job: its GPU hours, and how well they were used",
    "idle_gpus": "one row a GPU that does nothing: since when, and who holds it",
    "source_health_now": "the last word of every source of every agent: what could not be read, and why",
    "captures": "one row a capture: who asked, how it stands, what came of it, with the state of each rank",
    "capture_ranks": "one row a process of a capture: its state, why it failed, its trace; `pid` NULL: a host",
    "schedules": (
        "one row a schedule of captures that holds: what was set last; those that `scheduler` set stand in its "
        "settings, where alone they are changed"
    ),
    "capture_summary": "one row a capture that is loaded (traces.md): how its GPUs' time was spent, and who held it up",
    "kernel_regressions": (
        "one row a kernel, week, workload and GPU model: its mean duration against the weeks before; "
        "`regressed` says that it got slower"
    ),
    "stragglers": "one row a rank for which the others of its capture waited: how long, and why it was late",
}
HEATMAP = """## gpu_heatmap

A view with parameters: one row a GPU, with an array of one value a step.

```sql
SELECT * FROM gpu_heatmap(metric = 'gpu_util', since = now() - 3600, until = now(), step_s = 60)
```

`metric` is the SI name of any GPU metric that is *kept* (docs/metrics.md); a rollup is used where the step allows.
"""

WINDOWS = """## Windows

Tables of what is kept long after the raw rows are gone: `host_windows_1m` and `_1h`, `job_windows_1m` and `_1h`,
`fleet_windows_1m` and `_1h`, `gpu_heatmap_1m` and `_1h`, `device_windows_1h`; of sampled stacks `stack_windows_1h`,
which the view `stack_hours` shows under the columns of `stack_samples` ([stacks.md](stacks.md#tables)).
A window lies in several rows until the engine merges them, so always group by its key; a column's type names the
function (`DESCRIBE job_windows_1h`). What ends in `_seconds` is a value times its seconds, in `_known_seconds` the
seconds in which it was known: the first over the second is the mean.

```sql
SELECT job_id, window, sum(gpu_seconds) / 3600 AS gpu_hours,
       sum(gpu_util_seconds) / sum(gpu_util_known_seconds) AS gpu_util, max(rss_bytes_max) AS rss_bytes
FROM job_windows_1h GROUP BY job_id, window ORDER BY window, job_id
```
"""


def page(tables: Client) -> str:
    """The page as it should be."""
    parts = ["# Views\n\nWhat analysts use; names and meanings stay. Kept current by a test.\n"]
    for view, meaning in VIEWS.items():
        columns = ask(tables, f"DESCRIBE {view}")
        lines = [f"| `{name}` | {' '.join(kind.split())} |" for name, kind, *_ in columns]
        parts.append("\n".join([f"## {view}\n\n{meaning}\n\n| column | type |\n|---|---|", *lines]) + "\n")
    return "\n".join([*parts, HEATMAP, WINDOWS])


def test_the_page_says_what_the_views_have(tables: Client, update: bool) -> None:
    if update:
        PAGE.write_text(page(tables))
    assert PAGE.read_text() == page(tables), "run pytest with --update, and look at what changed"


def test_the_query_of_the_windows_can_be_asked(tables: Client) -> None:
    assert ask(tables, WINDOWS.partition("```sql\n")[2].partition("```")[0]) == []
    for name in ("host_windows", "job_windows", "fleet_windows", "gpu_heatmap"):
        for step in ("1m", "1h"):
            ask(tables, f"DESCRIBE {name}_{step}")
