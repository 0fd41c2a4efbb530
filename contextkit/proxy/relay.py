"""Relays one request to the provider and its response back, without changing a byte.

`Link` is one HTTP/1.1 connection (asyncio transport, h11 protocol) that buffers at most one buffer in each direction
and stops reading while the link it is passed on to is full. `Upstream` holds the connections to one host, always with
its certificate checked; an idle one is used again for as long as the SDKs' own HTTP client would (httpx2, 5 s).
Hop-by-hop headers are dropped (RFC 9110, section 7.6.1); all others pass in their order and spelling.

`Relay` takes the head of a request on a client's link, sends the same request to the provider and every byte of its
response to the client, as it comes: `Pump` writes each chunk in the turn of the event loop that read it. A response
that breaks off breaks off for the client; a client that disconnects cancels the request. `Account` reports one request
to the observer: that it was sent, and once, how it ended. Of a model call it copies the response up to a limit, of
anything else it keeps sizes.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import astuple
from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from contextkit.errors import MissingExtra, UsageError

try:
    import h11
except ImportError:
    raise MissingExtra("the proxy", "server") from None

from contextkit.content_encoding import MOST_BYTES
from contextkit.providers.client_names import names_in_headers
from contextkit.providers.paths import wire_of
from contextkit.proxy.observer import Departed, Ended, Observer, Passed, Repair, Repaired, Timeouts
from contextkit.proxy.repairs.splices import capped
from contextkit.redact import credentials_of, redact_path, redact_text
from contextkit.server.http.half_closed import abort_if_left
from contextkit.watcher.budget import Admission, BudgetGate, Cap

Headers = list[tuple[bytes, bytes]]
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Of one connection, whatever `Connection` names besides."""
_OF_THE_REQUEST = frozenset({b"host", b"expect"})
"""Said anew: the host is another one, and who expects `100 Continue` got it from us."""


def passed_on(headers: Iterable[tuple[bytes, bytes]], without: frozenset[bytes] = frozenset()) -> Headers:
    """Return the headers that are for the other end.

    Of two ways to say how long a body is, chunks win, and both must not go on together (RFC 9112, 6.1).

    >>> passed_on([(b"X-Key", b"k"), (b"Connection", b"close, X-Hop"), (b"X-Hop", b"1")])
    [(b'X-Key', b'k')]
    >>> passed_on([(b"Content-Length", b"9"), (b"Transfer-Encoding", b"chunked")])
    []
    """
    kept = list(headers)
    without |= {b"content-length"} if value_of(kept, b"transfer-encoding") else set()
    named = {name.strip().lower() for key, value in kept if key.lower() == b"connection" for name in value.split(b",")}
    left_out = HOP_BY_HOP | without | named
    return [(name, value) for name, value in kept if name.lower() not in left_out]


