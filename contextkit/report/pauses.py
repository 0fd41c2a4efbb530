"""Estimates what compacting before a pause would have saved.

A call behind a pause that outlives the cache writes the whole history anew, and every later call carries it. A
compaction just before the pause reads the history while it is cached and leaves a summary. Of the pauses of a
conversation, up to its next compaction, the one counts before which a compaction saves most. A cold call whose prompt
changed repeats no history and is not counted: its miss has another cause than `ttl_expired`.

The dollars are list prices of the recorded calls. What the compaction would have left is an assumption: a summary of
`SUMMARY_TOKENS`, a tail of `TAIL_TOKENS` and the least that any call of the conversation read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from contextkit import prices
from contextkit.cache.usage import Usage
from contextkit.ledger.cold import as_read
from contextkit.ledger.figures import dollars
from contextkit.ledger.misses import AnalyzedCall
from contextkit.models import find_model

SUMMARY_TOKENS, TAIL_TOKENS = 3_000, 20_000
GROWTH = 1.1
"""A later pause is compared only if compacting before it removes this much more than before any earlier one. An earlier
compaction saves on more calls, and the number of pauses that are priced with every call stays small.
"""


@dataclass(frozen=True, slots=True)
class PauseSavings:
    """What compacting before pauses would have saved."""

    saved_usd: float
    """Dollars, the calls that write the summaries paid."""
    sessions: int
    """Sessions with such a pause."""
    summary_tokens: int = SUMMARY_TOKENS
    """Assumed size of a summary."""
    tail_tokens: int = TAIL_TOKENS
    """Assumed size of what is kept behind it."""
    grade: str = "estimated"
    """Grade of the figure."""

    def __str__(self) -> str:
        """Format the line of a report."""
        where = "1 session" if self.sessions == 1 else f"{self.sessions:,} sessions"
        return (
            f"compacting before a pause would have saved {dollars(self.saved_usd)} in {where} ({self.grade}: a summary of "
            f"{self.summary_tokens:,} tokens and the last {self.tail_tokens:,} kept)"
        )


@dataclass(slots=True)
class _Pause:
    """A compaction that could have been made."""

    removed: int
    """Tokens that it takes out of every later call."""
    saved_usd: float
    """So far, less its own cost."""


@dataclass(slots=True)
class _Conversation:
    """One conversation since its last compaction."""

    left: int = 0
    """Tokens that the next call repeats."""
    head: int = 0
    """The least that a call read; 0 if none did."""
    pauses: list[_Pause] = field(default_factory=list)
    """Each removes at least `GROWTH` times what the one before removes."""


class Pauses:
    """Collects the pauses of a recording, call by call."""

    def __init__(self) -> None:
        self._conversations: dict[tuple[str, str], _Conversation] = {}
        self._saved: dict[str, float] = {}
        self._has_row: dict[str, bool] = {}
        """Model → whether the table has a row of it."""

    def add(self, analyzed: AnalyzedCall) -> None:
        """Add the next call that counts."""
        call, usage, cause = analyzed.call, analyzed.usage, analyzed.miss.cause if analyzed.miss else None
        size = usage.prompt if usage is not None else None
        if usage is None or not size or not analyzed.has_model_price:
            return
        has_row = self._has_row.get(call.model)
        if has_row is None:
            has_row = self._has_row[call.model] = find_model(call.model) is not None
        if not has_row:
            return
        key = call.session, call.lane
        now = self._conversations.get(key) or self._conversations.setdefault(key, _Conversation())
        read = usage.read or 0
        if now.left and (size * 2 < now.left or cause == "compaction"):
            self._settle(call.session, now)
            now.left = 0
        is_cold = read * 2 < size
        is_pause = now.left and is_cold and cause in ("ttl_expired", "cold_start")
        if is_pause or now.pauses:
            price = prices.price_of(call.provider, call.model, call.at)
        if is_pause:
            removed = min(now.left, size) - now.head - SUMMARY_TOKENS - TAIL_TOKENS
            summary_usd = price(Usage(0, now.left, 0, 0, SUMMARY_TOKENS))
            most = now.pauses[-1].removed if now.pauses else 0
            if removed > most * GROWTH and summary_usd is not None:
                now.pauses.append(_Pause(removed, -summary_usd))
        if now.pauses:
            billed = usage if usage.output is not None else usage.with_output(0)
            usd = price(billed) or 0.0
            for pause in now.pauses:
                pause.saved_usd += usd - (price(_without(billed, pause.removed, is_cold=is_cold)) or 0.0)
        now.left = size + (usage.output or 0)
        now.head = min(now.head or read, read or now.head)

    def savings(self) -> PauseSavings | None:
        """Sum up the calls so far; None if no compaction would have paid."""
        saved = dict(self._saved)
        for (session, _), conversation in self._conversations.items():
            saved[session] = saved.get(session, 0.0) + _best(conversation)
        paying = [usd for usd in saved.values() if usd > 0]
        return PauseSavings(sum(paying), len(paying)) if paying else None

    def _settle(self, session: str, conversation: _Conversation) -> None:
        self._saved[session] = self._saved.get(session, 0.0) + _best(conversation)
        conversation.pauses.clear()


def _best(conversation: _Conversation) -> float:
    return max((pause.saved_usd for pause in conversation.pauses if pause.saved_usd > 0), default=0.0)


def _without(usage: Usage, removed: int, *, is_cold: bool) -> Usage:
    """Return the bill of the same call with a shorter history: less written if it is cold, less read otherwise."""
    if is_cold:
        return as_read(usage, removed).with_read(usage.read)
    return usage.with_read(max((usage.read or 0) - removed, 0))
