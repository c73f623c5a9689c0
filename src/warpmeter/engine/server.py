"""The process: hold the folder, open the engine, answer HTTP, end well."""

import asyncio
import logging
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn

from warpmeter import log, tokens
from warpmeter.engine import lock, sandbox
from warpmeter.engine.answer import STALLED_S
from warpmeter.engine.lock import StartError

if TYPE_CHECKING:
    from warpmeter.engine.app import App

_GRACE_S: Final = 4.0


@dataclass(frozen=True)
class EngineOptions:
    """How to serve; `database` is used where a request names none. Port 0 takes any.

    `threads` is how many calls of writers run at a time; of readers, four times as many.
    """

    folder: Path
    listen: str = "127.0.0.1"
    port: int = 8123
    write_token: str = ""
    database: str = "default"
    threads: int = 4


def bind(listen: str, port: int) -> socket.socket:
    """A listening socket. Raises StartError when the port is taken or the address is not this machine's."""
    family = socket.AF_INET6 if ":" in listen else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted ones inherit it; else 40 ms an answer
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # so that the kernel lets go of a client that was given up and never reads
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(2000 * STALLED_S))
    try:
        found.bind((listen, port))
        found.listen(256)
    except OSError as error:
        found.close()
        raise StartError(f"cannot listen on {listen}:{port}: {error.strerror}; choose another port") from error
    return found


class _Server(uvicorn.Server):
    """uvicorn, which on SIGTERM or SIGINT stops accepting, lets requests finish for a while, then ends them."""

    def __init__(self, config: uvicorn.Config, app: "App") -> None:
        super().__init__(config)
        self._app = app

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals; unlike uvicorn's own, do not raise them again, so that the engine is closed after."""
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End: what still runs after the grace is killed, so that its client hears an exception."""
        late = asyncio.get_running_loop().call_later(_GRACE_S - 1, lambda: asyncio.ensure_future(self._app.kill_all()))
        try:
            await super().shutdown(sockets)
        finally:
            late.cancel()


def _fence(folder: Path) -> Path:
    """Shut this process in; returns its folder for temporary files, which lies in the data folder.

    It is the working directory too: the engine keeps the schemas that inserts bring along in `__cache__` there.
    """
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    os.chdir(temporary)
    if not sandbox.enter([folder], sandbox.python_folders()):
        log.get("engine").warning("no fence", why="this kernel has no Landlock; rights are the engine's own only")
    return temporary


def _quiet(record: logging.LogRecord) -> bool:
    return "ASGI callable returned without" not in record.getMessage()  # an answer cut on purpose, or given up


def serve(options: EngineOptions) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartError, one line, when it cannot start."""
    logger = log.get("engine")
    logging.getLogger("uvicorn.error").addFilter(_quiet)
    with ExitStack() as stack:
        folder = lock.prepare(options.folder)
        lock.hold(folder)
        listening = stack.enter_context(bind(options.listen, options.port))
        if forgotten := tokens.forget_unlanded(folder):
            logger.info("inserts that were cut off may come again", tokens=forgotten)
        private = stack.enter_context(tempfile.TemporaryDirectory(prefix="configuration-", dir=_fence(folder)))
        # Loaded only now: the fence holds for threads that start after it, and the engine starts some when loaded.
        from warpmeter.engine.app import App
        from warpmeter.engine.session import Engine

        engine = Engine(folder, Path(private), options.database)
        stack.callback(engine.close)
        app = App(engine, options.write_token, options.threads)
        stack.callback(app.close)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=int(_GRACE_S),
            h11_max_incomplete_event_size=1 << 20, server_header=False, proxy_headers=False,
        )  # fmt: skip
        logger.info("serving", address="http://{}:{}".format(*listening.getsockname()[:2]), folder=str(folder))
        _Server(config, app).run(sockets=[listening])
    logger.info("stopped")
