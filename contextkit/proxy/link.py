"""One HTTP/1.1 connection: bytes in, events out, and the other way, never more in memory than one buffer of each.

Takes a transport of asyncio and h11's reading of the protocol. Reading stops while nobody wants what comes, or while
the link that it is passed on to is full. Knows nothing of what is said.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Callable
from typing import Any, cast

import h11

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
        self._is_paused = False

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

    def eof_received(self) -> None:
        """No more will come; the transport closes."""
        if self.raw is None:
            self.http.receive_data(b"")
        self.pump() if self.pump is not None else _wake(self._reader)

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
            if self.is_lost:
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
        if not is_over or self.is_lost or self.transport.is_closing():
            return False
        self.http.start_next_cycle()
        self.pump, self.feeder, self.on_lost, self._unread = None, None, _nothing, 0
        self.is_used = self.is_silent = True
        self.resume()
        return True

    @property
    def is_quiet(self) -> bool:
        """Whether a link at rest is still open, and nothing came that nobody asked for."""
        return not self.is_lost and not self._unread and not self.transport.is_closing()
