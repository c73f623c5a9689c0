"""Serve the application on its port, from the start to a clean stop."""

import logging
import resource
import signal
import socket
from typing import Final

import structlog
import uvicorn

from warpmeter import log
from warpmeter.settings import Settings, Web
from warpmeter.web.security.identity import known

STOP_WITHIN_S: Final = 3
"""So long what is being answered may take once a stop was asked for; pages that are open are told at once."""
MESSAGE_BYTES: Final = 1 << 20
"""The largest message of a page over its websocket; they are events of buttons."""
BACKLOG: Final = 1024
CONNECTIONS: Final = 4000
"""At once, pages that are open among them; more are answered with 503."""
IDLE_S: Final = 30


def serve(settings: Settings) -> None:
    """Until SIGTERM or SIGINT. Raises OSError that says what to do when the address or the certificate cannot be used,
    TokenError for a token's file."""
    web = settings.web
    listener = _listener(web)  # what cannot start need not load the pages
    known(web.tokens)
    _tell_through_ours()
    from warpmeter.web.app import create
    from warpmeter.web.security.waiting import Waiting

    config = uvicorn.Config(
        create(settings),
        http=Waiting,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # whom they are believed of, the gate knows
        lifespan="on",
        ws_max_size=MESSAGE_BYTES,
        backlog=BACKLOG,
        limit_concurrency=_connections(),
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=STOP_WITHIN_S,
        ssl_certfile=web.tls_certificate,
        ssl_keyfile=web.tls_key,
    )
    _load(config, web)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the server stops, and then raises what stopped it once more
    log.get("web").info("serving", address=web.address, guarded=web.guarded)
    uvicorn.Server(config).run(sockets=[listener])


def _listener(web: Web) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in web.listen else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((web.listen, web.port))
    except OSError as error:
        listener.close()
        raise OSError(
            f"cannot listen on {web.listen}:{web.port}: {error.strerror}; choose another with --port (web.port), "
            "--listen (web.listen)"
        ) from error
    return listener


def _load(config: uvicorn.Config, web: Web) -> None:
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise OSError(f"web.tls_certificate {web.tls_certificate} or web.tls_key {web.tls_key}: {error}") from error


def _connections() -> int:
    """As many as there may be files, less some for the store and the traces; the soft limit is raised to the hard."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return CONNECTIONS if most == resource.RLIM_INFINITY else max(100, min(CONNECTIONS, most - 200))


class _Ours(logging.Handler):
    """What libraries log becomes lines of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        logger = structlog.get_logger(part="web")
        logger.log(record.levelno, record.getMessage(), by=record.name, exc_info=record.exc_info or None)


def _tell_through_ours() -> None:
    root = logging.getLogger()
    root.handlers = [_Ours()]
    root.setLevel(logging.WARNING)
    for name in ("urllib3", "clickhouse_connect"):  # of a store that is away: its whole address, twice a request
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("nicegui").setLevel(logging.ERROR)  # it tells of each page that is none, with its whole address
