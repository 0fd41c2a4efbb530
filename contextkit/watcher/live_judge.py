"""The judge of a watched client: what a request will lose before it leaves, and what a bill shows that it lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Generic, TypeVar
from weakref import WeakSet

from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.misses import MissDetector
from contextkit.ledger.verdict import Verdict
from contextkit.terminal import sanitize

_MAX_WAIT_SECONDS = 3_600.0
"""A call that was sent longer ago is waited for no more."""
MOST_BYTES = 1 << 26
"""Bodies of calls that wait for an earlier one; beyond it, the oldest are judged without it."""
_LEAST_BYTES = MOST_BYTES >> 12
"""A call counts at least so many bytes."""
About = TypeVar("About")
"""What the owner notes of a call."""


class Ticket:
    """A call that was sent. One that is dropped before its call has ended is waited for no more."""

    __slots__ = ("__weakref__", "at")

    def __init__(self, at: float) -> None:
        self.at = at
        """When it was sent."""


class LiveJudge(Generic[About]):
    """Judges the calls of one client, as `contextkit report` judges those of a recording; safe to use from several threads.

    Calls are judged in the order in which they were sent: one that is answered early waits for those sent before it. A
    request that only continues its conversation need not be judged before it leaves: it changes nothing.
    """

    __slots__ = ("_answered", "_detector", "_in_flight", "_lock", "_n_bytes")

    def __init__(self) -> None:
        self._detector, self._lock = MissDetector(), Lock()
        self._in_flight: WeakSet[Ticket] = WeakSet()
        self._answered: list[tuple[ModelCall, bytes, About]] = []
        """Calls that wait, with their bodies."""
        self._n_bytes = 0

    def forecast(self, call: ModelCall, body: bytes) -> Verdict | None:
        """Judge a call that is about to be sent, as if the cache kept its rules; None where its prompt cannot be read."""
        with self._lock:
            return _checked(lambda: self._detector.forecast(replace(call, prompt=Bodies(body))))

    def sent(self, at: float) -> Ticket:
        """Note that a call has left; its ticket is to be kept until it ends."""
        ticket = Ticket(at)
        with self._lock:
            self._in_flight.add(ticket)
        return ticket

    def ended(
        self, ticket: Ticket | None, call: ModelCall, body: bytes | None, about: About
    ) -> list[tuple[About, Verdict | None]]:
        """Take a call that ended, with its body if it was answered; return what is noted of each call that is judged now, and
        its verdict.
        """
        with self._lock:
            if ticket is not None:
                self._in_flight.discard(ticket)
            if body is not None:
                self._answered.append((call, body, about))
                self._answered.sort(key=_sent_at)
                self._n_bytes += max(len(body), _LEAST_BYTES)
            now = call.ended_at or call.at
            pending = [one.at for one in self._in_flight if one.at > now - _MAX_WAIT_SECONDS]
            first, judged = min(pending, default=float("inf")), []
            while self._answered and (_sent_at(self._answered[0]) <= first or self._n_bytes > MOST_BYTES):
                judged.append(self._judged(*self._answered.pop(0)))
            return judged

    def _judged(self, call: ModelCall, body: bytes, about: About) -> tuple[About, Verdict | None]:
        self._n_bytes -= max(len(body), _LEAST_BYTES)
        return about, _checked(partial(self._detector.judge, replace(call, prompt=Bodies(body))))


def _sent_at(waiting: tuple[ModelCall, bytes, object]) -> float:
    return waiting[0].at


def _checked(judge: Callable[[], Verdict | None]) -> Verdict | None:
    """Return the verdict; None, with a line in the log, where an internal error prevents it: that must not stop the client."""
    try:
        return judge()
    except Exception as error:  # noqa: BLE001 - the caller's request or reply must not be lost to it
        log_internal_error("a call was not judged", error)
        return None


def log_internal_error(what: str, error: Exception) -> None:
    """Write a line to the log of `watch`, without the text of the error, which may hold some of a prompt."""
    logging.getLogger("contextkit.watch").warning("%s", sanitize(f"{what} ({type(error).__name__})"))
