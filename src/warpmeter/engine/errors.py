"""Exceptions as a ClickHouse server words them, and the HTTP status that goes with each."""

import re
from http import HTTPStatus
from typing import Final

CHECKSUM_DOESNT_MATCH: Final = 40
NOT_IMPLEMENTED: Final = 48
SYNTAX_ERROR: Final = 62
UNKNOWN_COMPRESSION_METHOD: Final = 89
READONLY: Final = 164
BAD_ARGUMENTS: Final = 36
CANNOT_DECOMPRESS: Final = 271
QUERY_IS_TOO_LARGE: Final = 229
TOO_MANY_SIMULTANEOUS_QUERIES: Final = 202
INTO_OUTFILE_NOT_ALLOWED: Final = 358
ACCESS_DENIED: Final = 497
AUTHENTICATION_FAILED: Final = 516
NOT_ENOUGH_SPACE: Final = 243
UNKNOWN_EXCEPTION: Final = 1002

_NAMES: Final = {
    CHECKSUM_DOESNT_MATCH: "CHECKSUM_DOESNT_MATCH",
    NOT_IMPLEMENTED: "NOT_IMPLEMENTED",
    SYNTAX_ERROR: "SYNTAX_ERROR",
    READONLY: "READONLY",
    UNKNOWN_COMPRESSION_METHOD: "UNKNOWN_COMPRESSION_METHOD",
    BAD_ARGUMENTS: "BAD_ARGUMENTS",
    CANNOT_DECOMPRESS: "CANNOT_DECOMPRESS",
    QUERY_IS_TOO_LARGE: "QUERY_IS_TOO_LARGE",
    TOO_MANY_SIMULTANEOUS_QUERIES: "TOO_MANY_SIMULTANEOUS_QUERIES",
    INTO_OUTFILE_NOT_ALLOWED: "INTO_OUTFILE_NOT_ALLOWED",
    ACCESS_DENIED: "ACCESS_DENIED",
    AUTHENTICATION_FAILED: "AUTHENTICATION_FAILED",
    NOT_ENOUGH_SPACE: "NOT_ENOUGH_SPACE",
    UNKNOWN_EXCEPTION: "UNKNOWN_EXCEPTION",
}

# As ClickHouse's own table of codes to statuses (src/Server/HTTP/exceptionCodeToHTTPStatus.cpp); the rest is 500.
_BAD_REQUEST: Final = (
    6, 8, 15, 25, 26, 27, 36, 37, 38, 41, 44, 53, 62, 72, 117, 123, 167, 168, 223, 321, 376, 427, 441, 675, 676,
)  # fmt: skip
_NOT_FOUND: Final = (46, 47, 50, 56, 60, 63, 73, 78, 81, 115, 139, 152, 336, 511)
_FORBIDDEN: Final = (192, 193, 497, 512, 516)
_STATUS: Final = {
    **dict.fromkeys(_BAD_REQUEST, HTTPStatus.BAD_REQUEST),
    **dict.fromkeys(_NOT_FOUND, HTTPStatus.NOT_FOUND),
    **dict.fromkeys(_FORBIDDEN, HTTPStatus.FORBIDDEN),
    48: HTTPStatus.NOT_IMPLEMENTED,
    76: HTTPStatus.SERVICE_UNAVAILABLE,
    159: HTTPStatus.REQUEST_TIMEOUT,
    194: HTTPStatus.UNAUTHORIZED,
    209: HTTPStatus.SERVICE_UNAVAILABLE,
    229: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    381: HTTPStatus.LENGTH_REQUIRED,
    439: HTTPStatus.SERVICE_UNAVAILABLE,
}

_CODE: Final = re.compile(r"Code: (\d+)\. DB::\w*Exception: ")
_REPEATED_HEAD: Final = re.compile(r"^(?:Code: \d+\. DB::\w*Exception: )+(?=Code: \d+\. DB::\w*Exception: )")
_REPEATED_TAIL: Final = re.compile(r"(?: \(version [^()]*(?:\([^()]*\))?\)(?:\.? \([A-Z0-9_]+\))?)+$")


class ClientGoneError(Exception):
    """The client closed its connection, or stopped taking the answer, before it was whole."""


class EngineError(Exception):
    """One failed request: ClickHouse's error code and the whole text, `Code: … (NAME)`, without the version."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text

    @property
    def status(self) -> HTTPStatus:
        """The HTTP status ClickHouse gives this code."""
        return _STATUS.get(self.code, HTTPStatus.INTERNAL_SERVER_ERROR)


def refuse(code: int, why: str) -> EngineError:
    """An exception of this endpoint itself, worded as ClickHouse words its own."""
    return EngineError(code, f"Code: {code}. DB::Exception: {why} ({_NAMES[code]})")


def from_engine(error: BaseException, mark: str = "") -> EngineError:
    """What chDB raised, without chDB's own prefix, our `mark`, and the head and tail that nesting repeats."""
    told = error.object.decode(errors="backslashreplace") if isinstance(error, UnicodeDecodeError) else str(error)
    said = told.replace(mark, "").strip()
    found = _CODE.search(said)
    if found is None:
        return refuse(UNKNOWN_EXCEPTION, said or type(error).__name__)
    text = _REPEATED_TAIL.sub("", _REPEATED_HEAD.sub("", said[found.start() :]))
    return EngineError(int(found[1]), text)
