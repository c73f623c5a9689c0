"""The SQL console of operators."""

from typing import Any, Final, Literal

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from warpmeter.web.request.access import Operator
from warpmeter.web.request.context import Asking
from warpmeter.web.security import audit
from warpmeter.web.store import grids
from warpmeter.web.store.console import Console, StatementError
from warpmeter.web.store.grids import Grid

router = APIRouter(tags=["sql"])


class Statement(BaseModel):
    """One statement that reads: SELECT, WITH, SHOW, DESCRIBE, EXPLAIN, EXISTS; no FORMAT, no SETTINGS."""

    sql: str = Field(min_length=1, max_length=100_000, examples=["SELECT host, count() FROM gpus GROUP BY host"])
    format: Literal["json", "csv"] = "json"
    rows: int | None = Field(None, ge=1, description="How many rows, up to web.sql_rows.", examples=[1000])
    exact: bool = Field(False, description="Integers of 64 bits as strings, for languages that would round them.")


class Refused(BaseModel):
    """Why there is no answer, and where in the statement."""

    detail: str
    line: int | None = None
    column: int | None = None


ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/csv": {}}},
    400: {"model": Refused},
    403: {"model": Refused},
    429: {"model": Refused},
    503: {"model": Refused},
}


@router.post("/sql", response_model=Grid, responses=ANSWERS)
def run(request: Request, asked: Statement, reads: Asking, who: Operator) -> Grid | Response:
    """Run one read-only statement; its rows, or 400 with where it is wrong."""
    if not reads.limits.sql:
        raise HTTPException(403, "the SQL console is switched off (web.sql)")
    console: Console = request.app.state.console
    most = min(asked.rows or reads.limits.sql_rows, reads.limits.sql_rows)
    try:
        if asked.format == "csv":
            answer: Grid | Response = grids.csv(console.run(asked.sql, most, "CSVWithNames"), "rows")
        else:
            answer = grids.grid(console.run(asked.sql, most + 1, "JSONCompact", asked.exact), most)
    except StatementError as error:
        audit.record(who, "sql", sql=asked.sql, refused=error.why)
        again = {"retry-after": "1"} if error.status == 429 else {}
        return JSONResponse({"detail": error.why, "line": error.line, "column": error.column}, error.status, again)
    audit.record(who, "sql", sql=asked.sql)
    return answer
