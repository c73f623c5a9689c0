"""ClickHouse's HTTP interface as one ASGI application over the engine."""

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, Final, TypeVar

from warpmeter import selfmetrics
from warpmeter.engine import access, request, sqltext
from warpmeter.engine.answer import Answer, Receive, Send, Server, content_type
from warpmeter.engine.compression import decoded, encoder
from warpmeter.engine.errors import ABORTED, QUERY_IS_TOO_LARGE, TOO_MANY_SIMULTANEOUS_QUERIES, EngineError, refuse
from warpmeter.engine.feed import CHUNK, Feed, read_pipe
from warpmeter.engine.session import Call, Engine, Figures, pipe
from warpmeter.engine.sqltext import Kind, Statement

Result = TypeVar("Result")

_HOLD: Final = 64 << 10
_HEAD: Final = 64 << 10
_LARGEST_STATEMENT: Final = 16 << 20
_WAITING_A_THREAD: Final = 16
_HEALTH: Final = ("/ping", "/replicas_status")
_NOT_HERE: Final = b"There is no handle %s\n\nUse / with a query, or /ping for health checks.\n"
_FORMAT_NAME: Final = re.compile(r"\w+")
_PLAIN: Final = {"Content-Type": "text/html; charset=UTF-8"}


class ClientGone(Exception):
    """The client closed its connection before the answer was whole."""


