"""The judge of a watched client: what a request will lose before it leaves, and what a bill shows that it lost.

A request that only continues its conversation is not judged before it leaves: it changes nothing. Answered calls wait,
the last few of each conversation, until a verdict is asked for, so that the usual turn costs a memory compare.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import replace
from threading import Lock

from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.causes import NO_REMARKS
from contextkit.ledger.judge import Judge
from contextkit.ledger.misses import complete_usage
from contextkit.ledger.verdict import Verdict
from contextkit.models import find_model
from contextkit.terminal import sanitize

_WAITING = 4
"""Calls of a conversation that wait: the latest, which hold what the others held."""
_MOST_WAITING = 64
"""Conversations of which calls wait."""
_MOST_WAITING_BYTES = 32 << 20
"""Bodies of the calls that wait."""


class LiveJudge:
    """Judges the calls of one client; safe to use from several threads."""

    __slots__ = ("_judge", "_lock", "_n_bytes", "_waiting")

    def __init__(self) -> None:
        self._judge, self._lock, self._n_bytes = Judge(), Lock(), 0
        self._waiting: OrderedDict[str, deque[ModelCall]] = OrderedDict()

    def forecast(self, call: ModelCall, body: bytes) -> Verdict | None:
        """Judge a call that is about to be sent, as if the cache kept its rules; None where they are not known."""
        row = find_model(call.model)
        if row is None:
            return None
        with self._lock:
            self._catch_up()
            return _checked(lambda: self._judge.forecast(replace(call, prompt=Bodies(body)), row))

    def answered(self, call: ModelCall, body: bytes) -> None:
        """Take a call that was answered."""
        with self._lock:
            waiting = self._waiting.setdefault(call.session, deque())
            self._waiting.move_to_end(call.session)
            waiting.append(replace(call, prompt=Bodies(body)))
            self._n_bytes += len(body)
            if len(waiting) > _WAITING:
                self._n_bytes -= _n_bytes(waiting.popleft())
            while len(self._waiting) > 1 and (
                len(self._waiting) > _MOST_WAITING or self._n_bytes > _MOST_WAITING_BYTES
            ):
                for one in self._waiting.popitem(last=False)[1]:
                    self._n_bytes -= _n_bytes(one)
                    self._feed(one)

    def verdict(self, call: ModelCall) -> Verdict | None:
        """Judge a call that was answered, and taken, by its bill; None where its model's rules are not known."""
        with self._lock:
            return self._catch_up().get(call.id)

    def _catch_up(self) -> dict[str, Verdict | None]:
        """Judge the calls that wait, in the order in which they began; gives id → verdict."""
        waiting = sorted((call for calls in self._waiting.values() for call in calls), key=lambda call: call.at)
        self._waiting.clear()
        self._n_bytes = 0
        return {call.id: self._feed(call) for call in waiting}

    def _feed(self, call: ModelCall) -> Verdict | None:
        row = find_model(call.model)
        if row is None:
            return None
        return _checked(lambda: self._judge.feed(call, row, complete_usage(call), NO_REMARKS))


def _checked(judge: Callable[[], Verdict | None]) -> Verdict | None:
    """The verdict; None, with a line in the log, where an internal error prevents it: that must not stop the client."""
    try:
        return judge()
    except Exception as error:  # noqa: BLE001 - the caller's request or reply must not be lost to it
        logging.getLogger("contextkit.watch").warning("%s", sanitize(f"a call was not judged ({type(error).__name__})"))
        return None


def _n_bytes(call: ModelCall) -> int:
    return len(call.prompt.request) if isinstance(call.prompt, Bodies) else 0
