"""An OpenID provider in little: a token endpoint for client credentials, and the key that signs its tokens."""

import base64
import json
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from tests.brokers.process import free_ports

AUDIENCE: Final = "kafka"
KEY_ID: Final = "of-the-test"
LIFE_S: Final = 3600


def openssl(*arguments: str, given: bytes | None = None) -> bytes:
    """What openssl prints; raises RuntimeError with its complaint."""
    done = subprocess.run(["openssl", *arguments], input=given, capture_output=True, check=False, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {arguments[0]}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class Issuer:
    """Gives whoever asks with an id a token of that subject; `refused` gets none. Close it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._key = folder / "key.pem"
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(self._key))
        told = openssl("rsa", "-in", str(self._key), "-noout", "-modulus").decode().strip()
        modulus = _encoded(bytes.fromhex(told.partition("=")[2]))
        self.jwks = folder / "jwks.json"
        key = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "n": modulus, "e": "AQAB"}
        self.jwks.write_text(json.dumps({"keys": [key]}))
        self.refused: set[str] = set()
        port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{port}/token"
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.issuer = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def token(self, subject: str) -> str:
        """A signed token (RFC 7519) that says who it is."""
        now = int(time.time())
        claims = {"sub": subject, "aud": AUDIENCE, "iss": self.url, "iat": now, "exp": now + LIFE_S, "scope": "kafka"}
        head = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        text = ".".join(_encoded(json.dumps(part).encode()) for part in (head, claims))
        signed = openssl("dgst", "-sha256", "-sign", str(self._key), "-binary", given=text.encode())
        return f"{text}.{_encoded(signed)}"

    def close(self) -> None:
        """No more tokens."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    issuer: Issuer


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        login = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        name = unquote(login.partition(":")[0])
        if not name or name in self.server.issuer.refused:
            return self._answer(401, {"error": "invalid_client"})
        return self._answer(
            200, {"access_token": self.server.issuer.token(name), "token_type": "Bearer", "expires_in": LIFE_S}
        )

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""
