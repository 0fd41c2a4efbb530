"""WebSockets of a watched client of openai's SDK: each request on one of the Responses API is a call like one by POST.

`client.responses.connect()` and `client.beta.responses.connect()` are read, at the connection of `websockets` that the
SDK sends and receives with: its messages pass unchanged, unless the watcher changes a request. What is not read (other
APIs' sockets, other messages) is warned about once, or refused under a budget.
"""

from __future__ import annotations

import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property, wraps
from inspect import iscoroutinefunction
from threading import Lock
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

from contextkit.canonical import parse_object
from contextkit.ledger.failure_names import ABORTED, CUT, unanswered
from contextkit.ledger.transport import Call, Watcher
from contextkit.providers.client_names import names_in_headers
from contextkit.providers.openai.response_socket import CREATE, ResponseSocket, stream_of
from contextkit.redact import credentials_of, register_credentials
from contextkit.terminal import sanitize
from contextkit.watcher.budget import unpriced
from contextkit.watcher.notify import caller

_PATH = "/v1/responses"
"""Path of a request by POST."""
_EVENTS, _REFUSAL = {"content-type": "text/event-stream"}, {"content-type": "application/json"}
"""Headers of a response whose events came over a socket, and of an error in its place."""
_QUEUE = "openai._send_queue"
"""Module that sends what the program sent before there was a connection."""
_IS_READ: ContextVar[bool] = ContextVar("contextkit_is_read", default=False)
"""Whether the socket that is being connected is read."""


def watch_sockets(client: Any, watcher: Watcher, *, is_refused: bool) -> None:
    """Let `watcher` see the requests on the sockets of `client` and its copies; a socket that is not read is refused, or
    warned about once, at the line that connects.

    The SDK copies a client by its class, and prepares the options of every connection like those of a request.
    """
    warned, lock = set[str](), Lock()

    def warn(text: str) -> None:
        if text not in warned:
            warned.add(text)
            where = caller()
            warnings.warn_explicit(
                sanitize(text), UserWarning, where.file or "<unknown>", where.line, where.module or None
            )

    def prepare_options(self: Any, options: Any) -> Any:
        if str(options.url).startswith(("ws:", "wss:")) and not _IS_READ.get():
            if is_refused:
                raise unpriced("GET", urlsplit(str(options.url)).path, is_upgrade=True)
            warn(
                "a web socket of a watched client is not read: no call in it is compared, recorded or counted against a "
                "budget; those of responses.connect() are"
            )
        return kind._prepare_options(self, options)

    def read(responses: Any) -> Any:
        with lock:  # threads may ask for a property at once
            watchers = vars(responses).setdefault("_watchers", [])
            if watcher not in watchers:
                watchers.append(watcher)
                responses.connect = connecting(responses.connect)
        return responses

    def connecting(connect: Any) -> Any:
        @wraps(connect)
        def connect_and_read(*values: Any, **named: Any) -> Any:
            manager = connect(*values, **named)
            if hasattr(manager, "_connect_ws"):  # else the SDK connects otherwise, unread
                manager._connect_ws = _reading(manager._connect_ws, watcher, warn)
            return manager

        return connect_and_read

    def read_beta(beta: Any) -> Any:
        _override(beta, responses=_changed(type(beta).responses, read))
        return beta

    kind = type(client)
    _override(
        client,
        _prepare_options=prepare_options,
        responses=_changed(kind.responses, read),
        beta=_changed(kind.beta, read_beta),
    )


def _override(owner: Any, **attributes: Any) -> None:
    """Give an object a class of its own, of the same name, with other attributes."""
    kind = type(owner)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    owner.__class__ = type(kind.__name__, (kind,), {**names, **attributes})


def _changed(inherited: Any, change: Callable[[Any], Any]) -> cached_property[Any]:
    """Change what an inherited property gives."""
    return cached_property(lambda self: change(inherited.__get__(self, type(self))))


def _reading(connect: Any, watcher: Watcher, warn: Callable[[str], None]) -> Any:
    """Return the same function, which gives a connection, whose connections are read."""

    @contextmanager
    def connecting() -> Iterator[None]:
        token = _IS_READ.set(True)
        try:
            yield
        finally:
            _IS_READ.reset(token)

    def connect_sync(*values: Any) -> Any:
        with connecting():
            connection = connect(*values)
        return _read(connection, SocketCalls(connection, watcher, warn))

    async def connect_async(*values: Any) -> Any:
        with connecting():
            connection = await connect(*values)
        return _read(connection, SocketCalls(connection, watcher, warn))

    return connect_async if iscoroutinefunction(connect) else connect_sync


