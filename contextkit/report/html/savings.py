"""What a fix saves: by replaying the sessions that had its misses with one thing changed, where that can be done here.

Else by the bills.

Takes judged calls as they come, gives a `Saving` a cause. How many calls are replayed is bounded: a page must not take
as long as `contextkit whatif`, which has no bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from contextkit.ledger.calls import Bodies
from contextkit.ledger.misses import AnalyzedCall
from contextkit.whatif.answer import Answer
from contextkit.whatif.what_if import what_if_judged

MOST_HELD, MOST_REPLAYED, MOST_BODY_BYTES = 20_000, 1_200, 32 << 20
"""Calls held until it is known which of them missed; calls replayed for one cause; bytes of bodies held."""
FIXES: Mapping[str, str] = {
    "ttl_expired": "lifetime",
    "out_of_reach": "breakpoints",
    "tools_changed": "sorted-tools",
    "system_changed": "clock-to-tail",
    "messages_changed": "no-pruning",
    "cold_fan_out": "leader-first",
    "other_server": "routing-key",
}
"""Cause → what can be changed in a replay to end its misses."""


@dataclass(frozen=True, slots=True)
class Saving:
    """One cause, answered by a replay."""

    fix: str
    """Name of the change, as `contextkit whatif --fix` takes it."""
    usd: float
    """What it saves."""
    low_usd: float
    """The least, over what no record says."""
    high_usd: float
    """The most."""
    calls: int
    """Calls that were replayed: those of the sessions that had such misses."""
    source: str
    """What of the record answered it."""


class Savings:
    """Holds calls until the recording is over."""

    __slots__ = ("_calls", "_n_bytes", "_n_calls")

    def __init__(self) -> None:
        self._calls: list[AnalyzedCall] = []
        self._n_bytes = self._n_calls = 0

    def see(self, analyzed: AnalyzedCall) -> None:
        """Add the next call."""
        self._n_calls += 1
        if self._n_calls > MOST_HELD:
            self._calls = []
            return
        if isinstance(analyzed.call.prompt, Bodies):
            self._n_bytes += len(analyzed.call.prompt.request)
            if self._n_bytes > MOST_BODY_BYTES:
                self._calls = [*map(_bare, self._calls)] if any(map(_has_body, self._calls)) else self._calls
                analyzed = _bare(analyzed)
        self._calls.append(analyzed)

    def savings_of(self, causes: Iterable[str]) -> dict[str, Saving]:
        """Return the savings of those causes that a replay answers."""
        answers = ((cause, self._answered(cause)) for cause in causes if cause in FIXES)
        return {cause: saving for cause, saving in answers if saving}

    def _answered(self, cause: str) -> Saving | None:
        sessions = {
            analyzed.call.session
            for analyzed in self._calls
            if analyzed.miss and analyzed.miss.cause == cause and analyzed.miss.is_loss
        }
        calls = [analyzed for analyzed in self._calls if analyzed.call.session in sessions]
        if not calls or len(calls) > MOST_REPLAYED:
            return None
        (answer,) = what_if_judged(calls, [FIXES[cause]]).answers
        return _saving(answer)


def _saving(answer: Answer) -> Saving | None:
    """Return the saving; None where nothing answered it, or where it changes no prompt: then it is not the fix for these misses."""
    saved = answer.saves_usd
    if saved is None or answer.low_usd is None or answer.high_usd is None or answer.changed_calls == 0:
        return None
    low, high = answer.before_usd - answer.high_usd, answer.before_usd - answer.low_usd
    return Saving(answer.fix, saved, low, high, answer.calls, answer.answered_from)


def _has_body(analyzed: AnalyzedCall) -> bool:
    return isinstance(analyzed.call.prompt, Bodies)


def _bare(analyzed: AnalyzedCall) -> AnalyzedCall:
    return replace(analyzed, call=replace(analyzed.call, prompt=None))