def for_provider(headers: Iterable[tuple[bytes, bytes]], host: bytes, length: int | None = None) -> Headers:
    """A request's headers; `length` where its body is another one than the client's. A chunked body stays chunked."""
    kept = list(headers)
    is_chunked = any(name.lower() == b"transfer-encoding" for name, _ in kept)
    rest = passed_on(kept, _OF_THE_REQUEST)
    if length is not None:
        rest = [(name, b"%d" % length if name.lower() == b"content-length" else value) for name, value in rest]
    framing = [(b"Transfer-Encoding", b"chunked")] if is_chunked else []
    switch = [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")] if asks_for_websocket(kept) else []
    return [(b"Host", host), *rest, *framing, *switch]


def encoding_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """`Content-Encoding`, of several lines as one list; empty for none.

    >>> encoding_of([(b"Content-Encoding", b"gzip"), (b"content-encoding", b"br")])
    'gzip, br'
    """
    return ", ".join(value.decode("latin-1").strip() for key, value in headers if key.lower() == b"content-encoding")


def asks_for_websocket(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether a request asks to go on as a web socket; any other `Upgrade` may be ignored (RFC 9110, 7.8), and is."""
    return value_of(headers, b"upgrade").strip().lower() == b"websocket"


def value_of(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes:
    """The first value under a lower-case name, empty where there is none."""
    return next((value for key, value in headers if key.lower() == name), b"")


UNREAD_BYTES = 1 << 16
"""What may lie unread before reading stops."""
HEAD_BYTES = 1 << 18
"""The longest head of a message."""


def _nothing() -> None:
    return None


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


class Link(asyncio.Protocol):
    """A connection; `role` is h11's: SERVER towards a client, CLIENT towards a provider."""

    def __init__(self, role: type[h11.CLIENT | h11.SERVER], opened: Callable[[Link], None] = lambda link: None) -> None:
        self.http = h11.Connection(role, max_incomplete_event_size=HEAD_BYTES)
        """What was said so far on it."""
        self.is_lost = False
        """Whether it is gone."""
        self.is_used = False
        """Whether a request went over it before the one under way."""
        self.is_silent = True
        """Whether nothing came since the one under way began."""
        self.is_full = False
        """Whether the other side is slower than what is sent to it."""
        self.has_ended = False
        """Whether the client said that nothing more will come; it may still read."""
        self.pump: Callable[[], None] | None = None
        """Called for what comes, in place of whoever waits in `next_event`: the short way for bodies."""
        self.raw: Callable[[bytes], None] | None = None
        """Takes what comes, unread, once both sides have left HTTP."""
        self.feeder: Link | None = None
        """Whose reading stops while this one is full."""
        self.on_lost: Callable[[], object] = _nothing
        """Called once it is gone."""
        self._opened = opened
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self._unread = 0
        self._is_paused = self._is_chunked = False

    # What asyncio calls
    # ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self.transport = cast("asyncio.Transport", transport)
        self._opened(self)

    def data_received(self, data: bytes) -> None:
        """Something came."""
        if self.raw is not None:
            self.raw(data)
            return
        self.is_silent = False
        self.http.receive_data(data)
        if self.pump is not None:
            self.pump()
            return
        self._unread += len(data)
        if self._unread > UNREAD_BYTES:
            self.pause()
        _wake(self._reader)

    def eof_received(self) -> bool:
        """No more will come; return whether the transport stays open, as for a client that waits for its response."""
        self.has_ended = self.http.our_role is h11.SERVER and self.raw is None and not self.is_silent
        if self.has_ended:
            abort_if_left(self.transport, self._probe)
        elif self.raw is None:
            self.http.receive_data(b"")
        self.pump() if self.pump is not None else _wake(self._reader)
        return self.has_ended

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        self.is_lost = True
        if self.pump is not None:
            self.pump()
        _wake(self._reader)
        _wake(self._writer)
        self.on_lost()

    def pause_writing(self) -> None:
        """Its buffer is full: what feeds it stops."""
        self.is_full = True
        if self.feeder is not None:
            self.feeder.pause()

    def resume_writing(self) -> None:
        """There is room again."""
        self.is_full = False
        if self.feeder is not None:
            self.feeder.resume()
        _wake(self._writer)

    # What the proxy calls
    # -------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Read no further for now."""
        if not self._is_paused and not self.is_lost:
            self._is_paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._is_paused and not self.is_lost:
            self._is_paused = False
            self.transport.resume_reading()

    async def arrival(self, seconds: float) -> None:
        """Wait for the first byte of a request, or for the end of the link. Raises `TimeoutError`."""
        async with asyncio.timeout(seconds):
            while self.is_silent and not self.is_lost and self.http.trailing_data == (b"", False):
                self._reader = asyncio.get_running_loop().create_future()
                await self._reader

    async def next_event(self, seconds: float | None = None) -> Any:
        """The next event of h11; `seconds` is how long nothing may come.

        Raises `ConnectionResetError` where the link is gone, `h11.RemoteProtocolError` for what is not HTTP,
        `TimeoutError`.
        """
        while True:
            event = self.http.next_event()
            if event is not h11.NEED_DATA:
                return event
            if self.has_ended:
                self.abort()  # inside a request
            if self.is_lost or self.has_ended:
                raise ConnectionResetError("the connection was lost")
            self._unread = 0
            self.resume()
            if self.http.they_are_waiting_for_100_continue:
                self.send(h11.InformationalResponse(status_code=100, headers=[]))
            self._reader = asyncio.get_running_loop().create_future()
            async with asyncio.timeout(seconds):
                await self._reader

    def send(self, event: Any) -> None:
        """Say something."""
        data = self.http.send(event)
        if type(event) is h11.Response:
            self._is_chunked = b"\r\ntransfer-encoding: chunked\r\n" in (data or b"").lower()
        if data and not self.is_lost:
            self.transport.write(data)

    async def room(self) -> None:
        """Wait until the other side has taken most of what was sent. Raises `ConnectionResetError` where it is gone."""
        while self.is_full and not self.is_lost:
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer
        if self.is_lost:
            raise ConnectionResetError("the connection was lost")

    def close(self) -> None:
        """Send what is left, then close."""
        self.transport.close()

    def abort(self) -> None:
        """Close now."""
        self.transport.abort()

    def reset(self) -> None:
        """Close so that the other side can tell it from an end: for messages that only the end of the connection ends."""
        linger = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.transport.abort()

    def rest(self) -> bool:
        """Get ready for another request; False where that cannot be."""
        is_over = self.http.our_state is h11.DONE and self.http.their_state is h11.DONE
        is_last = self.has_ended and not self.http.trailing_data[0]
        if not is_over or is_last or self.is_lost or self.transport.is_closing():
            return False
        self.http.start_next_cycle()
        self.pump, self.feeder, self.on_lost, self._unread = None, None, _nothing, 0
        self.is_used = self.is_silent = True
        self.resume()
        return True

    def _probe(self) -> bytes:
        """Bytes that change nothing for a client of HTTP/1.1 that still reads.

        An interim response, which it must take whenever it comes (RFC 9110, 15.2); inside a body in chunks the first
        digit of the next chunk's size, which may begin with zeros (RFC 9112, 7.1).
        """
        if (self.http.their_http_version or b"") < b"1.1":
            return b""
        if self.http.our_state is h11.SEND_RESPONSE:
            return self.http.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")) or b""
        return b"0" if self.http.our_state is h11.SEND_BODY and self._is_chunked else b""

    @property
    def is_quiet(self) -> bool:
        """Return whether a link at rest is still open, and nothing came that nobody asked for."""
        return not self.is_lost and not self._unread and not self.transport.is_closing()


CONNECT_SECONDS = Timeouts().connect
"""How long opening a connection may take, its handshake included, unless an `Upstream` says otherwise."""
IDLE_SECONDS = 5.0
"""How long an idle connection is kept (httpx2, `Limits.keepalive_expiry`)."""
_PORTS = {"http": 80, "https": 443}


_HOST = re.compile(r"[\w.-]+|[\da-f.]*:[\da-f:.]+(%\w+)?")
"""A host's name or address, as `urlsplit` gives it."""


class Upstream:
    """The provider."""

    def __init__(self, url: str, ca: Path | None = None, connect_seconds: float = CONNECT_SECONDS) -> None:
        """`ca` is a file of certificates trusted beside the system's; `connect_seconds` limits opening a connection.

        Raises `UsageError` for what is no address or no certificate.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as fault:
            raise UsageError(f"--upstream {redact_path(url)!r} is not a URL ({redact_text(str(fault))})") from None
        if (
            parts.query or parts.fragment or parts.username or parts.password
        ):  # which may be secret: they are not said again
            raise UsageError(
                "--upstream takes scheme, host and path alone: keys, names and queries are the client's to send"
            )
        if parts.scheme not in _PORTS or not parts.hostname or not _HOST.fullmatch(parts.hostname):
            raise UsageError(
                f"--upstream {redact_path(url)!r}: give scheme and host of a provider, such as https://api.anthropic.com"
            )
        self.name, self._port = parts.hostname, port or _PORTS[parts.scheme]
        self._tls = _trust(ca) if parts.scheme == "https" else None
        self.connect_seconds = connect_seconds
        """How long opening a connection may take."""
        self.url = url.rstrip("/")
        """As given."""
        self.shown = redact_path(self.url)
        """As it may be shown: a path may hold a key."""
        self.host = parts.netloc.encode("idna" if not parts.netloc.isascii() else "ascii")
        """What requests name as their host."""
        self.prefix = parts.path.rstrip("/").encode()
        """What stands before every path."""
        self._idle: deque[tuple[Link, float]] = deque()

    async def link(self, *, is_new: bool = False) -> Link:
        """A connection that nobody uses, `is_new` never did.

        Raises `OSError`, `ssl.SSLError` and `TimeoutError` among them.
        """
        now = asyncio.get_running_loop().time()
        while self._idle and not is_new:
            link, since = self._idle.pop()
            if link.is_quiet and now - since < IDLE_SECONDS:
                return link
            link.abort()
        async with asyncio.timeout(self.connect_seconds):
            loop = asyncio.get_running_loop()
            checked = self.name if self._tls else None
            _, link = await loop.create_connection(
                lambda: Link(h11.CLIENT), self.name, self._port, ssl=self._tls, server_hostname=checked
            )
        return link

    def give_back(self, link: Link) -> None:
        """Keep a connection for the next request where that is possible, else close it."""
        if link.http.trailing_data[0] or not link.rest():
            link.abort()
            return
        self._idle.append((link, asyncio.get_running_loop().time()))
        asyncio.get_running_loop().call_later(IDLE_SECONDS, self._expire)

    def close(self) -> None:
        """Every idle connection."""
        while self._idle:
            self._idle.pop()[0].abort()

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._idle and now - self._idle[0][1] >= IDLE_SECONDS:
            self._idle.popleft()[0].close()


def _trust(ca: Path | None) -> ssl.SSLContext:
    """The system's certificates, those of certifi where it is there (Python on macOS has no others), and `ca`."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if find_spec("certifi"):
        context.load_verify_locations(import_module("certifi").where())
    if ca is not None:
        try:
            context.load_verify_locations(ca)
        except (OSError, ssl.SSLError) as fault:
            raise UsageError(f"--ca {ca}: no certificates can be read from it ({fault})") from None
    return context


class Account:
    """The telling of one request; without an observer, of none."""

    __slots__ = (
        "_admission",
        "_chunks",
        "_clock",
        "_credentials",
        "_encoding",
        "_first_byte_at",
        "_kind",
        "_n_bytes",
        "_n_sent",
        "_observer",
        "_status",
        "_told",
    )

    def __init__(
        self,
        observer: Observer | None,
        told: Departed | Passed,
        clock: Callable[[], float] = time.time,
        admission: Admission | None = None,
    ) -> None:
        """`told` is a call that departs now, or the beginning of something else, whose end is not known yet.

        `admission` is what a budget has set aside for it.
        """
        self._admission = admission
        self._observer, self._told, self._clock = observer, told if observer is not None else None, clock
        self._chunks: list[bytes] = []
        self._n_bytes = self._n_sent = self._status = 0
        self._kind = self._encoding = ""
        self._credentials: tuple[str, ...] = ()
        self._first_byte_at: float | None = None
        if observer is not None and isinstance(told, Departed):
            observer.departed(told)

    def sent(self, n_bytes: int) -> None:
        """Bytes of the request's body pass by."""
        self._n_sent += n_bytes

    def began(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """The response begins."""
        kept = list(headers)
        self._status, self._first_byte_at = status, self._clock()
        self._kind, self._encoding = value_of(kept, b"content-type").decode("latin-1"), encoding_of(kept)
        if self._admission is not None:
            self._admission.began(status, {"content-type": self._kind, "content-encoding": self._encoding})
        self._credentials = credentials_of(kept) if isinstance(self._told, Departed) else ()

    def keep(self, chunk: bytes | bytearray) -> None:
        """A chunk of its body passes by."""
        if self._admission is not None:
            self._admission.feed(bytes(chunk))
        self._n_bytes += len(chunk)
        if self._n_bytes <= MOST_BYTES and isinstance(self._told, Departed):
            self._chunks.append(bytes(chunk))

    def end(self, error: str = "") -> None:
        """It is over; the first word counts."""
        admission, self._admission = self._admission, None
        if admission is not None:
            admission.ended(is_whole=not error)
        told, self._told = self._told, None
        if told is None or self._observer is None:
            return
        now, chunks, self._chunks = self._clock(), self._chunks, []
        if isinstance(told, Passed):
            sizes = self._n_sent, self._n_bytes
            self._observer.passed(
                Passed(told.number, told.method, told.path, self._status, *sizes, told.at, now, error)
            )
            return
        response = self._kind, self._encoding, b"".join(chunks) if self._n_bytes <= MOST_BYTES else b""
        times = self._first_byte_at, now
        self._observer.ended(Ended(told.number, self._status, *response, *times, error, self._credentials))


class Pump:
    """A response body on its way from `source` to `sink`, and into an account.

    The account is closed where the last byte is written: a task that is cancelled before it hears of that takes nothing
    back.
    """

    __slots__ = ("_account", "_active_at", "_done", "_n_unsent", "_sink", "_source", "_timeouts")

    def __init__(self, source: Link, sink: Link, account: Account, timeouts: Timeouts) -> None:
        self._source, self._sink, self._account, self._timeouts = source, sink, account, timeouts
        self._active_at, self._n_unsent = 0.0, 0
        self._done: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def run(self) -> str:
        """Empty where the body came to its end, `cut` where it did not."""
        self._source.pump, self._sink.feeder = self._step, self._source
        try:
            (self._source.pause if self._sink.is_full else self._source.resume)()
            self._step()
            await self._watched()
            return await self._done
        finally:
            self._source.pump = self._sink.feeder = None

    async def _watched(self) -> None:
        """Wait for the end, or for a side that stands still for too long: a provider that is silent, or a client that
        takes nothing.
        """
        now = asyncio.get_running_loop().time
        self._active_at = now()
        while not self._done.done():
            limit = self._timeouts.idle if self._sink.is_full else self._timeouts.read
            await asyncio.wait({self._done}, timeout=max(0.0, self._active_at + limit - now()))
            if self._done.done() or now() - self._active_at < limit:
                continue
            n_unsent = self._sink.transport.get_write_buffer_size()
            if self._sink.is_full and n_unsent != self._n_unsent:
                self._n_unsent, self._active_at = n_unsent, now()
            elif self._sink.is_full:
                self._account.end("aborted")
                self._sink.abort()
                self._done.set_result("")
            else:
                self._account.end("cut")
                self._done.set_result("cut")

    def _step(self) -> None:
        """Pass on what is there."""
        if self._done.done():
            return
        written, ended = self._read()
        if written:
            self._active_at = asyncio.get_running_loop().time()
        if written and not self._sink.is_lost:
            self._sink.transport.write(b"".join(written))
        if ended is not None:
            self._account.end(ended)
            self._done.set_result(ended)

    def _read(self) -> tuple[list[bytes], str | None]:
        """Return what to write, and how the body ended if it did."""
        source, sink, written = self._source.http, self._sink.http, list[bytes]()
        try:
            while True:
                event: Any = source.next_event()
                kind = type(event)
                if kind is h11.Data:
                    written.append(sink.send(event) or b"")
                    self._account.keep(event.data)
                elif kind is h11.EndOfMessage:
                    written.append(sink.send(h11.EndOfMessage(headers=event.headers)) or b"")
                    return written, ""
                else:
                    return written, "cut" if self._source.is_lost else None
        except h11.RemoteProtocolError:
            return written, "cut"


async def tunnel(client: Link, provider: Link) -> None:
    """Pass bytes both ways until either side closes: another protocol is spoken now."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def closed() -> None:
        if not done.done():
            done.set_result(None)

    def write(sink: Link, data: bytes) -> None:
        if data and not sink.is_lost:
            sink.transport.write(data)

    for source, sink in ((client, provider), (provider, client)):
        sink.feeder = source
        source.raw = partial(write, sink)
        source.raw(source.http.trailing_data[0])
        source.resume()
    provider.on_lost = closed
    await done
    client.close()


_BROKEN = (OSError, h11.RemoteProtocolError)
"""What a provider's connection can fail with; a time-out is an OSError."""
DEFAULT_TIMEOUTS = Timeouts()
CLOSED_AT_ONCE_SECONDS = 1.0
"""How soon an idle connection that its other side had closed says so when it is used: a round trip. One that was silent
for longer had taken the request, and may be at work on it."""


class Unreachable(Exception):
    """No response came; the text says why, `status` is what the client is told."""

    def __init__(self, text: str, status: int = 502) -> None:
        super().__init__(text)
        self.status = status


class ClientStalled(Exception):
    """The client began a request and sent no more of it."""


class Relay:
    """One request on its way."""

    def __init__(
        self,
        client: Link,
        request: h11.Request,
        upstream: Upstream,
        observer: Observer | None,
        repair: Repair | None,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        gate: BudgetGate | None = None,
        on_switched: Callable[[str], object] = lambda path: None,
        on_capped: Callable[[str, Cap], object] = lambda path, cap: None,
    ) -> None:
        """`on_switched` is told the path where both sides go on in another protocol, of which nothing is read;
        `on_capped`, where a budget has lowered an output limit.
        """
        self._gate, self._on_switched, self._on_capped = gate, on_switched, on_capped
        self._admission: Admission | None = None
        self._client, self._request, self._upstream, self._timeouts = client, request, upstream, timeouts
        self._observer, self._repair = observer, repair
        self._target = _origin_form(request.target)
        self._method = request.method.decode("ascii")
        self._wire = wire_of(self._method, self._target.decode("latin-1"))
        self._is_upgrade = asks_for_websocket(request.headers)
        self._is_unpriced = gate is not None and gate.is_unpriced(
            self._method, self._target.decode("latin-1"), is_upgrade=self._is_upgrade
        )
        self._at = time.time()

    async def run(self, number: int) -> None:
        """Pass it on. The client's link says by its state whether it can go on.

        Raises `Unreachable` where no response began, `ClientStalled` where the client sent nothing more for too long,
        `BudgetExceeded` where a budget has no room for it.
        """
        body, is_whole = await self._gathered()
        repaired = self._repaired(body) if is_whole and self._wire else None
        sent = repaired.body if repaired else body
        if self._gate is not None and (self._wire or self._is_unpriced):
            self._admission = await self._admitted(self._gate, sent)
            if self._admission is not None and self._admission.cap is not None:
                self._on_capped(self._path, self._admission.cap)
                repaired = capped(body, repaired, self._admission.cap.splices)
                sent = repaired.body
        told: Departed | Passed = Passed(number, self._method, self._path, 0, 0, 0, self._at, self._at, "")
        if self._wire and is_whole:
            told = self._departed(number, body, repaired)
        self._account = Account(self._observer, told, admission=self._admission)
        try:
            if not await self._passed(sent, is_whole=is_whole, is_longer=repaired is not None):
                await self._passed(sent, is_whole=is_whole, is_longer=repaired is not None, is_again=True)
        except Unreachable as fault:
            self._account.end("timeout" if fault.status == 504 else "unreachable")
            raise
        finally:
            self._account.end("aborted")

    # The request
    # ----------------------------------------------------------------------------------------------------------

    async def _gathered(self) -> tuple[bytes, bool]:
        """The body of a model call, of what is refused, or of what has none, and whether it is all there; of anything else
        nothing yet.
        """
        chunks, n_bytes = list[bytes](), 0
        has_body = any(value_of(self._request.headers, name) for name in (b"content-length", b"transfer-encoding"))
        while (self._wire or self._is_unpriced or not has_body) and n_bytes <= MOST_BYTES:
            try:
                event = await self._client.next_event(self._timeouts.idle)
            except TimeoutError:
                raise ClientStalled from None
            if type(event) is h11.EndOfMessage:
                return b"".join(chunks), True
            chunks.append(bytes(event.data))
            n_bytes += len(event.data)
        return b"".join(chunks), False

    async def _admitted(self, gate: BudgetGate, body: bytes) -> Admission | None:
        """Reserve the call's part of a budget, computed off the event loop."""
        path = (self._upstream.prefix + self._target).partition(b"?")[0].decode("latin-1")
        encoding = encoding_of(self._request.headers)
        admitting = asyncio.ensure_future(
            asyncio.to_thread(
                gate.admit,
                self._method,
                path,
                body,
                encoding,
                is_upgrade=self._is_upgrade,
                is_signed=self._is_signed,
            )
        )
        try:
            return await asyncio.shield(admitting)
        except asyncio.CancelledError:
            admitting.add_done_callback(_released)
            raise

    def _repaired(self, body: bytes) -> Repaired | None:
        """None also for a body that is compressed, or that a signature covers (Amazon's SigV4)."""
        is_open = encoding_of(self._request.headers).lower() in ("", "identity") and not self._is_signed
        return self._repair(self._wire, body) if self._repair is not None and is_open else None

    @property
    def _is_signed(self) -> bool:
        """Whether a signature covers the body (Amazon's SigV4, in a header or in the query)."""
        proof = value_of(self._request.headers, b"authorization")
        return proof.startswith(b"AWS4-") or b"x-amz-signature=" in self._target.lower()

    def _departed(self, number: int, body: bytes, repaired: Repaired | None) -> Departed:
        encoding, client_names = encoding_of(self._request.headers), tuple[str, ...]()
        if self._observer is not None:
            headers = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._request.headers)
            found = names_in_headers(headers, self._upstream.host.decode("ascii"))
            client_names = astuple(found)
        sent, names, shared = (repaired.body, repaired.names, repaired.shared) if repaired else (body, (), ())
        change = sent, body if repaired else None, names, shared
        whose = self._credentials, client_names
        return Departed(number, self._wire, self._path, encoding, *change, time.time(), *whose)

    @cached_property
    def _credentials(self) -> tuple[str, ...]:
        return credentials_of(self._request.headers, self._target) if self._observer is not None else ()

    @cached_property
    def _path(self) -> str:
        """Without the query, redacted."""
        path = self._target.partition(b"?")[0].decode("latin-1")
        return redact_path(path, self._credentials) if self._observer is not None else path

    async def _passed(self, body: bytes, *, is_whole: bool, is_longer: bool, is_again: bool = False) -> bool:
        """Return whether a response came; False where it may be asked for once more.

        A provider may close an idle connection just when it is used again. The request goes out on a new one then.
        Where the connection stood for longer before it closed, the provider may have done what was asked: the client
        decides whether to ask again.
        """
        link = await self._connected(is_new=is_again)
        asked_at = time.monotonic()
        try:
            await self._calld(link, body, is_whole=is_whole, is_longer=is_longer)
        except Unreachable:
            was_idle = link.is_used and link.is_silent and time.monotonic() - asked_at < CLOSED_AT_ONCE_SECONDS
            if is_again or not is_whole or not was_idle:
                raise
            return False
        finally:
            self._client.feeder = self._client.raw = link.raw = None
            self._upstream.give_back(link)
        return True

    async def _connected(self, *, is_new: bool) -> Link:
        try:
            return await self._upstream.link(is_new=is_new)
        except TimeoutError as fault:
            text = f"{self._upstream.shown} cannot be reached: no connection after {self._upstream.connect_seconds:g} seconds"
            raise Unreachable(f"{text} (--connect-seconds)") from fault
        except OSError as fault:
            raise Unreachable(f"{self._upstream.shown} cannot be reached ({in_words(fault)})") from fault

    async def _calld(self, link: Link, body: bytes, *, is_whole: bool, is_longer: bool) -> None:
        if self._admission is not None:
            self._admission.was_sent = True
        headers = for_provider(self._request.headers.raw_items(), self._upstream.host, len(body) if is_longer else None)
        link.send(
            h11.Request(method=self._request.method, target=self._upstream.prefix + self._target, headers=headers)
        )
        upload = asyncio.create_task(self._upload(link, body, is_whole=is_whole))
        try:
            await self._answered(link, upload)
        finally:
            upload.cancel()
            await asyncio.gather(upload, return_exceptions=True)

    async def _upload(self, link: Link, body: bytes, *, is_whole: bool) -> None:
        """The body, or what is there of it and then the rest as it comes."""
        if body:
            link.send(h11.Data(data=body))
            self._account.sent(len(body))
        try:
            while not is_whole:
                event = await self._client.next_event(self._timeouts.idle)
                is_whole = type(event) is h11.EndOfMessage
                if not is_whole:
                    link.send(event)
                    self._account.sent(len(event.data))
                    await link.room()
                else:
                    link.send(h11.EndOfMessage(headers=event.headers))
                    return
            link.send(h11.EndOfMessage())
        except (h11.RemoteProtocolError, TimeoutError):
            link.abort()  # the client's body is no HTTP, or does not go on: the provider must not wait for the rest of it
            raise

    # The response
    # ---------------------------------------------------------------------------------------------------------

    async def _answered(self, link: Link, upload: asyncio.Task[None]) -> None:
        try:
            head = await self._head(link, upload)
        except TimeoutError:
            raise Unreachable(
                f"{self._upstream.shown} sent nothing for {self._timeouts.read:g} seconds (--read-seconds)", 504
            ) from None
        except _BROKEN as fault:
            raise Unreachable(
                f"{self._upstream.shown} closed the connection before it answered ({in_words(fault)})"
            ) from fault
        if type(head) is h11.InformationalResponse:
            headers = list(head.headers.raw_items())  # those of the connection belong to a 101
            self._client.send(h11.InformationalResponse(status_code=101, headers=headers, reason=head.reason))
            self._account.began(101, [])
            self._on_switched(self._target.partition(b"?")[0].decode("latin-1"))
            await tunnel(self._client, link)
            self._account.end()
            return
        headers = head.headers.raw_items()
        self._account.began(head.status_code, headers)
        self._client.send(h11.Response(status_code=head.status_code, headers=passed_on(headers), reason=head.reason))
        if await Pump(link, self._client, self._account, self._timeouts).run():
            # sends what came, then closes inside the message; where only the end of the link would end that, it is reset
            is_framed = (self._client.http.their_http_version or b"") >= b"1.1"
            (self._client.close if is_framed else self._client.reset)()

    async def _head(self, link: Link, upload: asyncio.Task[None]) -> Any:
        """The head of the response, or of the switch to another protocol; what is said before it is passed on."""
        while True:
            try:
                event = await link.next_event(self._timeouts.read)
            except TimeoutError:
                if not upload.done():
                    continue  # it may be waiting for the rest of the request
                raise
            if type(event) is h11.Response or (type(event) is h11.InformationalResponse and event.status_code == 101):
                return event
            if type(event) is not h11.InformationalResponse:
                raise ConnectionResetError("no response")
            if (self._client.http.their_http_version or b"") >= b"1.1":
                headers = passed_on(event.headers.raw_items())
                self._client.send(
                    h11.InformationalResponse(status_code=event.status_code, headers=headers, reason=event.reason)
                )


def _released(admitting: asyncio.Future[Admission | None]) -> None:
    """Give back what was set aside for a call whose client has left meanwhile."""
    admission = None if admitting.cancelled() or admitting.exception() else admitting.result()
    if admission is not None:
        admission.release()


def _origin_form(target: bytes) -> bytes:
    """`http://host/path`, as some send it to a proxy, is `/path` here."""
    scheme, mark, rest = target.partition(b"://")
    is_absolute = mark and scheme in (b"http", b"https")
    return b"/" + rest.partition(b"/")[2] if is_absolute else target


def in_words(fault: BaseException) -> str:
    """Name what went wrong in few words, never none.

    H11 quotes the header it stumbles over behind a colon, which may be a key.
    """
    text = str(fault)
    return redact_text(text.partition(":")[0] if isinstance(fault, h11.ProtocolError) else text) or type(fault).__name__
