"""The short way of a body: what a provider's connection reads is written to the client's in the same turn of the event
loop.

Takes two links, gives how it ended. No task wakes up for a chunk and nothing waits in a queue; reading stops while the
client's buffer is full.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import h11

from contextkit.proxy.account import Account
from contextkit.proxy.link import Link
from contextkit.proxy.passage import Timeouts


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
                continue
            self._give_up()

    def _give_up(self) -> None:
        if self._sink.is_full:
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
        """What to write, and how the body ended where it did."""
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

    for source, sink in ((client, provider), (provider, client)):
        sink.feeder = source
        source.raw = _writer(sink)
        source.raw(source.http.trailing_data[0])
        source.resume()
    provider.on_lost = closed
    await done
    client.close()


def _writer(sink: Link) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        if data and not sink.is_lost:
            sink.transport.write(data)

    return write