def _read(connection: Any, calls: SocketCalls) -> Any:
    """Let `calls` see what is sent and received on a connection."""
    send, recv, close = connection.send, connection.recv, connection.close

    def send_sync(message: Any, *values: Any, **named: Any) -> None:
        with calls.sending(message) as sent:
            if sent is not None:
                send(sent, *values, **named)

    async def send_async(message: Any, *values: Any, **named: Any) -> None:
        with calls.sending(message) as sent:
            if sent is not None:
                await send(sent, *values, **named)

    def recv_sync(*values: Any, **named: Any) -> Any:
        with calls.receiving():
            return calls.received(recv(*values, **named))

    async def recv_async(*values: Any, **named: Any) -> Any:
        with calls.receiving():
            return calls.received(await recv(*values, **named))

    def close_and_end(*values: Any, **named: Any) -> Any:
        calls.end(ABORTED)
        return close(*values, **named)

    is_async = iscoroutinefunction(recv)
    connection.send, connection.recv = (send_async, recv_async) if is_async else (send_sync, recv_sync)
    connection.close = close_and_end
    return connection


class SocketCalls:
    """The calls of one socket. Threads may send, receive and close at the same time."""

    def __init__(self, connection: Any, watcher: Watcher, warn: Callable[[str], None]) -> None:
        """`connection`: one of `websockets` whose handshake is done; `warn` takes what is not read."""
        from websockets.exceptions import ConnectionClosed

        self._connection, self._watcher, self._warn, self._closed = connection, watcher, warn, ConnectionClosed
        handshake: Any = connection.request
        headers = list(handshake.headers.raw_items())
        raw = [(name.encode(), value.encode()) for name, value in headers]
        register_credentials(credentials_of(raw, handshake.path.encode()))
        self._names = names_in_headers(headers, handshake.headers.get("Host", ""))
        self._requests: ResponseSocket[Call | None] = ResponseSocket()
        self._refusals: deque[Exception] = deque()
        self._lock = Lock()

    @contextmanager
    def sending(self, message: object) -> Iterator[object]:
        """Observe a message that is about to be sent: give what is sent in its place, or None where nothing is.

        Raises what the watcher raises. Where the SDK sends what it had queued, which loses errors, `receiving` raises it.
        """
        body = message.encode() if isinstance(message, str) else b""
        fields = parse_object(body)
        try:
            call = self._start(str(fields.get("type") or "a message that is no event"), body)
        except Exception as refusal:
            if not _is_queued():
                raise
            self._refusals.append(refusal)
            yield None
            return
        if fields.get("type") != CREATE:
            yield message
            return
        was_open = self._connection.state.name == "OPEN"
        with self._lock:
            self._requests.sent(stream_of(fields), call)
        try:
            yield message if call is None or call.body is body else call.body.decode()
        except Exception as error:  # not a cancellation: the connection sends on, and the call is answered
            if call is not None:
                call.ended(is_whole=False, error=unanswered(error), was_sent=was_open)
            raise

    def _start(self, kind: str, body: bytes) -> Call | None:
        if kind == CREATE:
            return self._watcher.start("POST", _PATH, body, self._names)
        self._watcher.start("POST", f"{_PATH}/{kind}", None, self._names)  # a budget refuses what it cannot price
        self._warn(f"{kind} on a web socket is not read: what it is billed is recorded nowhere")
        return None

    @contextmanager
    def receiving(self) -> Iterator[None]:
        """Wait for a message; calls that are open when the socket turns out to be closed are cut."""
        if self._refusals:
            raise self._refusals.popleft()
        try:
            yield
        except self._closed:
            self.end(CUT)
            raise

    def received(self, message: Any) -> Any:
        """Read a message of the provider, and return it."""
        with self._lock:
            answer = self._requests.received(message.encode() if isinstance(message, str) else message)
        call = answer.call if answer is not None else None
        if answer is not None and call is not None:
            if answer.is_first:
                headers: Mapping[str, str] = _EVENTS if answer.status == 200 else _REFUSAL
                call.began(answer.status, headers)
            call.feed(answer.chunk)
            if answer.is_last:
                call.ended(is_whole=True)
        return message

    def end(self, error: str) -> None:
        """End the calls that are open."""
        with self._lock:
            unanswered_calls = self._requests.unanswered()
        for call in unanswered_calls:
            if call is not None:
                call.ended(is_whole=False, error=error)


def _is_queued() -> bool:
    """Return whether the SDK's queue sends, not the program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in (
        "contextkit",
        "contextlib",
    ):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == _QUEUE
