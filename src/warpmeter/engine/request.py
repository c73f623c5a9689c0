"""One HTTP request of ClickHouse's interface, read once: who asks, what, with which settings, and how to answer."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from warpmeter.engine import access
from warpmeter.engine.errors import BAD_ARGUMENTS, NOT_IMPLEMENTED, refuse

# Parameters that the HTTP interface takes for itself; all others are settings or `param_…`. Sessions are tolerated,
# not kept: each request has a connection of its own.
_RESERVED: Final = frozenset({
    "query", "database", "default_format", "user", "password", "query_id", "session_id", "session_timeout",
    "session_check", "close_session", "quota_key", "role", "stacktrace", "compress", "decompress", "buffer_size",
    "wait_end_of_query", "client_protocol_version", "http_write_exception_in_output_format",
})  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What a client asks for; `query` is the part of the statement that came in the address, `hold` how many bytes of
    the answer are held back (`buffer_size`)."""

    method: str
    access: access.Access
    query: bytes
    query_id: str
    database: str
    default_format: str
    settings: Mapping[str, str]
    parameters: Mapping[str, str]
    content_encoding: str
    accept_encoding: str
    framed_body: bool
    framed_answer: bool
    wait_end: bool
    hold: int
    protocol_version: int

    @property
    def readonly(self) -> bool:
        """GET and HEAD are read-only for everybody, as in ClickHouse."""
        return self.access is access.Access.READ or self.method in ("GET", "HEAD")


def headers_of(scope: Mapping[str, Any]) -> dict[str, str]:
    """The request's headers, names in lower case."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _flag(parameters: Mapping[str, str], name: str) -> bool:
    return parameters.get(name, "0") not in ("0", "", "false")


def _parameters(query_string: bytes) -> dict[str, str]:
    try:
        return dict(parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict", separator="&"))
    except (UnicodeDecodeError, ValueError) as error:
        raise refuse(BAD_ARGUMENTS, f"The address is not percent-encoded UTF-8: {error}.") from error


def read(scope: Mapping[str, Any], write_token: str) -> Request:
    """The request of an ASGI scope. Raises EngineError when it cannot be served."""
    headers, given = headers_of(scope), _parameters(scope["query_string"])
    if headers.get("content-type", "").startswith("multipart/form-data"):
        raise refuse(NOT_IMPLEMENTED, "External tables and form bodies are not implemented by this endpoint.")
    accepts = headers.get("accept-encoding", "") if _flag(given, "enable_http_compression") else ""
    return Request(
        method=scope["method"],
        access=access.of(*access.credentials(headers, given), write_token),
        query=given.get("query", "").encode(),
        query_id=given.get("query_id") or headers.get("x-clickhouse-query-id") or str(uuid.uuid4()),
        database=given.get("database") or headers.get("x-clickhouse-database", ""),
        default_format=given.get("default_format") or headers.get("x-clickhouse-format") or "TabSeparated",
        settings={k: v for k, v in given.items() if k not in _RESERVED and not k.startswith("param_")},
        parameters={k.removeprefix("param_"): v for k, v in given.items() if k.startswith("param_")},
        content_encoding=headers.get("content-encoding", ""),
        accept_encoding=accepts,
        framed_body=_flag(given, "decompress"),
        framed_answer=_flag(given, "compress"),
        wait_end=_flag(given, "wait_end_of_query"),
        hold=_number(given.get("buffer_size", "0")),
        protocol_version=_number(given.get("client_protocol_version", "0")),
    )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
