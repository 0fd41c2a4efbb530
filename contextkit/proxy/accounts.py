"""What is told of one request, and a response body on its way into that account.

`Account` reports one request to the observer: that it was sent, and once, how it ended. Of a model call it copies the
response up to a limit, of anything else it keeps sizes. `Pump` writes each chunk of a response in the turn of the event
loop that read it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import h11

from contextkit.content_encoding import MOST_BYTES
from contextkit.proxy.links import Link, encoding_of, value_of
from contextkit.proxy.observer import Departed, Ended, Observer, Passed, Timeouts
from contextkit.redact import credentials_of
from contextkit.watcher.budget import Admission


class Account:
    """The telling of one request; without an observer, of none."""

    __slots__ = (
        "_admission",
        "_chunks",
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
        admission: Admission | None = None,
    ) -> None:
        """`told` is a call that departs now, or the beginning of something else, whose end is not known yet.

        `admission` is what a budget has set aside for it.
        """
        self._admission = admission
        self._observer, self._told = observer, told if observer is not None else None
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
        if self._admission is not None:
            self._admission.was_sent = True

    def began(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """The response begins."""
        kept = list(headers)
        self._status, self._first_byte_at = status, time.time()
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
        now, chunks, self._chunks = time.time(), self._chunks, []
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
