"""The named queries: the SQL behind every panel, for programs and for Grafana."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final

from fastapi import APIRouter, HTTPException, Path, Request, Response
from pydantic import BaseModel, Field

from warpmeter import queries
from warpmeter.store import ClickHouseError, cause, code
from warpmeter.web.request.access import Viewer
from warpmeter.web.request.context import Asking
from warpmeter.web.request.times import invalid
from warpmeter.web.store import grids
from warpmeter.web.store.grids import Form, Grid

router = APIRouter(tags=["queries"])

ANY: Final[dict[str, Any]] = {
    "parameters": [
        {
            "name": "parameters",
            "in": "query",
            "description": "The query's own parameters, by name (see /queries); those with a default may be left out.",
            "style": "form",
            "explode": True,
            "schema": {"type": "object", "additionalProperties": {"type": "string"}},
            "example": {"since": "-6h"},
        }
    ]
}
OF_VALUES: Final = frozenset({6, 27, 32, 36, 41, 69, 72, 153, 457})
"""ClickHouse's codes of what comes of a parameter's value: no number, no time, too many steps, a step of 0 seconds."""
OF_NAMES: Final = frozenset({47, 60})
"""Of a table or a column that is not there; where the caller chose none, the tables are not as they should be."""
BLAMED: Final = re.compile(r"for query parameter '(\w+)'")
PLAIN: Final = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
CSV: Final[dict[int | str, dict[str, Any]]] = {
    200: {"model": Grid, "content": {"text/csv": {}}},
    404: {"description": "There is no such query."},
}


class Parameter(BaseModel):
    """What a query asks for."""

    name: str = Field(examples=["since"])
    type: str = Field(description="ClickHouse's.", examples=["DateTime('UTC')"])
    default: str | None = Field(description="Null: it must be given.", examples=["-24h"])
    meaning: str = Field(examples=["start of the window"])


class Named(BaseModel):
    """A named query. `sql` takes `parameters` by name, as `{name:Type}`."""

    name: str = Field(examples=["top_idle_gpus"])
    question: str = Field(examples=["Which GPUs were idle for longest?"])
    description: str
    parameters: list[Parameter]
    sql: str


class NamedQueries(BaseModel):
    """All of them, by name."""

    data: list[Named]
    total: int
    next: int | None = None


@router.get("/queries")
def listed(_: Viewer) -> NamedQueries:
    """Which named queries are there, and what do they ask for?"""
    every = [_named(query) for query in queries.every()]
    return NamedQueries(data=every, total=len(every))


@router.get("/queries/{name}", response_model=Grid, responses=CSV, openapi_extra=ANY)
def answered(
    request: Request,
    reads: Asking,
    _: Viewer,
    name: Annotated[str, Path(examples=["top_idle_gpus"])],
    form: Form = "json",
) -> Grid | Response:
    """Rows of a named query, as many as the SQL console gives. Times may be relative: `since=-6h`."""
    if name not in queries.names():
        raise HTTPException(404, f"there is no query {name}; /queries lists them")
    query, given = queries.get(name), _given(request)
    _refuse_far_names(query, given)
    web = reads.limits
    bounds = reads.within(
        {
            "max_execution_time": web.query_s,
            "max_memory_usage": web.query_memory,
            "max_result_bytes": web.sql_bytes,
            "limit": web.sql_rows + 1,
        }
    )
    with _blamed(query, given):
        if form == "csv":
            return grids.csv(reads.raw(query, given, "CSVWithNames", {**bounds, "limit": web.sql_rows}), name)
        return grids.grid(reads.raw(query, given, "JSONCompact", bounds), web.sql_rows)


@contextmanager
def _blamed(query: queries.Query, given: Mapping[str, str]) -> Iterator[None]:
    """What the store refuses for what was given is the caller's to mend: 422."""
    try:
        yield
    except ClickHouseError as error:
        named = any(each.type == "Identifier" and each.name in given for each in query.parameters)
        if not given or code(error) not in (OF_VALUES | OF_NAMES if named else OF_VALUES):
            raise
        found = BLAMED.search(cause(error))
        where = ["query", found[1]] if found else ["query"]
        raise HTTPException(422, [{"type": "value_error", "loc": where, "msg": cause(error)}]) from error


def _given(request: Request) -> dict[str, str]:
    pairs = [(name, value) for name, value in request.query_params.multi_items() if name != "format"]
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1:
            raise invalid(name, f"{name} was given {times} times")
    for name, value in pairs:
        if "\0" in value:
            raise invalid(name, "it has a NUL, which no parameter can hold")
    return dict(pairs)


def _refuse_far_names(query: queries.Query, given: Mapping[str, str]) -> None:
    """Where a query lets a table or column be chosen, it is one of this database's."""
    for parameter in query.parameters:
        value = given.get(parameter.name, "")
        if parameter.type == "Identifier" and value and not PLAIN.fullmatch(value):
            raise invalid(parameter.name, "it must be the plain name of a table or column", value)


def _named(query: queries.Query) -> Named:
    parameters = [Parameter(name=p.name, type=p.type, default=p.default, meaning=p.meaning) for p in query.parameters]
    return Named(
        name=query.name, question=query.question, description=query.description, parameters=parameters, sql=query.sql
    )
