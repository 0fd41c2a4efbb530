"""All conversations of a recording with something changed that bills and times can answer, reading by reading.

The conversations used last are held; one that comes back after it had to go starts again with what its bill says was
there. O(conversations held) memory, however long the recording.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contextkit import prices
from contextkit.cache.usage import Usage
from contextkit.ledger.misses import AnalyzedCall
from contextkit.models import Model, find_model, model_named
from contextkit.whatif.answer import Unexplained
from contextkit.whatif.fix import LIFETIMES, Fix, LaneChange, Reading, readings_of
from contextkit.whatif.timed_lane import AdjustedCall, LaneRun, PricedCall, has_lifetime_choice

MOST_LANES = 64
"""Held at a time."""
_SCALES = {"as listed": 1.0, "20 % fewer": 0.8, "20 % more": 1.2}
_AS_IT_WAS = LaneChange()


def call_of(judged: AnalyzedCall) -> PricedCall | str:
    """Return what a conversation needs to know of a call; why not, if it cannot."""
    row = find_model(judged.call.model) or model_named(judged.call.model, judged.call.provider)
    if judged.usage is None:
        return "the bill is unknown"
    if judged.list_cost_usd is None:
        return f"no price for {judged.call.model}"
    if not judged.usage.prompt:
        return "nothing was sent"
    miss = judged.miss
    expected = miss.expected_tokens if miss else judged.usage.read or 0
    return PricedCall(
        judged.call, row, judged.usage, expected, miss.cause if miss else None, row.cache == "breakpoints"
    )


class Lanes:
    """Replays calls as they come; the sums are complete after `finish`."""

    def __init__(self, fixes: Sequence[Fix]) -> None:
        self._fixes = [fix for fix in fixes if fix.lanes]
        self._lanes: OrderedDict[tuple[str, str], _Lane] = OrderedDict()
        self._counts: Counter[str] = Counter()
        self._chosen: dict[str, Counter[LaneChange]] = {fix.name: Counter() for fix in self._fixes}
        self.difference_usd = 0.0
        """The replay of what was less the bill: nothing but rounding, as it takes over what it does not explain."""
        self.saved_usd: dict[str, list[float]] = {fix.name: [0.0] * len(readings_of(fix)) for fix in self._fixes}
        """Fix → dollars it saves under each of its readings."""
        self.why_not: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Fix → why calls are left out of it, and how many."""
        self.n_calls: Counter[str] = Counter()
        """Fix → calls it was answered for."""

    def add(self, priced: PricedCall, recorded_usd: float) -> None:
        """Replay one more call."""
        key = priced.call.session, priced.call.lane
        lane = self._lanes.pop(key, None) or _Lane(self._fixes, priced.row)
        self._lanes[key] = lane
        adjusted = lane.add(priced, recorded_usd)
        self._counts["calls"] += 1
        self._counts["unexplained"] += adjusted.is_unexplained
        self._counts["seeded"] += adjusted.is_read_seeded and not adjusted.is_unexplained
        for fix in self._fixes:
            reason = _not_for(fix, priced.row)
            if reason:
                self.why_not[fix.name][reason] += 1
            else:
                self.n_calls[fix.name] += 1
                lane.fixes.add(fix.name)
        if len(self._lanes) > MOST_LANES:
            self._fold(self._lanes.popitem(last=False)[1])

    def finish(self) -> None:
        """Add up what is still held: the recording is over."""
        while self._lanes:
            self._fold(self._lanes.popitem(last=False)[1])

    @property
    def unexplained(self) -> Unexplained:
        """Count the calls that the replay does not explain, and repeats."""
        return Unexplained(self._counts["calls"], self._counts["unexplained"], self._counts["seeded"])

    def note(self, fix: Fix) -> str:
        """Return what else is to be said of a fix."""
        if fix.lanes[0].is_long is None:
            return ""
        chosen = self._chosen[fix.name]
        long, short = chosen[LaneChange(is_long=True)], chosen[LaneChange(is_long=False)]
        return f"of {chosen.total():,} conversations {long:,} longer, {short:,} shorter"

    def _fold(self, lane: _Lane) -> None:
        """Add up a conversation; of the changes of a fix that applies, take the one that saves most under the first reading."""
        self.difference_usd += lane.was[LIFETIMES[0]].usd - lane.recorded_usd
        for fix in (fix for fix in self._fixes if fix.name in lane.fixes):
            readings = readings_of(fix)
            saved = {change: [lane.saved_usd(change, one) for one in readings] for change in fix.lanes}
            if fix.lanes[0].model is None:
                saved[_AS_IT_WAS] = [0.0] * len(readings)
            best = max(saved, key=lambda change: saved[change][0] - 1e-12 * (change != _AS_IT_WAS))
            self._chosen[fix.name][best] += 1
            self.saved_usd[fix.name] = [a + b for a, b in zip(self.saved_usd[fix.name], saved[best], strict=True)]