class Body:
    """The request's body as it comes; `gone` when the client left."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._more = True

    async def chunk(self) -> bytes:
        """The next bytes, b"" at the end. Raises ClientGone."""
        while self._more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            self._more = message.get("more_body", False)
            if body := message.get("body", b""):
                return bytes(body)
        return b""

    async def head(self, size: int) -> bytes:
        """The first `size` bytes or somewhat more, or all when there are fewer."""
        parts, have = [], 0
        while have < size and (chunk := await self.chunk()):
            parts.append(chunk)
            have += len(chunk)
        return b"".join(parts)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The rest, in pieces of about 1 MiB."""
        while piece := await self.head(CHUNK):
            yield piece

    async def drain(self) -> None:
        """Read the rest and forget it, so that the client hears the answer."""
        while await self.chunk():
            pass

    async def gone(self) -> None:
        """Return when the client leaves; only once the body is read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Pool:
    """Threads for the engine's calls, and a bound on what waits for them."""

    def __init__(self, name: str, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._limit = threads * (1 + _WAITING_A_THREAD)
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
    """The application. `threads` bounds the readers' calls at a time, and as many again the writers'."""

    def __init__(self, engine: Engine, write_token: str, threads: int) -> None:
        self._engine = engine
        self._token = write_token
        self._server = Server(engine.version, engine.timezone, engine.name)
        self._readers = Pool("reader", threads)
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
        answer = Answer(send, self._server, "", head)
        try:
            if not await self._simple(scope, answer):
                answer = await self._query(scope, receive, send)
        finally:
            self._requests.labels(scope["method"], str(answer.status)).inc()
            self._seconds.labels(scope["method"]).observe(time.monotonic() - started)

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
            answer = Answer(send, self._server, asked.query_id, asked.method == "HEAD")
            await self._serve(asked, body, answer)
        except ClientGone:
            answer.status = 499
        except EngineError as error:
            await self._tell(error, body, answer)
        return answer

    @staticmethod
    async def _tell(error: EngineError, body: Body, answer: Answer) -> None:
        try:
            await body.drain()
        except ClientGone:
            answer.status = 499
        else:
            await answer.fail(error)

    async def _serve(self, asked: request.Request, body: Body, answer: Answer) -> None:
        statement, rest = await self._statement(asked, body)
        if asked.access is access.Access.READ:
            text = b" ".join((statement.head, statement.tail))
            access.check_reader(text, asked.settings)
        call = Call(
            asked.access, asked.readonly, os.urandom(12).hex(), asked.database, asked.settings, asked.parameters
        )
        self._running.add(call.tag)
        try:
            if statement.kind is Kind.INSERT:
                await self._insert(asked, call, statement, rest, answer)
            elif statement.kind is Kind.SELECT:
                await self._select(asked, call, statement, body, answer)
            else:
                await self._other(asked, call, statement, body, answer)
        finally:
            self._running.discard(call.tag)

    async def _statement(self, asked: request.Request, body: Body) -> tuple[Statement, AsyncIterator[bytes]]:
        """The statement, which may be in the address, in the body, or begin in one and go on in the other."""
        plain = asked.content_encoding in ("", "identity") and not asked.framed_body
        if asked.query:
            statement = sqltext.parse(asked.query)
            if statement.kind is Kind.INSERT:
                return statement, body.chunks()
            more = await self._whole(asked, body)
            return (sqltext.parse(asked.query + b"\n" + more) if more.strip() else statement), body.chunks()
        if plain:
            head = await body.head(_HEAD)
            statement = _inserting(head)
            if statement is not None:
                return statement, body.chunks()
            return sqltext.parse(head + await self._whole(asked, body)), body.chunks()
        return sqltext.parse(await self._whole(asked, body)), body.chunks()

    async def _whole(self, asked: request.Request, body: Body) -> bytes:
        raw = await body.head(_LARGEST_STATEMENT)
        if len(raw) >= _LARGEST_STATEMENT:
            raise refuse(QUERY_IS_TOO_LARGE, f"The statement is longer than {_LARGEST_STATEMENT} bytes.")
        return b"".join(_plain([raw], asked)) if raw else raw

    async def _insert(
        self, asked: request.Request, call: Call, statement: Statement, rest: AsyncIterator[bytes], answer: Answer
    ) -> None:
        feed = Feed(asyncio.get_running_loop())

        def work() -> Figures:
            return self._engine.insert(call, statement, _data(statement.data, _plain(feed, asked)))

        running = asyncio.ensure_future(self._pool(asked).run(work))
        pouring = asyncio.ensure_future(_pour(rest, feed))
        await asyncio.wait((running, pouring), return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            await asyncio.wait((running,))
        gone = await _settle(pouring)
        try:
            figures = running.result()
        except ClientGone:
            raise
        if gone:
            raise ClientGone
        await answer.whole(HTTPStatus.OK, _headers(figures), b"")

    async def _other(
        self, asked: request.Request, call: Call, statement: Statement, body: Body, answer: Answer
    ) -> None:
        name = _known_name(asked.default_format)
        work = self._pool(asked).run(lambda: self._engine.run(call, statement, name))
        result, figures = await self._unless_gone(work, call, body)
        headers = _headers(figures)
        if result:
            headers |= {"X-ClickHouse-Format": name, "Content-Type": content_type(name)}
        await answer.begin(HTTPStatus.OK, headers, encoder(asked.accept_encoding))
        await answer.write(result)
        await answer.end()

    async def _select(
        self, asked: request.Request, call: Call, statement: Statement, body: Body, answer: Answer
    ) -> None:
        name = _known_name(statement.format or asked.default_format)
        named = Statement(statement.kind, statement.head, name, statement.tail)
        reading, writing = pipe(CHUNK)

        def work() -> Figures:
            try:
                return self._engine.select(call, named, writing)
            finally:
                os.close(writing)

        try:
            running = asyncio.ensure_future(self._pool(asked).run(work))
            await self._unless_gone(self._stream(asked, name, reading, running, answer), call, body)
        finally:
            os.close(reading)

    async def _stream(
        self, asked: request.Request, name: str, reading: int, running: asyncio.Future[Figures], answer: Answer
    ) -> None:
        headers = {"X-ClickHouse-Format": name, "Content-Type": content_type(name)}
        held: list[bytes] = []
        size, limit = 0, (float("inf") if asked.wait_end else _HOLD)
        async for chunk in read_pipe(reading):
            if answer.begun:
                await answer.write(chunk)
                continue
            held.append(chunk)
            size += len(chunk)
            if size >= limit:
                await answer.begin(HTTPStatus.OK, headers | _headers(Figures()), encoder(asked.accept_encoding))
                await answer.write(b"".join(held))
        figures = await running
        if not answer.begun:
            await answer.begin(HTTPStatus.OK, headers | _headers(figures), encoder(asked.accept_encoding))
            await answer.write(b"".join(held))
        await answer.end()

    async def _unless_gone(self, work: Any, call: Call, body: Body) -> Any:
        """Await the work; when the client leaves first, end its query and raise ClientGone."""
        running, leaving = asyncio.ensure_future(work), asyncio.ensure_future(body.gone())
        await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            leaving.cancel()
            return running.result()
        await self.kill(call.tag)
        running.cancel()
        raise ClientGone

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


def _inserting(head: bytes) -> Statement | None:
    try:
        statement = sqltext.parse(head)
    except EngineError:  # the head may end in the middle of a statement; the whole of it is parsed then
        return None
    return statement if statement.kind is Kind.INSERT else None


def _plain(chunks: Iterable[bytes], asked: request.Request) -> Iterable[bytes]:
    return decoded(chunks, asked.content_encoding)


def _data(first: bytes, rest: Iterable[bytes]) -> Iterable[bytes]:
    if first:
        yield first
    yield from rest


async def _pour(rest: AsyncIterator[bytes], feed: Feed) -> None:
    try:
        async for chunk in rest:
            await feed.put(chunk)
    except ClientGone as gone:
        feed.fail(gone)
        raise
    feed.end()


async def _settle(pouring: asyncio.Future[None]) -> bool:
    """Stop a pour whose insert is over; True when the client had left."""
    pouring.cancel()
    try:
        await pouring
    except asyncio.CancelledError:
        return False
    except ClientGone:
        return True
    return False


def _headers(figures: Figures) -> dict[str, str]:
    return {"X-ClickHouse-Summary": figures.summary()}


def _known_name(name: str) -> str:
    """A format's name that is safe to put in a statement."""
    if not _FORMAT_NAME.fullmatch(name):
        raise refuse(ABORTED, f"{name!r} is no name of a format.")
    return name
