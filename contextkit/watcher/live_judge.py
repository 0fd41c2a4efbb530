"""The judge of a watched client: what a request will lose before it leaves, and what a bill shows that it lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from threading import Lock

from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.misses import MissDetector
from contextkit.ledger.verdict import Verdict
from contextkit.terminal import sanitize

_MAX_WAIT_SECONDS = 3_600.0
"""A call that was sent longer ago is waited for no more."""


class LiveJudge:
    """Judges the calls of one client, as `contextkit report` judges those of a recording; safe to use from several threads.

    Calls are judged in the order in which they were sent: one that is answered early waits for those sent before it. A
    request that only continues its conversation need not be judged before it leaves: it changes nothing.
    """

    __slots__ = ("_answered", "_detector", "_in_flight", "_lock")

    def __init__(self) -> None:
        self._detector, self._lock = MissDetector(), Lock()
        self._in_flight: dict[str, float] = {}
        """Id of a call that was sent and has not ended → when it was sent."""
        self._answered: list[ModelCall] = []
        """Answered calls that wait for those sent before them."""

    def forecast(self, call: ModelCall, body: bytes) -> Verdict | None:
        """Judge a call that is about to be sent, as if the cache kept its rules; None where its prompt cannot be read."""
        with self._lock:
            return _checked(lambda: self._detector.forecast(replace(call, prompt=Bodies(body))))

    def sent(self, call_id: str, at: float) -> None:
        """Note that a call has left."""
        with self._lock:
            self._in_flight[call_id] = at

    def ended(self, call: ModelCall, body: bytes | None) -> list[tuple[str, Verdict | None]]:
        """Take a call that ended, with its body if it was answered; return id and verdict of each call that is judged now."""
        with self._lock:
            self._in_flight.pop(call.id, None)
            if body is not None:
                self._answered.append(replace(call, prompt=Bodies(body)))
            now = call.ended_at or call.at
            pending = [at for at in self._in_flight.values() if at > now - _MAX_WAIT_SECONDS]
            first = min(pending, default=float("inf"))
            ready = sorted((one for one in self._answered if one.at <= first), key=lambda one: one.at)
            self._answered = [one for one in self._answered if one.at > first]
            return [(one.id, _checked(partial(self._detector.judge, one))) for one in ready]


def _checked(judge: Callable[[], Verdict | None]) -> Verdict | None:
    """Return the verdict; None, with a line in the log, where an internal error prevents it: that must not stop the client."""
    try:
        return judge()
    except Exception as error:  # noqa: BLE001 - the caller's request or reply must not be lost to it
        logging.getLogger("contextkit.watch").warning("%s", sanitize(f"a call was not judged ({type(error).__name__})"))
        return None
