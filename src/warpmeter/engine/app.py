"""ClickHouse's HTTP interface as one ASGI application over the engine."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from itertools import chain
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, TypeVar

from warpmeter import selfmetrics
from warpmeter.engine import access, request
from warpmeter.engine.answer import STALLED_S, Answer, Receive, Send, Server, content_type, impatient
from warpmeter.engine.compression import Chain, Decoder, Encoder, decoded, decoder, encoder
from warpmeter.engine.errors import (
    BAD_ARGUMENTS,
    TOO_MANY_SIMULTANEOUS_QUERIES,
    ClientGoneError,
    EngineError,
    refuse,
)
from warpmeter.engine.feed import CHUNK, Feed, Outlet, read_pipe
from warpmeter.engine.frames import FrameDecoder, FrameEncoder
from warpmeter.engine.hello import hello, is_hello
from warpmeter.engine.intake import Body, PlainBody, Rules, statement_of
from warpmeter.engine.session import Call, Engine, Figures, pipe
from warpmeter.engine.sqltext import Kind, Lexeme, Statement

Result = TypeVar("Result")

_HOLD: Final = 64 << 10
_HELD_IN_MEMORY: Final = 16 << 20
# Bytes. The engine's own `max_query_size`, and room to raise it; an INSERT's data does not count.
_READERS_STATEMENT: Final = 256 << 10
_WRITERS_STATEMENT: Final = 1 << 20
_LARGEST_BLOCK: Final = 64 << 20
_WAITING: Final = 64
_READERS: Final = 4  # times the writers: a reader's thread mostly waits for its client
_METHODS: Final = ("GET", "HEAD", "POST", "OPTIONS")
_HEALTH: Final = ("/ping", "/replicas_status")
_NOT_HERE: Final = b"There is no handle %s\n\nUse / with a query, or /ping for health checks.\n"
_FORMAT_NAME: Final = re.compile(r"\w+")
_PLAIN: Final = {"Content-Type": "text/html; charset=UTF-8"}


class Pool:
    """Threads for the engine's calls, and a bound on what waits for them."""

    def __init__(self, name: str, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._limit = threads + _WAITING
        self._taken = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """Do the work in a thread. Raises EngineError when too much waits already."""
        if self._taken >= self._limit:
            raise refuse(TOO_MANY_SIMULTANEOUS_QUERIES, f"Too many simultaneous queries. Maximum: {self._limit}.")
        self._taken += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._taken -= 1

    def close(self) -> None:
        """Wait for what runs."""
        self._threads.shutdown(wait=True, cancel_futures=True)


class App:
    """The application. `threads` bounds the writers' calls at a time, and four times as many the readers'.

    A query whose client takes nothing of its result for `stalled_s` seconds is ended.
    """

    def __init__(self, engine: Engine, write_token: str, threads: int, stalled_s: float = STALLED_S) -> None:
        self._engine = engine
        self._token = write_token
        self._stalled_s = stalled_s
        self._server = Server(engine.version, engine.timezone, engine.name)
        self._readers = Pool("reader", threads * _READERS)
        self._writers = Pool("writer", threads)
        self._control = Pool("control", 1)
        self._running: set[str] = set()
        self._requests = selfmetrics.counter("warpmeter_engine_requests_total")
        self._seconds = selfmetrics.histogram("warpmeter_engine_request_seconds")

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """One request."""
        assert scope["type"] == "http"
        started = time.monotonic()
        head = scope["method"] == "HEAD"
        send = impatient(send, self._stalled_s)
        answer = Answer(send, self._server, "", head)
        try:
            if not await self._simple(scope, answer):
                answer = await self._query(scope, receive, send)
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._requests.labels(method, str(answer.status)).inc()
            self._seconds.labels(method).observe(time.monotonic() - started)

    async def _simple(self, scope: Mapping[str, Any], answer: Answer) -> bool:
        path, method = scope["path"], scope["method"]
        asks = b"query=" in scope["query_string"]
        if path in _HEALTH or (path == "/" and method in ("GET", "HEAD") and not asks):
            await answer.whole(HTTPStatus.OK, _PLAIN, b"Ok.\n")
        elif method == "OPTIONS":
            await answer.whole(HTTPStatus.NO_CONTENT, {"Allow": "GET, HEAD, POST, OPTIONS"}, b"")
        elif path not in ("/", "/query"):
            await answer.whole(HTTPStatus.NOT_FOUND, _PLAIN, _NOT_HERE % path.encode())
        else:
            return False
        return True

    async def _query(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> Answer:
        answer, body = Answer(send, self._server, "", scope["method"] == "HEAD"), Body(receive)
        try:
            asked = request.read(scope, self._token)
            packed = _frames(asked) if asked.framed_answer else None
            answer = Answer(send, self._server, asked.query_id, asked.method == "HEAD", packed)
            with self._engine.room_told():
                await self._serve(asked, body, answer)
        except (ClientGoneError, asyncio.CancelledError):  # cancelled by the server, which is ending
            answer.status = 499
        except EngineError as error:
            await self._tell(error, body, answer)
        return answer

    @staticmethod
    async def _tell(error: EngineError, body: Body, answer: Answer) -> None:
        try:
            await body.drain()
            await answer.fail(error)
        except ClientGoneError:
            answer.status = 499

    async def _serve(self, asked: request.Request, body: Body, answer: Answer) -> None:
        largest = _READERS_STATEMENT if asked.access is access.Access.READ else _WRITERS_STATEMENT
        through = _body_decoder(asked, largest)
        plain = PlainBody(body, through)
        statement = await statement_of(asked.query, plain, Rules(largest, partial(self._check, asked)))
        call = Call(asked.readonly, os.urandom(12).hex(), asked.database, asked.settings, asked.parameters)
        exchange = Exchange(asked, call, statement, body, answer)
        self._running.add(call.tag)
        try:
            if statement.kind is Kind.INSERT:
                await self._insert(exchange, plain.rest(), through)
            elif is_hello(statement.head) and (statement.format or asked.default_format) == "Native":
                await exchange.send(hello(self._server, asked.protocol_version), "Native", Figures())
            elif statement.kind is Kind.SELECT:
                await self._select(exchange)
            else:
                await self._other(exchange)
        finally:
            self._running.discard(call.tag)

    def _check(self, asked: request.Request, tokens: Sequence[Lexeme]) -> None:
        access.check_anybody(tokens)
        if asked.readonly:
            access.check_reader(tokens, asked.settings, self._engine.refused_to_readers)

    async def _insert(self, exchange: "Exchange", come: Iterator[bytes], through: Decoder) -> None:
        feed = Feed(asyncio.get_running_loop())

        def work() -> Figures:
            data = chain([exchange.statement.data], come, decoded(feed, through))
            return self._engine.insert(exchange.call, exchange.statement, filter(None, data))

        running = asyncio.ensure_future(self._pool(exchange.asked).run(work))
        pouring = asyncio.ensure_future(_pour(exchange.body, feed))
        try:
            figures = await running
        finally:
            await _stop(pouring)
        await exchange.answer.whole(HTTPStatus.OK, _headers(figures), b"")

    async def _other(self, exchange: "Exchange") -> None:
        name = _known_name(exchange.statement.format or exchange.asked.default_format)
        work = self._pool(exchange.asked).run(lambda: self._engine.run(exchange.call, exchange.statement, name))
        result, figures = await self._unless_gone(work, exchange)
        await exchange.send(result, name, figures)

    async def _select(self, exchange: "Exchange") -> None:
        name = _known_name(exchange.statement.format or exchange.asked.default_format)
        statement = replace(exchange.statement, format=name)
        reading, writing = pipe(CHUNK)
        outlet = Outlet(writing)

        def work() -> Figures:
            descriptor = outlet.take()
            try:
                return self._engine.select(exchange.call, statement, descriptor)
            finally:
                os.close(descriptor)

        try:
            running = asyncio.ensure_future(self._pool(exchange.asked).run(work))
            running.add_done_callback(lambda _: outlet.give_up())
            running.add_done_callback(_heard)
            await self._unless_gone(exchange.stream(read_pipe(reading), name, running), exchange)
        finally:
            os.close(reading)

    async def _unless_gone(self, work: Coroutine[Any, Any, Result], exchange: "Exchange") -> Result:
        """Await the work; when the client leaves first, or stops taking, end its query and raise ClientGoneError."""
        running = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(exchange.body.gone())
        try:
            await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
            if running.done() and not isinstance(running.exception(), ClientGoneError):
                return running.result()
            await self.kill(exchange.call.tag)
            raise ClientGoneError
        finally:
            await _stop(running, leaving)

    def _pool(self, asked: request.Request) -> Pool:
        return self._readers if asked.access is access.Access.READ else self._writers

    async def kill(self, tag: str) -> None:
        """End a query."""
        await self._control.run(lambda: self._engine.kill(tag))

    async def kill_all(self) -> None:
        """End all queries that run."""
        for tag in list(self._running):
            await self.kill(tag)

    def close(self) -> None:
        """Wait for the threads."""
        for pool in (self._readers, self._writers, self._control):
            pool.close()


@dataclass(frozen=True)
class Exchange:
    """One request on its way: what was asked, what runs for it, and where the answer goes."""

    asked: request.Request
    call: Call
    statement: Statement
    body: Body
    answer: Answer

    async def begin(self, name: str, figures: Figures) -> None:
        """Send the head of a result in format `name`."""
        headers = {"X-ClickHouse-Format": name, "Content-Type": content_type(name), **_headers(figures)}
        await self.answer.begin(HTTPStatus.OK, headers, _encoding(self.asked))

    async def send(self, result: bytes, name: str, figures: Figures) -> None:
        """Send a result that is here whole; a statement without one sends no format."""
        if not result:
            return await self.answer.whole(HTTPStatus.OK, _headers(figures), b"")
        await self.begin(name, figures)
        await self.answer.write(result)
        await self.answer.end()

    async def stream(self, chunks: AsyncIterator[bytes], name: str, running: asyncio.Future[Figures]) -> None:
        """Send a result as it comes; held back at first, so that a short one has its figures and a failure a status.

        `buffer_size` holds more of it back and `wait_end_of_query` all, beyond 16 MiB in a file.
        """
        with SpooledTemporaryFile(max_size=_HELD_IN_MEMORY) as held:
            async for chunk in chunks:
                if self.answer.begun:
                    await self.answer.write(chunk)
                    continue
                held.write(chunk)
                if held.tell() >= max(_HOLD, self.asked.hold) and not self.asked.wait_end:
                    await self.begin(name, Figures())
                    await self._release(held)
            figures = await running
            if not self.answer.begun:
                await self.begin(name, figures)
                await self._release(held)
        await self.answer.end()

    async def _release(self, held: IO[bytes]) -> None:
        held.seek(0)
        while chunk := held.read(CHUNK):
            await self.answer.write(chunk)


def _body_decoder(asked: request.Request, largest: int) -> Decoder:
    outer = decoder(asked.content_encoding)
    block = largest if asked.readonly else _LARGEST_BLOCK
    return Chain(outer, FrameDecoder(block)) if asked.framed_body else outer


def _frames(asked: request.Request) -> Encoder:
    return FrameEncoder(asked.settings.get("network_compression_method", "LZ4"))


def _encoding(asked: request.Request) -> tuple[str, Encoder]:
    if asked.framed_answer:
        return "", _frames(asked)
    return encoder(asked.accept_encoding)


def _heard(future: asyncio.Future[Any]) -> None:
    """Take note of how a future ended, so that asyncio does not report a failure that nobody waits for any more."""
    if not future.cancelled():
        future.exception()


async def _stop(*futures: asyncio.Future[Any]) -> None:
    """Cancel what still runs, and wait until it has let go of its descriptors."""
    for each in futures:
        each.cancel()
        each.add_done_callback(_heard)
    await asyncio.wait(futures)


async def _pour(body: Body, feed: Feed) -> None:
    try:
        while piece := await body.head(CHUNK):
            await feed.put(piece)
    except BaseException:  # also when this task is cancelled: a thread waits for the feed's end
        feed.fail(ClientGoneError())
        raise
    feed.end()


def _headers(figures: Figures) -> dict[str, str]:
    return {"X-ClickHouse-Summary": figures.summary()}


def _known_name(name: str) -> str:
    """A format's name that is safe to put in a statement."""
    if not _FORMAT_NAME.fullmatch(name):
        raise refuse(BAD_ARGUMENTS, f"{name!r} is no name of a format.")
    return name
