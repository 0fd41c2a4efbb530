"""uvicorn, but over as soon as it is told: it looks ten times a second whether it should end, and waits a tenth more
before it does.

That is a fifth of a second for every test that has a server of its own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

_LOOK_SECONDS = 0.1
_DRAIN_SECONDS = 0.002


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
