"""Traces as files: which there are of a capture, and each of them, whole or in part."""

from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Header, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from warpmeter.captures.ranks import Rank
from warpmeter.web.api.captures import Known
from warpmeter.web.request import paging
from warpmeter.web.request.context import Configured
from warpmeter.web.request.paging import Page
from warpmeter.web.request.times import missing
from warpmeter.web.traces import files

router = APIRouter(tags=["traces"])

MOST: Final = (1 << 32) - 1
KINDS: Final = {".gz": "application/gzip", ".zst": "application/zstd"}


class File(BaseModel):
    """A trace in the store."""

    host: str = Field(examples=["gpu-0001"])
    pid: int = Field(examples=[31337])
    rank: int | None = Field(examples=[0])
    sequence: int = Field(description="The round, from 1.", examples=[1])
    name: str = Field(examples=["gpu-0001_rank0_31337_1_20260131T120013Z.json.gz"])
    bytes: int = Field(examples=[6_553_600])
    sha256: str
    href: str = Field(
        description="Where it is, for GET and HEAD.",
        examples=["/api/v1/traces/20260131T120000-1a2b3c/file?host=gpu-0001&pid=31337&sequence=1"],
    )


class FilePage(BaseModel):
    """A page of files."""

    data: list[File]
    total: int = Field(examples=[8])
    next: int | None = Field(examples=[None])


@router.get(
    "/traces/{capture_id:path}/files",
    response_model=FilePage,
    responses={404: {"description": "There is no such capture."}},
)
def list_(
    capture_id: str,
    known: Known,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> Any:
    """The traces of a capture that are in the store, the latest round first."""
    found = sorted(
        (
            _file(capture_id, number, rank)
            for (number, _, _), rank in _ranks(known, capture_id).items()
            if rank.captured
        ),
        key=lambda file: (-file["sequence"], file["rank"] is None, file["rank"], file["host"], file["pid"]),
    )
    return paging.answer(found[offset : offset + limit], len(found), Page(limit, offset, "sequence", True))


RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"application/gzip": {}, "application/zstd": {}}, "description": "The trace."},
    206: {"content": {"application/gzip": {}, "application/zstd": {}}, "description": "The part that Range asks for."},
    304: {"description": "It is the one of If-None-Match."},
    404: {"description": "There is no such trace, or the store does not give it."},
    416: {"description": "The part lies behind the end."},
}


@router.api_route("/traces/{capture_id:path}/file", methods=["GET"], response_class=Response, responses=RESPONSES)
@router.api_route("/traces/{capture_id:path}/file", methods=["HEAD"], response_class=Response, include_in_schema=False)
def file(
    request: Request,
    capture_id: str,
    known: Known,
    settings: Configured,
    host: str,
    pid: Annotated[int, Query(ge=0, le=MOST)],
    sequence: Annotated[int, Query(ge=1, le=MOST)] = 1,
    range_: Annotated[
        str, Header(alias="range", description="A part: bytes=0-1023. Several parts are answered by all of it.")
    ] = "",
    if_range: Annotated[str, Header()] = "",
    if_none_match: Annotated[str, Header()] = "",
) -> Response:
    """The trace of a process, as it is stored: PyTorch's JSON, packed. Streamed; parts, too."""
    rank = _ranks(known, capture_id).get((sequence, host, pid))
    if rank is None or rank.captured is None:
        raise missing(
            "query", "pid", f"capture {capture_id} has no trace of process {pid} on {host} in round {sequence}", pid
        )
    try:
        stored = files.stored(settings.traces, rank.captured.url, rank.captured.sha256)
        whole = bool(if_range) and (if_range != stored.etag)
        return _answer(request.method, stored, "" if whole else range_, if_none_match)
    except files.NoFileError as error:
        raise HTTPException(404, f"the trace of process {pid} on {host}: {error}") from error


def _answer(method: str, stored: files.Stored, range_: str, known: str) -> Response:
    headers = _headers(stored)
    if stored.etag and stored.etag in [tag.strip().removeprefix("W/") for tag in known.split(",")]:
        return Response(status_code=304, headers={name: headers[name] for name in ("etag", "cache-control")})
    try:
        part = files.asked(range_, stored.size)
    except files.NoRangeError:
        return Response(status_code=416, headers={**headers, "content-range": f"bytes */{stored.size}"})
    first, last = part or (0, stored.size - 1)
    headers["content-length"] = str(last - first + 1)
    if part is not None:
        headers["content-range"] = f"bytes {first}-{last}/{stored.size}"
    status = 200 if part is None else 206
    kind = KINDS.get(stored.name[stored.name.rfind(".") :], "application/octet-stream")
    if method == "HEAD":
        stored.read(first, min(first, last))  # what cannot be read is no 200 here either
        return Response(status_code=status, headers=headers, media_type=kind)
    return StreamingResponse(stored.read(first, last), status, headers, kind)


def _headers(stored: files.Stored) -> dict[str, str]:
    """`identity`: what is packed already is not packed again on the way."""
    plain = stored.name.encode("ascii", "replace").decode().translate({ord(c): "_" for c in '"\\?'})
    headers = {
        "accept-ranges": "bytes",
        "cache-control": "private, max-age=3600",
        "content-encoding": "identity",
        "content-disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(stored.name)}",
    }
    return headers | ({"etag": stored.etag} if stored.etag else {})


def _ranks(known: Known, capture_id: str) -> dict[tuple[int, str, int], Rank]:
    found = known.progress(capture_id)
    if found is None:
        raise missing("path", "capture_id", "there is no such capture", capture_id)
    return found[1].ranks


def _file(capture_id: str, number: int, rank: Rank) -> dict[str, Any]:
    event = rank.captured
    assert event is not None
    asked = f"host={quote(rank.host, safe='')}&pid={rank.pid}&sequence={number}"
    return {
        "host": rank.host, "pid": rank.pid, "rank": event.rank if event.HasField("rank") else None, "sequence": number,
        "name": event.url.rpartition("/")[2], "bytes": event.bytes, "sha256": event.sha256,
        "href": f"/api/v1/traces/{quote(capture_id, safe='')}/file?{asked}",
    }  # fmt: skip
