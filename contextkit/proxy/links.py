"""A connection of the proxy, and the headers that pass from one to the other.

`Link` is one HTTP/1.1 connection (asyncio transport, h11 protocol) that buffers at most one buffer in each direction
and stops reading while the link it is passed on to is full. Hop-by-hop headers are dropped (RFC 9110, section 7.6.1);
all others pass in their order and spelling.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any, cast

import h11

from contextkit.redact import redact_text
from contextkit.server.http.half_closed import abort_if_left

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


def in_words(fault: BaseException) -> str:
    """Name what went wrong in few words, never none.

    H11 quotes the header it stumbles over behind a colon, which may be a key.
    """
    text = str(fault)
    return redact_text(text.partition(":")[0] if isinstance(fault, h11.ProtocolError) else text) or type(fault).__name__
