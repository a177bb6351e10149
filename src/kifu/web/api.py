"""Endpoints: validated parameters in, JSON out, every error as one line."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import orjson
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from kifu.config import first_invalid
from kifu.errors import KifuError
from kifu.progress import Progress
from kifu.text import Report

MAX_BODY = 1 << 20
"""Largest body of a request, in bytes."""

P = TypeVar("P", bound="Params")


class Params(BaseModel):
    """Base of the parameters of an endpoint: from the query of a GET request, or from the JSON body of a POST request.

    All texts must have a maximum length, all numbers a range.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)


class NotFoundError(KifuError):
    """An address that names no game, net or catalogue."""


class BusyError(KifuError):
    """Too many requests of a kind wait already."""


class ChangedError(KifuError):
    """A catalogue whose files have changed since it was opened."""


class TimeLimitError(KifuError):
    """A request that took too long."""


@dataclass(frozen=True, slots=True)
class Download:
    """A file instead of JSON, which a browser saves as `name`."""

    data: bytes
    media_type: str
    name: str


@dataclass
class WorkerPool:
    """A pool of threads for requests of a kind, with bounds on those that run and that wait.

    Attributes:
        waiting: Maximum number that wait; further ones are answered with 503.
        seconds: Maximum time of one. Work that can be interrupted checks its `Deadline`.
        filters: The pool that takes requests with a condition in SQL instead.
    """

    running: int
    waiting: int = 64
    seconds: float = 10.0
    filters: WorkerPool | None = None
    _limiter: anyio.CapacityLimiter = field(init=False, repr=False)
    _deadlines: set[Deadline] = field(init=False, repr=False, default_factory=set)
    _stopped: bool = field(init=False, repr=False, default=False)

    def __post_init__(self) -> None:
        self._limiter = anyio.CapacityLimiter(self.running)

    async def run(self, work: Callable[[Deadline], Any], deadline: Deadline | None = None) -> Any:
        """Run work in a thread and return its result.

        The time of the deadline starts with the work; `Deadline.end` ends it earlier. Raises BusyError if too many
        wait, or the server stops; TimeLimitError if the deadline ended before the work began.
        """
        if self._limiter.statistics().tasks_waiting >= self.waiting:
            raise BusyError("the server is busy; try again later")
        deadline = deadline or Deadline(self.seconds)
        async with self._limiter:
            if self._stopped:
                raise BusyError("the server stops")
            deadline.start(self.seconds)
            self._deadlines.add(deadline)
            try:
                return await anyio.to_thread.run_sync(work, deadline, abandon_on_cancel=False, limiter=_THREADS)
            finally:
                self._deadlines.discard(deadline)

    def stop(self) -> None:
        """Interrupt all work, and accept none from now on."""
        self._stopped = True
        for deadline in list(self._deadlines):
            deadline.end()


_THREADS = anyio.CapacityLimiter(64)
"""Pools bound the number of threads; this never does."""


