"""Confluent's framing, and the registration of schemas at a server that speaks the documented API."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import pytest

from warpmeter import wire
from warpmeter.registry import CONTENT_TYPE, FramingError, Registry, RegistryError, unframed
from warpmeter.schemas.topics import TOPICS

GPU = TOPICS["gpu-samples"]


class FakeRegistry(ThreadingHTTPServer):
    """POST /subjects/(subject)/versions, as documented: the same schema has the same id, errors are JSON."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.schemas: dict[str, int] = {}
        self.subjects: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.answer: tuple[int, dict[str, Any]] | None = None
        self.page = b""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeRegistry

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body | {"headers": dict(self.headers), "path": self.path})
        status, reply = self.server.answer or self._register(body)
        text = self.server.page or json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8" if self.server.page else CONTENT_TYPE)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _register(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        _, kind, subject, what = self.path.split("/")
        if (kind, what, body["schemaType"]) != ("subjects", "versions", "PROTOBUF"):
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
        self.server.subjects.append(unquote(subject))
        return 200, {"id": self.server.schemas.setdefault(body["schema"], 100_001 + len(self.server.schemas))}

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    with FakeRegistry() as registry:
        thread = threading.Thread(target=registry.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield registry
        registry.shutdown()
        thread.join()


def test_a_value_is_framed_by_magic_id_and_the_first_message(server: FakeRegistry) -> None:
    frame = Registry(server.url, "warpmeter").frame(GPU)
    assert frame == b"\x00" + (100_001).to_bytes(4, "big") + b"\x00"


def test_a_schema_is_registered_once_under_its_topic(server: FakeRegistry) -> None:
    registry = Registry(server.url, "prod")
    assert registry.frame(GPU) == registry.frame(GPU)
    assert registry.frame(TOPICS["host-samples"]) != registry.frame(GPU)
    assert server.subjects == ["prod.gpu-samples-value", "prod.host-samples-value"]
    assert server.requests[0]["schema"] == GPU.proto
    assert server.requests[0]["headers"]["Content-Type"] == CONTENT_TYPE


def test_user_and_password_go_as_basic_authentication(server: FakeRegistry) -> None:
    Registry(server.url.replace("://", "://ada:s%2Fecret@"), "warpmeter").frame(GPU)
    assert server.requests[0]["headers"]["Authorization"] == "Basic " + base64.b64encode(b"ada:s/ecret").decode()


def test_a_token_goes_as_a_bearers_and_not_beside_a_password(server: FakeRegistry) -> None:
    Registry(server.url, "warpmeter", token="t0ken").frame(GPU)
    assert server.requests[0]["headers"]["Authorization"] == "Bearer t0ken"
    with pytest.raises(RegistryError, match="set one"):
        Registry(server.url.replace("://", "://ada:secret@"), "warpmeter", token="t0ken")


@pytest.mark.parametrize(
    ("status", "said"),
    [(409, r"not compatible with.*FIELD_CHANGED"), (401, r"forbids.*\(401\)"), (500, r"answered 500")],
)
def test_a_refusal_says_why(server: FakeRegistry, status: int, said: str) -> None:
    server.answer = (status, {"error_code": status, "message": "FIELD_CHANGED"})
    registry = Registry(server.url.replace("://", "://ada:secret@"), "warpmeter")
    with pytest.raises(RegistryError, match=said) as refused:
        registry.frame(GPU)
    assert "secret" not in str(refused.value)
    server.answer = None
    assert registry.frame(GPU)


def test_what_answers_without_an_id_is_no_registry(server: FakeRegistry) -> None:
    server.answer = (200, {"hello": "world"})
    with pytest.raises(RegistryError, match="gave no id"):
        Registry(server.url, "warpmeter").frame(GPU)


@pytest.mark.parametrize(("page", "kind"), [(b"<html>Log in</html>", "text/html"), (b"[1, 2]", "no JSON object")])
def test_what_answers_with_a_page_is_said_to_have_answered(server: FakeRegistry, page: bytes, kind: str) -> None:
    server.page = page
    with pytest.raises(RegistryError, match=f"what answers at .* is no Schema Registry: .*{kind}"):
        Registry(server.url, "warpmeter").frame(GPU)


def test_a_registry_that_is_away_is_named() -> None:
    with pytest.raises(RegistryError, match=r"cannot reach .*127\.0\.0\.1:1.*schema_registry_url"):
        Registry("http://127.0.0.1:1", "warpmeter").frame(GPU)


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://host", "http://"])
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(RegistryError, match="http"):
        Registry(url, "warpmeter")


def test_framed_and_bare_values_are_told_apart() -> None:
    value = wire.pack(GPU, "h", [GPU.envelope(rows=[{"host": "h"}]).rows[0]]).value  # type: ignore[attr-defined]
    assert unframed(value) == value
    assert unframed(b"\x00\x00\x00\x00\x07\x00" + value) == value
    assert unframed(b"\x00\x00\x00\x00\x07\x02\x00" + value) == value  # indexes [0], written out
    with pytest.raises(FramingError, match=r"message \[1, 0\]"):
        unframed(b"\x00\x00\x00\x00\x07\x04\x02\x00" + value)


@pytest.mark.parametrize(
    "cut", [b"\x00", b"\x00\x00\x00\x00\x07", b"\x00\x00\x00\x00\x07\x02", b"\x00" * 5 + b"\xff" * 9]
)
def test_a_cut_frame_is_an_error(cut: bytes) -> None:
    with pytest.raises(FramingError):
        unframed(cut)
