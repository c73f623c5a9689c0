"""Get a page from a Prometheus endpoint: in time, within a size, with the credentials of the settings."""

import base64
import gzip
import re
import ssl
import urllib.error
import urllib.request
import zlib
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Final

from warpmeter.producers.scrape.opener import opener
from warpmeter.producers.source import SourceError
from warpmeter.settings import Scrape

CHUNK: Final = 1 << 16
TEXT: Final = "text/plain;version=0.0.4;q=0.9,*/*;q=0.1"
EITHER: Final = f"application/openmetrics-text;version=1.0.0,{TEXT}"
OPENMETRICS: Final = "application/openmetrics-text"
TOKEN: Final = re.compile(r"[!-~]+")
"""Characters that a token may have in a header."""


@dataclass(frozen=True)
class Page:
    """A page as it came, unpacked. `openmetrics`: the endpoint answered in that format, else in the text format."""

    body: bytes
    openmetrics: bool = False

    @property
    def text(self) -> str:
        """Its characters; bytes that are no UTF-8 become U+FFFD."""
        return self.body.decode(errors="replace")


class Fetcher:
    """One endpoint. `text_only`: it is no longer asked for OpenMetrics, which some exporters write wrongly."""

    def __init__(self, scrape: Scrape) -> None:
        self._scrape = scrape
        self.text_only = False
        self._opener: urllib.request.OpenerDirector | None = None

    def fetch(self) -> Page:
        """The page; raises SourceError when the endpoint does not answer well, in time, or within the size limit."""
        url, limit = self._scrape.url, self._scrape.limit_s
        response: HTTPResponse | None = None
        try:
            with self._open(self._request()) as response:
                return Page(self._body(response), response.headers.get_content_type() == OPENMETRICS)
        except TimeoutError as error:
            late = f"did not answer within {limit:g} s" if response is None else f"was still sending after {limit:g} s"
            raise SourceError("timeout", f"{url} {late}") from error
        except urllib.error.HTTPError as error:
            error.close()
            denied = error.code in (401, 403)
            remedy = "; set token_file, or username and password_file" if denied else ""
            raise SourceError("denied" if denied else "failed", f"{url}: {error}{remedy}") from error
        except (urllib.error.URLError, HTTPException, OSError, EOFError, ValueError, zlib.error) as error:
            # ValueError: an address that is none, of the settings or of a redirect
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, TimeoutError):
                raise SourceError("timeout", f"{url} could not be reached within {limit:g} s") from error
            raise SourceError("failed", f"{url}: {reason or type(reason).__name__}") from error

    def _body(self, response: HTTPResponse) -> bytes:
        """All of it, unpacked; raises SourceError."""
        packing = response.headers.get("Content-Encoding", "identity").strip().lower()
        if packing not in ("identity", "gzip", "x-gzip", ""):
            raise SourceError("failed", f"{self._scrape.url} answers packed as {packing!r}, which was not asked for")
        packed = packing.endswith("gzip")
        body = self._bounded(gzip.GzipFile(fileobj=response) if packed else response)
        if response.length and not packed:  # of its Content-Length; what is packed notices by itself
            raise SourceError("failed", f"{self._scrape.url} broke off: {response.length} bytes did not come")
        return body

    def _open(self, request: urllib.request.Request) -> HTTPResponse:
        self._opener = self._opener or opener(self._tls)
        answer: HTTPResponse = self._opener.open(request, timeout=self._scrape.limit_s)
        return answer

    def _tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._scrape.ca_file)
        except OSError as error:
            raise SourceError("failed", f"ca_file {self._scrape.ca_file}: {error}") from error

    def _request(self) -> urllib.request.Request:
        accept = TEXT if self.text_only else EITHER
        request = urllib.request.Request(self._scrape.url, headers={"Accept": accept, "Accept-Encoding": "gzip"})
        if authorization := self._authorization():
            request.add_unredirected_header("Authorization", authorization)  # not for whoever it sends us to
        return request

    def _authorization(self) -> str:
        """Read at each scrape: such files are renewed in place."""
        scrape = self._scrape
        if scrape.token_file is not None:
            token = _secret(scrape.token_file).strip()
            if not TOKEN.fullmatch(token):  # whatever sends it would print it in its complaint
                raise SourceError("failed", f"{scrape.token_file} must hold one token, in ASCII, and nothing else")
            return f"Bearer {token}"
        if scrape.username:
            password = _secret(scrape.password_file) if scrape.password_file else ""
            return "Basic " + base64.b64encode(f"{scrape.username}:{password}".encode()).decode()
        return ""

    def _bounded(self, response: "IO[bytes] | gzip.GzipFile") -> bytes:
        """All of it, within the limit."""
        scrape, parts, size = self._scrape, [], 0
        while part := response.read(CHUNK):
            parts.append(part)
            size += len(part)
            if size > scrape.max_bytes:  # refused whole: half a page would look like vanished metrics
                limit = f"max_bytes = {scrape.max_bytes}"
                raise SourceError("failed", f"{scrape.url} is over {limit}; narrow what it exports or raise the limit")
        return b"".join(parts)


def _secret(path: Path) -> str:
    """Text of a file; raises SourceError, without a word of what it holds."""
    try:
        return path.read_text(encoding="utf-8").rstrip("\n")
    except OSError as error:
        raise SourceError("denied", f"{error}: the agent must be able to read it") from error
    except UnicodeDecodeError:
        raise SourceError("failed", f"{path} holds no text in UTF-8") from None
