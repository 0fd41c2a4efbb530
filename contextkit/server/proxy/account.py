"""What an observer is told of one call: that it left, and once, how it ended.

Takes what passes by, keeps a copy of the response up to a limit. Of headers only the two that say how to read a body.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from contextkit.server.proxy.headers import value_of
from contextkit.server.proxy.passage import MOST_BYTES, Departed, Ended, Observer


class Account:
    """The telling of one call; without an observer, of none."""

    __slots__ = ("_chunks", "_clock", "_departed", "_encoding", "_first_byte_at", "_kind", "_n_bytes", "_observer", "_status")

    def __init__(self, observer: Observer | None, departed: Departed | None, clock: Callable[[], float] = time.time) -> None:
        self._observer, self._departed, self._clock = observer, departed, clock
        self._chunks: list[bytes] = []
        self._n_bytes = self._status = 0
        self._kind = self._encoding = ""
        self._first_byte_at: float | None = None
        if observer is not None and departed is not None:
            observer.departed(departed)

    def began(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """The response begins."""
        kept = list(headers)
        self._status, self._first_byte_at = status, self._clock()
        self._kind, self._encoding = (value_of(kept, name).decode("latin-1") for name in (b"content-type", b"content-encoding"))

    def keep(self, chunk: bytes | bytearray) -> None:
        """A chunk of its body passes by."""
        self._n_bytes += len(chunk)
        if self._departed is not None and self._n_bytes <= MOST_BYTES:
            self._chunks.append(bytes(chunk))

    def end(self, error: str = "") -> None:
        """It is over; the first word counts."""
        departed, self._departed = self._departed, None
        if departed is None or self._observer is None:
            return
        body = b"".join(self._chunks) if self._n_bytes <= MOST_BYTES else b""
        ended = Ended(departed.number, self._status, self._kind, self._encoding, body, self._first_byte_at, self._clock(), error)
        self._chunks = []
        self._observer.ended(ended)
