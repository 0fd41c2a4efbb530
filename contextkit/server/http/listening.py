"""uvicorn, but over as soon as it is told: it looks ten times a second whether it should end, and waits a tenth more
before it does.

That is a fifth of a second for every test that has a server of its own. And a client that ends its side of the
connection behind a whole request gets its response.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from contextkit.server.http.half_closed import abort_if_left

_LOOK_SECONDS = 0.1
_DRAIN_SECONDS = 0.002


class HalfClosable(H11Protocol):
    """A connection that stays open for the responses to whole requests when its client says no more."""

    _has_ended = False

    def _should_upgrade(self) -> bool:
        """Return whether a WebSocket may begin: wsproto answers another method without a reason, and fails at host names
        that it cannot decode. Both are answered as what they are besides, an HTTP request.
        """
        hosts = [value.lower() for name, value in self.headers if name == b"host"]
        is_plain = all(host.isascii() and b"xn--" not in host for host in hosts)
        return self.scope["method"] == "GET" and is_plain and super()._should_upgrade()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Nothing more will come; return whether the connection stays open for writing."""
        self._has_ended = self._owes_response()
        if self._has_ended:
            abort_if_left(self.transport, self._probe)
        return self._has_ended

    def on_response_complete(self) -> None:
        """Close behind the last response that is owed."""
        super().on_response_complete()
        if self._has_ended and not self._owes_response():
            self.transport.close()

    def _owes_response(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body

    def _probe(self) -> bytes:
        """An interim response, which a client of HTTP/1.1 must take whenever it comes (RFC 9110, 15.2)."""
        is_late = self.conn.our_state is not h11.SEND_RESPONSE or self.scope["http_version"] < "1.1"
        return (
            b""
            if is_late
            else self.conn.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")) or b""
        )


class Listening(uvicorn.Server):
    """A server on sockets that are open; `started` is called once it answers there."""

    def __init__(self, settings: uvicorn.Config, started: Callable[[], None]) -> None:
        """Listens when it is run."""
        super().__init__(settings)
        self._announce = started
        self._loop: asyncio.AbstractEventLoop | None = None
        self._told = asyncio.Event()

    def end(self) -> None:
        """Close the port and every connection, from any thread.

        Replies under way have `timeout_graceful_shutdown` seconds.
        """
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # over already
                self._loop.call_soon_threadsafe(self._told.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve; whoever is notified may press Ctrl-C at once, which is uvicorn's from here on."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets=sockets)
        self._announce()

    async def main_loop(self) -> None:
        """Until a signal or `end`."""
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), _LOOK_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, close those that are idle, wait for the others."""
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while (self.server_state.connections or self.server_state.tasks) and not self.force_exit:  # noqa: ASYNC110
                    await asyncio.sleep(_DRAIN_SECONDS)  # uvicorn has no event for it
        for task in list(self.server_state.tasks):
            task.cancel()
