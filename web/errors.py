"""Errors of what the API stands on, as answers that say what happened: nothing becomes a bare 500."""

from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from warpmeter import store
from warpmeter.queries import QueryError

SHORTER: Final = "ask for a shorter window, fewer rows or a longer step"
TOO_MUCH: Final = {
    159: (422, f"the store stopped it after web.query_s seconds: {SHORTER}"),
    241: (422, f"it needs more memory than web.query_memory bytes: {SHORTER}"),
    396: (422, f"its answer is larger than web.query_rows and web.query_bytes allow: {SHORTER}"),
}
"""ClickHouse's codes of what was asked for too much, as a status and what to do."""


def register(app: FastAPI) -> None:
    """Answer the errors that endpoints let through, a validation error in FastAPI's own form."""

    @app.exception_handler(QueryError)
    def refused(_: Request, error: QueryError) -> JSONResponse:
        where = ["query", error.parameter] if error.parameter else ["query"]
        return JSONResponse({"detail": [{"type": "value_error", "loc": where, "msg": str(error)}]}, 422)

    @app.exception_handler(store.ClickHouseError)
    def store_failed(_: Request, error: store.ClickHouseError) -> JSONResponse:
        status, what = TOO_MUCH.get(store.code(error) or 0, (503, ""))
        return JSONResponse({"detail": what or store.reason(error)}, status)
