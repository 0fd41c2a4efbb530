"""What an observer is told of one request: that it left, and once, how it ended.

Takes what passes by; of a model call it keeps a copy of the response up to a limit, of anything else sizes. Of headers
only the two that say how to read a body, and the credentials that must be covered in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from contextkit.proxy.headers import encoding_of, value_of
from contextkit.proxy.passage import MOST_BYTES, Departed, Ended, Observer, Passed
from contextkit.redact import credentials_of


class Account:
    """The telling of one request; without an observer, of none."""

    __slots__ = (
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
        self, observer: Observer | None, told: Departed | Passed, clock: Callable[[], float] = time.time
    ) -> None:
        """`told` is a call that departs now, or the beginning of something else, whose end is not known yet."""
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
        self._credentials = credentials_of(kept) if isinstance(self._told, Departed) else ()

    def keep(self, chunk: bytes | bytearray) -> None:
        """A chunk of its body passes by."""
        self._n_bytes += len(chunk)
        if self._n_bytes <= MOST_BYTES and isinstance(self._told, Departed):
            self._chunks.append(bytes(chunk))

    def end(self, error: str = "") -> None:
        """It is over; the first word counts."""
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
        body = b"".join(chunks) if self._n_bytes <= MOST_BYTES else b""
        self._observer.ended(
            Ended(
                told.number,
                self._status,
                self._kind,
                self._encoding,
                body,
                self._first_byte_at,
                now,
                error,
                self._credentials,
            )
        )
