"""Errors of what the API stands on, as answers that say what happened: nothing becomes a bare 500."""

import math
import re
from json import JSONDecodeError
from typing import Any, Final, cast

import msgspec
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from warpmeter import log, store
from warpmeter.queries import QueryError
from warpmeter.web.security.rates import Rates
from warpmeter.web.store.load import BusyError

SHORTER: Final = "ask for a shorter window, fewer rows or a longer step"
TOO_MUCH: Final = {
    159: f"the store stopped it, for it took longer than a query may (web.query_s): {SHORTER}",
    241: f"it needs more memory than a query may have (web.query_memory): {SHORTER}",
    396: f"its answer is larger than one may be (web.query_rows, web.query_bytes): {SHORTER}",
}
"""ClickHouse's codes of what was asked for too much, and what to do."""
TELLS_PER_MINUTE: Final = 1
"""Of one reason, in the log."""
AGAIN_S: Final = "5"
UNFIT: Final = (36, 457)
PARAMETER: Final = re.compile(r"(Value .*? cannot be parsed as \S+) for query parameter '(\w+)'", re.DOTALL)
"""What ClickHouse says to a value of another type than the query's."""


def register(app: FastAPI) -> None:
    """Answer the errors that endpoints let through, a validation error in FastAPI's own form."""
    told = Rates(TELLS_PER_MINUTE)

    @app.exception_handler(QueryError)
    def refused(_: Request, error: QueryError) -> JSONResponse:
        where = ["query", error.parameter] if error.parameter else ["query"]
        return JSONResponse({"detail": [{"type": "value_error", "loc": where, "msg": str(error)}]}, 422)

    @app.exception_handler(404)
    async def not_there(request: Request, error: Exception) -> Response:
        if getattr(error, "detail", None) == "Not Found":  # the framework's word for an address that is none
            why = f"there is nothing at {request.url.path}: /api/v1/openapi.json says what there is"
            error = HTTPException(404, [{"type": "missing", "loc": ["path"], "msg": why, "input": request.url.path}])
        return await http_exception_handler(request, cast(HTTPException, error))

    @app.exception_handler(RequestValidationError)
    def wrong(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"detail": [_sayable(each) for each in error.errors()]}, 422)

    @app.exception_handler(store.ClickHouseError)
    def store_failed(_: Request, error: store.ClickHouseError) -> JSONResponse:
        if isinstance(error, BusyError):
            return JSONResponse({"detail": str(error)}, 503, {"retry-after": AGAIN_S})
        code = store.code(error) or 0
        if code in UNFIT and (found := PARAMETER.search(str(error))):
            why = {"type": "value_error", "loc": ["query", found[2]], "msg": found[1]}
            return JSONResponse({"detail": [why]}, 422)
        if code in TOO_MUCH:
            return JSONResponse({"detail": [{"type": "too_much", "loc": ["query"], "msg": TOO_MUCH[code]}]}, 422)
        return _away(store.reason(error), told)

    @app.exception_handler(msgspec.DecodeError)
    @app.exception_handler(JSONDecodeError)
    def unreadable(_: Request, error: Exception) -> JSONResponse:
        return _away(f"the store's answer cannot be read ({error}): ask again", told)


def _away(why: str, told: Rates) -> JSONResponse:
    """The store does not answer, or not as it should; the log says so once a while, however many ask."""
    if not told.wait_s(why[:100]):
        log.get("web").warning("the store does not answer", why=why)
    return JSONResponse({"detail": why, "away": "store"}, 503)


def _sayable(wrong: dict[str, Any]) -> dict[str, Any]:
    """One validation error as JSON can say it: what was given may be no Unicode, or no number that JSON has."""
    found = {"type": wrong["type"], "loc": wrong["loc"], "msg": wrong["msg"].removeprefix("Value error, ")}
    given = wrong.get("input")
    if isinstance(given, str):
        given = given.encode("utf-8", "backslashreplace").decode()
    elif isinstance(given, float) and not math.isfinite(given):
        given = str(given)
    return found | ({"input": given} if isinstance(given, str | int | float | None) else {})
