"""Regressions out of the store: `found` asks the named queries and lets `detect` decide."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from warpmeter import queries
from warpmeter.regressions import detect
from warpmeter.regressions.kernels import kernel_changes
from warpmeter.regressions.metrics import METRICS
from warpmeter.regressions.runs import Row, Run, about, differs, read
from warpmeter.regressions.said import Moved, Regression
from warpmeter.store import Client

PAST: Final = timedelta(days=28)
LONG_S: Final = 12 * 3600
"""Runs that were there for so long in the window are looked at by the hour, others by five minutes."""
STARTING_S: Final = 600
"""The begin of a run is another thing: it loads and compiles."""
WHOLE: Final = 0.5
"""Windows that stand for less than so much of the usual GPU time are of a begin or an end."""
_JSON: Final = {"date_time_output_format": "iso", "output_format_json_quote_64bit_integers": 0}


class Ask(Protocol):
    """Rows of a named query."""

    def __call__(self, name: str, given: Mapping[str, str], /) -> Sequence[Row]: ...


@dataclass(frozen=True)
class Asked:
    """Which jobs: those that were there from `since` to `until` (as named queries take times). '' is any of them.

    `job_id`: this run alone. Runs are held against those of `PAST` before the window.
    """

    since: str = "-7d"
    until: str = "now"
    name: str = ""
    user: str = ""
    job_id: str = ""


def found(store: Client | Ask, asked: Asked = Asked()) -> list[Regression]:
    """Jobs that got slower, the largest change first. Raises QueryError for times that are none, ClickHouseError."""
    ask = of_client(store) if isinstance(store, Client) else store
    now = datetime.now(UTC)
    since, until = queries.moment(asked.since, now), queries.moment(asked.until, now)
    if since >= until:
        raise queries.QueryError(f"the window is empty: it begins {since} and ends {until}", "since")
    past = datetime.fromisoformat(since) - PAST
    subject = {"job": asked.name, "user": asked.user, "job_id": asked.job_id}
    window = {"since": since, "until": until, **subject}
    given = {**window, "past": f"{past:%Y-%m-%d %H:%M:%S}"}
    runs = read(*(ask(name, given) for name in ("regression_runs", "regression_figures", "regression_kernels")))
    between = [_explained(ask, given, each, runs) for group in runs.values() for each in _between(group)]
    within = list(_within(runs, _series(ask, window)))
    return sorted((*between, *within), key=lambda each: (-each.change, each.name, each.user, each.job_id, each.sort))


def of_client(client: Client) -> Ask:
    """Asks a client of the store."""

    def rows(name: str, given: Mapping[str, str]) -> Sequence[Row]:
        asked = queries.get(name).statement(given)
        answer = client.raw_query(asked.sql, dict(asked.values), settings=dict(_JSON), fmt="JSON")
        found: list[dict[str, Any]] = json.loads(answer)["data"]
        return found

    return rows


# --- between runs ---------------------------------------------------------------------------------------------------


def _between(runs: Sequence[Run]) -> Iterator[Regression]:
    """Of the runs of one job: what got worse, one regression of the latest run that is asked for and worse."""
    worse = {metric: _worse(runs, metric) for metric in METRICS}
    for at in range(len(runs) - 1, -1, -1):
        now = runs[at]
        if not now.asked:
            continue
        metrics = {metric: found[at] for metric, found in worse.items() if at in found}
        alone = [each for metric, each in metrics.items() if METRICS[metric].alone]
        since = min((each.since for each in alone), default=at)
        changes = kernel_changes(now, runs[:since])
        if alone or any(each.what == "slower" for each in changes):
            moved = [_moved(metric, each.past.middle, now.figures[metric]) for metric, each in metrics.items()]
            before = max((each.past.runs for each in alone), default=sum(bool(run.kernels) for run in runs[:since]))
            yield Regression(
                "between_runs", now.user, now.name, now.job_id, runs[since].started_at, runs[since].job_id,
                now.last_seen_at, before, tuple(moved), changes,
            )  # fmt: skip
            return


def _explained(
    ask: Ask, given: Mapping[str, str], found: Regression, runs: Mapping[tuple[str, str], Sequence[Run]]
) -> Regression:
    """With what else changed: asked for those alone that got worse."""
    whose = {"job": found.name, "user": found.user, "past": given["past"], "until": given["until"]}
    known = {row["job_id"]: about(row) for row in ask("regression_about", whose)}
    names = [run.job_id for run in runs[found.user, found.name]]
    past = [known[name] for name in names[: names.index(found.since_job)] if name in known]
    now = known.get(found.since_job)
    return found if now is None else replace(found, differs=differs(now, past))


def _worse(runs: Sequence[Run], metric: str) -> dict[int, detect.Worse]:
    """Of the runs in which it is known, by the places of all."""
    places = [at for at, run in enumerate(runs) if metric in run.figures]
    found = detect.worse_runs([runs[at].figures[metric] for at in places], METRICS[metric].up)
    return {places[each.at]: replace(each, at=places[each.at], since=places[each.since]) for each in found}


def _moved(metric: str, before: float, now: float) -> Moved:
    return Moved(metric, METRICS[metric].unit, before, now)


# --- within one -----------------------------------------------------------------------------------------------------


def _series(ask: Ask, window: Mapping[str, str]) -> list[Row]:
    """Of long runs by the hour, of others by five minutes."""
    short = {"shortest_s": "0", "longest_s": str(LONG_S)}
    long = {
        "windows": "job_windows_1h", "steps": "job_steps_1h", "step_s": "3600", "shortest_s": str(LONG_S + 1),
        "longest_s": str(1 << 40),
    }  # fmt: skip
    return [row for each in (short, long) for row in ask("regression_series", {**window, **each})]


def _within(runs: Mapping[tuple[str, str], Sequence[Run]], series: Sequence[Row]) -> Iterator[Regression]:
    known = {run.job_id: run for group in runs.values() for run in group}
    changed: dict[str, dict[str, tuple[float, detect.Change]]] = {}
    for row in series:
        run, metric = known.get(row["job_id"]), METRICS[row["metric"]]
        if run is not None and (found := _change(row, run, metric.up)) is not None:
            changed.setdefault(run.job_id, {})[metric.name] = found
    for job_id, of in changed.items():
        leading = [name for name in METRICS if name in of and METRICS[name].alone]
        if leading:
            run, at = known[job_id], datetime.fromtimestamp(of[leading[0]][0], UTC)
            moved = [_moved(name, of[name][1].before, of[name][1].after) for name in METRICS if name in of]
            yield Regression("within_run", run.user, run.name, job_id, at, job_id, run.last_seen_at, 0, tuple(moved))


def _change(row: Row, run: Run, up: bool) -> tuple[float, detect.Change] | None:
    """When it changed for the worse, seconds since the epoch, and how; None where it did not."""
    weights = sorted(row["weights"])
    usual = weights[len(weights) // 2]
    begun = run.started_at.timestamp() + STARTING_S
    kept = [
        (start, value)
        for start, value, weight in zip(row["starts"], row["values"], row["weights"], strict=True)
        if start >= begun and weight >= WHOLE * usual
    ]
    if len(kept) < detect.FEWEST_WINDOWS:
        return None
    change = detect.change_point([value for _, value in kept], up)
    return None if change is None else (float(kept[change.at][0]), change)