@dataclass(slots=True)
class _Paid:
    """A run of a conversation and what it has come to."""

    run: LaneRun
    usd: float = 0.0


class _Lane:
    """One conversation: as it was, and with every change under every reading."""

    __slots__ = ("_changed", "fixes", "recorded_usd", "was")

    def __init__(self, fixes: Sequence[Fix], row: Model) -> None:
        """`row`: the model of its first call."""
        self.recorded_usd = 0.0
        self.fixes: set[str] = set()
        """Names of the fixes that apply to any of its calls."""
        self.was = {lifetime: _Paid(LaneRun(_AS_IT_WAS, lifetime)) for lifetime in LIFETIMES}
        self._changed: dict[tuple[LaneChange, tuple[str, ...]], _Paid] = {}
        for fix in fixes:
            for change in fix.lanes:
                for reading in readings_of(fix):
                    scale = scale_of(row, change.model, reading["tokenizer"]) if change.model else 1.0
                    run = LaneRun(change, reading["lifetime"], scale)
                    self._changed[change, tuple(reading.values())] = _Paid(run)

    def add(self, priced: PricedCall, recorded_usd: float) -> AdjustedCall:
        """Replay the next call; return what had to be taken over from its bill under the first reading."""
        self.recorded_usd += recorded_usd
        call = priced.call
        price = prices.price_of(call.provider, call.model, call.at)
        adjusted = {lifetime: paid.run.adjustment(priced) for lifetime, paid in self.was.items()}
        for lifetime, paid in self.was.items():
            paid.usd += _usd(price, paid.run.add(priced, adjusted[lifetime]))
        for (change, reading), paid in self._changed.items():
            today = prices.price_of(change.model.provider, change.model.name) if change.model else price
            paid.usd += _usd(today, paid.run.add(priced, adjusted[reading[0]]))
        return adjusted[LIFETIMES[0]]

    def saved_usd(self, change: LaneChange, reading: Reading) -> float:
        """Return what the change saves; of another model's prices all that the recorded bill was more."""
        before = self.recorded_usd if change.model else self.was[reading["lifetime"]].usd
        return before - self._changed[change, tuple(reading.values())].usd


def scale_of(row: Model, other: Model, reading: str) -> float:
    """Return tokens of `other` for one token of `row`.

    >>> scale_of(model_named("claude-opus-4-5"), model_named("claude-opus-4-7"), "as listed") > 1.29
    True
    """
    is_same = (row.tokenizer, row.bytes_per_token) == (other.tokenizer, other.bytes_per_token)
    return 1.0 if is_same else row.bytes_per_token / other.bytes_per_token * _SCALES[reading]


def _not_for(fix: Fix, row: Model) -> str:
    """Say why a fix does not apply to a model; empty if it does."""
    change = fix.lanes[0]
    if change.is_long is not None and not has_lifetime_choice(row):
        return f"no write to {row.name}'s cache asks for a lifetime"
    return f"{row.name} takes no routing key" if change.is_keyed and not row.takes_routing_key else ""


def _usd(price: Callable[[Usage], float | None], usage: Usage) -> float:
    """Price a bill; every call that is replayed has a price, and so has the model that is asked instead."""
    return price(usage if usage.output is not None else usage.with_output(0)) or 0.0
