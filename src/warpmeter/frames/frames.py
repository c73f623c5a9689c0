"""`Frames`: a store, asked for frames."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, tzinfo
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from warpmeter import queries
from warpmeter.frames import asking, dtypes, grids, units
from warpmeter.frames.asking import AskError
from warpmeter.frames.grids import By, Line
from warpmeter.frames.sources import Answer, Source
from warpmeter.queries import QueryError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW_HOSTS: Final = 16
"""So many are asked for one by one; of more, all are read and the others left out."""
STREAMED_ROWS: Final = 100_000
SINCE: Final = "{since:DateTime('UTC')}"
UNTIL: Final = "{until:DateTime('UTC')}"
Stream = Generator[pd.DataFrame, None, None]


class Frames:
    """Frames of one store, until it is closed. Threads may share it.

    Every frame has `attrs["units"]`, the units of its columns; times are of the zone that `connect` was given.
    Every method raises AskError, which says what to do.
    """

    def __init__(self, source: Source, zone: tzinfo) -> None:
        self._source = source
        self._zone = zone

    def close(self) -> None:
        """Let go of the store."""
        self._source.close()

    def __enter__(self) -> "Frames":
        return self

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # --- SQL ---------------------------------------------------------------------------------------------------------

    def sql(self, text: str, /, **parameters: Any) -> pd.DataFrame:
        """What one reading statement answers. Parameters stand in it as `{name:Type}`."""
        asked = asking.statement(text, parameters, self._zone)
        with self._source.answer(asked) as answer:
            return self._whole(answer)

    def query(self, name: str, /, **parameters: Any) -> pd.DataFrame:
        """What a named query answers (docs/cookbook.md, `warpmeter queries`); times as for `sql`."""
        found = self._named(name)
        types = {each.name: each.type for each in found.parameters}
        given = {key: self._said(key, types.get(key, "String"), value) for key, value in parameters.items()}
        with self._answered(found, given) as answer:
            return self._whole(answer)

    def stream(self, text: str, /, rows: int = STREAMED_ROWS, **parameters: Any) -> Stream:
        """The same as `sql`, in frames of `rows` rows, read as they are asked for: for what memory does not hold.

        The store goes on with the answer until the generator is exhausted or closed.
        """
        if rows < 1:
            raise AskError(f"rows={rows}: a frame has at least one")
        asked = asking.statement(text, parameters, self._zone)
        return self._streamed(asked, rows)

    def _streamed(self, asked: queries.Statement, rows: int) -> Stream:
        with self._source.answer(asked, stream=True) as answer:
            for blocks in _regrouped(answer.blocks, rows):
                yield self._told(dtypes.frame(answer.columns, blocks, self._zone))

    # --- over time ---------------------------------------------------------------------------------------------------

    def heatmap(
        self, metric: str, since: Any = "-6h", until: Any = "now", step: Any = None, *,
        hosts: str | Sequence[str] = (), job: str = "",
    ) -> pd.DataFrame:  # fmt: skip
        """A metric's mean by GPU (rows: host, gpu, uuid) and step of time (columns), NaN where it is not known.

        `step`: seconds, a timedelta or `15m`; without, at most 300 steps. Whole minutes and hours are read from the
        rollups, others from raw samples. `attrs` has `metric`, `unit` and `step_s`.
        """
        of, when = grids.metric(metric), self._window(since, until, step)
        wanted = [hosts] if isinstance(hosts, str) else list(hosts)
        each = wanted if 0 < len(wanted) <= FEW_HOSTS else [""]
        parts = [self._rows(grids.heatmap(of, when, host, job)) for host in each]
        rows = pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]
        if len(wanted) > FEW_HOSTS:
            rows = rows[rows["host"].isin(wanted)]
        times = when.times(self._zone)
        keys = [rows[name].astype(str if name != "gpu" else int) for name in ("host", "gpu", "uuid")]
        index = pd.MultiIndex.from_arrays(keys, names=["host", "gpu", "uuid"])
        found = pd.DataFrame(grids.matrix(list(rows["values"]), len(times)), index=index, columns=times)
        found.attrs.update(metric=of.name, unit=of.unit, step_s=when.step_s)
        return found

    def series(
        self, metric: str, since: Any = "-6h", until: Any = "now", step: Any = None, *,
        host: str = "", gpu: int | str = "", job: str = "", by: By = "", top: int = 100,
    ) -> pd.DataFrame:  # fmt: skip
        """A metric's mean in each step of time (rows), a column a line.

        `by`: fleet, host, gpu, or job; without, GPUs where a host, GPU or job is named, else the fleet; hosts for what
        is measured of hosts (`cpu_util`). `gpu`: index or UUID. `top`: the lines with the highest means. Steps as
        for `heatmap`.
        """
        of, when = grids.metric(metric), self._window(since, until, step)
        rows = self._rows(grids.series(of, when, Line(by, host, str(gpu), job, top)))
        times = when.times(self._zone)
        names = pd.Index(rows["key"].astype(str), dtype=object, name="series")
        found = pd.DataFrame(grids.matrix(list(rows["values"]), len(times)).T, index=times, columns=names)
        if "total" in rows and len(rows):
            grids.warn_of_more(len(rows), int(rows["total"].iloc[0]))
        found.attrs.update(metric=of.name, unit=of.unit, step_s=when.step_s)
        return found

    def _window(self, since: Any, until: Any, step: Any) -> grids.Window:
        length = None if step is None else asking.seconds(step)
        begin, end = asking.moment(since, self._zone), asking.moment(until, self._zone)
        return grids.window(begin, end, length)

    def _rows(self, asked: grids.Asked) -> pd.DataFrame:
        with self._answered(self._named(asked.query), asked.given) as answer:
            return self._whole(answer)

    # --- what there is -----------------------------------------------------------------------------------------------

    def hosts(self) -> pd.DataFrame:
        """The view `hosts`: one row a host, as it is now."""
        return self.sql("SELECT * FROM hosts ORDER BY host")

    def gpus(self, host: str = "") -> pd.DataFrame:
        """The view `gpu_statuses`: one row a GPU or MIG instance, as it is now."""
        return self.sql(f"SELECT * FROM gpu_statuses WHERE {_only('host')} ORDER BY host, gpu, uuid", host=host)

    def jobs(
        self,
        since: Any = "-7d",
        until: Any = "now",
        *,
        state: str = "",
        user: str = "",
        name: str = "",
        account: str = "",
    ) -> pd.DataFrame:
        """The view `jobs`: one row a job that was there in the window, the latest first; of a state or user alone."""
        return self.sql(
            f"SELECT * FROM jobs WHERE last_seen_at >= {SINCE} AND started_at < {UNTIL} + 1 AND "
            f"{_only('state')} AND {_only('user')} AND {_only('name')} AND {_only('account')} "
            "ORDER BY started_at DESC, job_id",
            **{"since": since, "until": until, "state": state, "user": user, "name": name, "account": account},
        )

    def captures(self, since: Any = "-30d", until: Any = "now", *, job: str = "") -> pd.DataFrame:
        """The view `captures`: one row a capture that was asked for in the window, the latest first."""
        return self.sql(
            f"SELECT * FROM captures WHERE requested_at >= {SINCE} AND requested_at < {UNTIL} + 1 "
            f"AND {_only('job_id')} ORDER BY requested_at DESC, capture_id",
            **{"since": since, "until": until, "job_id": job},
        )

    def trace_kernels(self, capture: str, *, rank: int | None = None) -> pd.DataFrame:
        """The view `trace_kernels` of an analysed capture: one row a rank and kernel, what took longest first.

        It has no row where the capture's traces have no kernel of a GPU. Raises AskError where nothing of that capture
        is loaded.
        """
        about = {"capture": capture, "rank": rank}
        wanted = "capture_id = {capture:String} AND ({rank:Nullable(UInt32)} IS NULL OR rank = {rank:Nullable(UInt32)})"
        found = self.sql(f"SELECT * FROM trace_kernels WHERE {wanted} ORDER BY total_ns DESC, rank, name", **about)
        ranks = f"SELECT count() AS ranks FROM trace_ranks WHERE {wanted}"
        if found.empty and not self.sql(ranks, **about)["ranks"][0]:
            of = "" if rank is None else f" of rank {rank}"
            raise AskError(f"nothing{of} of a capture {capture!r} is loaded: query('captures_analysed') lists those")
        return found

    def alerts(self, since: Any = "-7d", until: Any = "now", *, state: str = "", rule: str = "") -> pd.DataFrame:
        """The view `alerts_now`: one row an alert that began in the window or is open still, the latest first."""
        return self.sql(
            f"SELECT * FROM alerts_now WHERE (started_at >= {SINCE} OR state IN ('pending', 'firing')) "
            f"AND started_at < {UNTIL} + 1 AND {_only('state')} AND {_only('rule')} ORDER BY started_at DESC, alert_id",
            **{"since": since, "until": until, "state": state, "rule": rule},
        )

    # --- drawn -------------------------------------------------------------------------------------------------------

    @staticmethod
    def plot_heatmap(found: pd.DataFrame, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """A frame of `heatmap` as colours; see `warpmeter.frames.plots`."""
        from warpmeter.frames import plots

        return plots.heatmap(found, ax, **options)

    @staticmethod
    def plot_series(found: pd.DataFrame, ax: "Axes | None" = None, **options: Any) -> "Axes":
        """A frame of `series` as lines; see `warpmeter.frames.plots`."""
        from warpmeter.frames import plots

        return plots.series(found, ax, **options)

    # --- within ------------------------------------------------------------------------------------------------------

    def _named(self, name: str) -> queries.Query:
        try:
            return queries.get(name)
        except QueryError as error:
            import difflib

            meant = difflib.get_close_matches(name, queries.names(), 3, 0.5)
            if not meant:
                raise AskError(str(error)) from error
            raise AskError(f"there is no query {name}; did you mean {', '.join(meant)}?") from error

    def _said(self, key: str, kind: str, value: Any) -> str:
        """A value as a named query takes it: text."""
        if value is None:
            raise AskError(f"{key} is None: leave it out for its default")
        if kind.startswith("DateTime"):
            return asking.moment(value, self._zone).astimezone(UTC).isoformat()
        if isinstance(value, bool):
            return str(int(value))
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

    @contextmanager
    def _answered(self, found: queries.Query, given: Mapping[str, str]) -> Iterator[Answer]:
        try:
            asked = found.statement(given)
        except QueryError as error:
            raise AskError(str(error)) from error
        with self._source.named(found, asked) as answer:
            yield answer

    def _whole(self, answer: Answer) -> pd.DataFrame:
        return self._told(dtypes.frame(answer.columns, list(answer.blocks), self._zone))

    @staticmethod
    def _told(found: pd.DataFrame) -> pd.DataFrame:
        found.attrs["units"] = units.of_columns(map(str, found.columns))
        return found


def _regrouped(blocks: Iterator[pd.DataFrame], rows: int) -> Iterator[list[pd.DataFrame]]:
    """Blocks cut and gathered to `rows` rows each, but the last."""
    held: list[pd.DataFrame] = []
    count = 0
    for block in blocks:
        start = 0
        while len(block) - start >= rows - count:
            yield [*held, block.iloc[start : start + rows - count]]
            start, held, count = start + rows - count, [], 0
        if start < len(block):
            held.append(block.iloc[start:])
            count += len(block) - start
    if held:
        yield held


def _only(column: str) -> str:
    """A condition that holds for all where nothing is given."""
    given = f"{{{column}:String}}"
    return f"({given} = '' OR {column} = {given})"
