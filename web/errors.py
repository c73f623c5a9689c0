"""Errors of what the API stands on, as answers that say what happened: nothing becomes a bare 500."""

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from warpmeter import store
from warpmeter.queries import QueryError


def register(app: FastAPI) -> None:
    """Answer the errors that endpoints let through, a validation error in FastAPI's own form."""

    @app.exception_handler(QueryError)
    def refused(_: Request, error: QueryError) -> JSONResponse:
        where = ["query", error.parameter] if error.parameter else ["query"]
        return JSONResponse({"detail": [{"type": "value_error", "loc": where, "msg": str(error)}]}, 422)

    @app.exception_handler(store.ClickHouseError)
    def store_failed(_: Request, error: store.ClickHouseError) -> JSONResponse:
        return JSONResponse({"detail": store.reason(error)}, 503)