class Deadline:
    """The end of the time of a request."""

    def __init__(self, seconds: float = 60.0) -> None:
        self._interrupts: list[Callable[[], object]] = []
        self._ended = False
        self.seconds = seconds
        self._end = monotonic() + seconds

    def start(self, seconds: float) -> None:
        """Start the time again. Raises TimeLimitError if `end` was called."""
        self.check()
        self.seconds, self._end = seconds, monotonic() + seconds

    def end(self) -> None:
        """End the time now, for work whose answer is not needed any more."""
        self._ended = True
        for interrupt in list(self._interrupts):
            interrupt()

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return -1.0 if self._ended else self._end - monotonic()

    def check(self) -> None:
        """Raise TimeLimitError if the time is over."""
        if self._ended:
            raise TimeLimitError("the request was cancelled")
        if self.left < 0:
            raise TimeLimitError(f"the request took longer than {self.seconds:g} s")

    @contextmanager
    def progress(self, label: str, total: int | None, unit: str) -> Iterator[Progress]:
        """Check the time whenever work reports progress; a `ProgressFactory`."""
        yield _Checks(self)

    @contextmanager
    def interrupting(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Call `interrupt` in another thread if the time ends within the context. Raises TimeLimitError then."""
        self.check()
        timer = threading.Timer(max(self.left, 0), interrupt)
        timer.daemon = True
        timer.start()
        self._interrupts.append(interrupt)
        try:
            yield
        except KifuError:
            self.check()
            raise
        finally:
            timer.cancel()
            self._interrupts.remove(interrupt)


class _Checks(Progress):
    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def advance(self, n: int = 1) -> None:
        """Raise TimeLimitError if the time is over."""
        self._deadline.check()


_STATUS = {NotFoundError: 404, BusyError: 503, TimeLimitError: 503, ChangedError: 503}


def endpoint(
    path: str, params: type[P], work: Callable[[P, Deadline], Any], pool: WorkerPool, *, method: str = "GET"
) -> Route:
    """Return the route of an endpoint.

    Args:
        work: Compute the answer in a thread: a JSON value (NumPy numbers are allowed), a `Report` or a `Download`.
        method: "GET", or "POST" with a JSON body.
    """

    async def answer(request: Request) -> Any:
        given = params.model_validate(await _given(request, params))
        filters = pool.filters if getattr(given, "sql", "").strip() else None
        return await _run(request, filters or pool, lambda deadline: _render(work(given, deadline)))

    return plain_route(path, answer, method)


def upload(path: str, work: Callable[[bytes, str, Deadline], Any], pool: WorkerPool) -> Route:
    """Return the route of an endpoint that takes a file of at most `MAX_BODY` bytes as the body of a POST request.

    Args:
        work: Compute the answer from the bytes and the parameter `name` in a thread, as for `endpoint`.
    """

    async def answer(request: Request) -> Any:
        data, name = await read_body(request, MAX_BODY), request.query_params.get("name", "")
        return await _run(request, pool, lambda deadline: _render(work(data, name, deadline)))

    return plain_route(path, answer, "POST")


def plain_route(path: str, answer: Callable[[Request], Awaitable[Response]], method: str = "GET") -> Route:
    """Return the route of an asynchronous function; its errors are one line."""

    async def respond(request: Request) -> Response:
        try:
            return await answer(request)
        except ValidationError as error:
            return error_response(400, first_invalid(error))
        except KifuError as error:
            return error_response(_STATUS.get(type(error), 400), str(error))
        except ClientDisconnect:
            return error_response(400, "the connection was closed within the body")

    return Route(path, respond, methods=[method])


async def _run(request: Request, pool: WorkerPool, work: Callable[[Deadline], Any]) -> Any:
    deadline = Deadline()
    watcher = asyncio.create_task(_end_when_gone(request, deadline))
    try:
        return await pool.run(work, deadline)
    finally:
        watcher.cancel()


async def _end_when_gone(request: Request, deadline: Deadline) -> None:
    """End a deadline when the client closes the connection. The body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    deadline.end()


async def _given(request: Request, params: type[Params]) -> dict[str, Any]:
    if request.method == "POST":
        body = await read_body(request, MAX_BODY)
        try:
            given = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise KifuError("the body must be JSON") from None
        if not isinstance(given, dict):
            raise KifuError(f"the body must be a JSON object, got {type(given).__name__}")
    else:
        given = {}
        for key in request.query_params:
            values = request.query_params.getlist(key)
            if len(values) > 1:
                raise KifuError(f"{key[:40]} is given {len(values)} times")
            given[key] = values[0]
    return given | request.path_params


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request. Raises KifuError if it has more than `limit` bytes."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise KifuError(f"the body must have at most {limit:,} bytes")
        parts.append(part)
    return b"".join(parts)


def _render(answer: Any) -> Response:
    if isinstance(answer, Download):
        headers = {"content-disposition": f'attachment; filename="{answer.name}"'}
        return Response(answer.data, media_type=answer.media_type, headers=headers)
    if isinstance(answer, Report):
        answer = answer.to_dict()
    return json_response(answer)


def json_response(value: Any, status: int = 200) -> Response:
    """Return a JSON value as a response; numbers that are not finite are null."""
    data = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return Response(data, status, media_type="application/json", headers={"cache-control": "no-store"})


def error_response(status: int, message: str) -> Response:
    """Return an error as a response: `{"error": message}`."""
    return json_response({"error": message}, status)
