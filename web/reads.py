"""What the API asks the store: named queries, bounded, as rows or as the engine's own JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from warpmeter import queries, store
from warpmeter.settings import Store, Web

FORMAT: Final[Mapping[str, Any]] = {
    "date_time_output_format": "iso",
    "output_format_json_quote_64bit_integers": 0,
    "output_format_json_quote_denormals": 0,
}
"""JSON as browsers take it: ISO times, plain numbers, null for what is not a number."""


@dataclass(frozen=True)
class Reads:
    """Named queries of `sql/queries` for a request, each bounded in time, rows and memory by the settings.

    Each thread has a client of its own (`store.client`), so call it from worker threads: endpoints are plain `def`.
    """

    store: Store
    limits: Web

    def rows(self, name: str, **given: object) -> list[dict[str, Any]]:
        """Rows of a query as dicts. Raises QueryError for what it was given, ClickHouseError from the store."""
        query = queries.get(name)
        result = store.client(self.store).query(query.sql, query.values(_texts(given)), settings=self._bounds())
        return list(result.named_results())

    def json(self, name: str, form: str = "JSONColumns", **given: object) -> bytes:
        """The engine's own JSON of a query, untouched: for answers too large to be worth a look from Python.

        `form` is ClickHouse's: JSONColumns is `{"host": [...], "values": [...]}`. Raises as `rows` does.
        """
        query = queries.get(name)
        settings = {**self._bounds(), **FORMAT}
        return store.client(self.store).raw_query(query.sql, query.values(_texts(given)), settings=settings, fmt=form)

    def _bounds(self) -> dict[str, Any]:
        return {"max_execution_time": self.limits.query_s, "max_result_rows": self.limits.query_rows}


def _texts(given: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in given.items() if value is not None}
