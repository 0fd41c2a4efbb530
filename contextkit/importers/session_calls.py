"""Calls of session files in which every reply says its own bill: their times, and each of them counted once.

Takes what a reader found of a call, gives its call with the remarks on it. Knows no format.

A call starts when something was last put to the model, where that was less than an hour before the reply; otherwise
when the reply ended, as nothing tells how long it took.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from contextkit.importers.read_once import ReadOnce
from contextkit.importers.source import Source
from contextkit.importers.transcript import EARLIEST
from contextkit.ledger.calls import ModelCall, Record, Remark, RemarkKind

LONGEST = 3600.0
"""Seconds that a call may take: what was put to the model earlier than that is not what it answered."""
UNTIMED = "no time, or one of a clock that was never set; the time of the call before stands in"


class SessionCalls(ReadOnce):
    """The calls of one file, in its order."""

    def __init__(self, source: Source, program: str) -> None:
        """`program` keeps the names of its calls apart from those of other programs."""
        super().__init__(source, program, "calls were")
        self.asked: float | None = None
        """When something was last put to the model."""
        self.ended = EARLIEST
        """When the call before ended."""
        self.n_calls = self.n_unbilled = 0
        """Calls, and replies that say nothing of what was billed."""
        self._ended: dict[tuple[str, str], float] = {}
        self._said_next: dict[RemarkKind, str] = {}

    def put(self, at: float | None) -> None:
        """Something was put to the model: a message of the user, the result of a tool."""
        self.asked = self.asked if at is None else at

    def remark_next(self, kind: RemarkKind, text: str) -> None:
        """Say something of the next call."""
        self._said_next[kind] = text

    def call(self, line: int, call: ModelCall) -> Iterator[Record]:
        """A call with the remarks on it.

        Its `ended_at` is when the reply ended, its `at` when it was asked for; one of both may be unknown: None, and 0.
        """
        self.n_calls += 1
        when, lane = call.ended_at or call.at, (call.session, call.lane)
        if not when:
            self.source.fault(line, UNTIMED)
            when = self.ended
        elif when < self._ended.get(lane, 0.0) - 1:
            self.source.fault(
                line, "earlier than the call before it: a wrong clock, or lines out of order; taken as it stands"
            )
        at = call.at or (self.asked if self.asked is not None and 0 <= when - self.asked <= LONGEST else when)
        self.asked, self.ended, self._ended[lane] = None, when, when
        yield from (Remark(kind, call.id, text) for kind, text in self._said_next.items())
        self._said_next.clear()
        yield replace(call, at=min(at, when), ended_at=None if call.at and call.ended_at is None else when)

    def finish(self) -> None:
        """Report what concerns the file as a whole."""
        super().finish()
        if self.n_unbilled and not self.n_calls:
            self.source.fault(0, f"none of its {self.n_unbilled:,} replies says token counts; they are in no figure")
