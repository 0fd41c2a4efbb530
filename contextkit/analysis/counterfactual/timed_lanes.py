"""All lanes of a recording with something changed that bills and times can answer: what it would have cost, reading by
reading.

Takes calls as they are judged, gives dollars by group, fix and reading. Keeps the lanes used last; one that comes back
after it had to go starts again with what its bill says was there. O(lanes) memory, however long the recording.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from contextkit import prices
from contextkit.analysis.counterfactual.answer import Sums, TakenOver
from contextkit.analysis.counterfactual.fix import Fix, LaneChange, Reading, readings_of
from contextkit.analysis.counterfactual.timed_lane import AS_IT_WAS, AdjustedCall, Call, LaneRun, Paid
from contextkit.cache.usage import Usage
from contextkit.ledger.misses import AnalyzedCall
from contextkit.ledger.summary import dollars
from contextkit.models import Model, find_model, model_named

MOST_LANES = 64
"""Kept at a time."""
LIFETIMES = ("from start", "from end")
_FIRST: Reading = {"lifetime": "from start", "unexplained": "happen again"}
_SCALES = {"as listed": 1.0, "20 % fewer": 0.8, "20 % more": 1.2}
_Key = tuple[LaneChange, tuple[tuple[str, str], ...]]


def call_of(judged: AnalyzedCall) -> Call | str:
    """What a lane needs to know of a call; why not, where it cannot."""
    row = find_model(judged.exchange.model) or model_named(judged.exchange.model, judged.exchange.provider)
    if judged.usage is None:
        return "the bill is unknown"
    if judged.list_cost_usd is None:
        return f"no price for {judged.exchange.model}"
    if not judged.usage.prompt:
        return "nothing was sent"
    miss = judged.miss
    expected = miss.expected_tokens if miss else judged.usage.read or 0
    return Call(judged.exchange, row, judged.usage, expected, miss.cause if miss else None, row.cache == "breakpoints")


class Lanes:
    """Shown calls one by one; gives sums at the end."""

    def __init__(self, fixes: Sequence[Fix]) -> None:
        self._fixes = [(fix, fix.lane, readings_of(fix)) for fix in fixes if fix.lane is not None]
        self._lanes: OrderedDict[tuple[str, str], _Lane] = OrderedDict()
        self._bill = {"recorded": 0.0, "replayed": 0.0}
        self._counts: Counter[str] = Counter()
        self._chosen: Counter[bool] = Counter()
        self._gaps: Counter[str] = Counter()
        self._extra: defaultdict[str, float] = defaultdict(float)
        self.sums = Sums()
        """What was added up so far; complete after `finish`."""
        self.why_not: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Fix → why calls are left out of it, and how many."""
        self.n_calls: Counter[tuple[str, str]] = Counter()
        """(fix, group) → calls it was answered for."""

    def see(self, call: Call, recorded_usd: float, group: str) -> None:
        """One more call."""
        key = call.exchange.session, call.exchange.lane
        lane = self._lanes.pop(key, None) or _Lane(group, self._fixes)
        self._lanes[key] = lane
        adjusted = lane.see(call, recorded_usd)
        self._counts.update(
            calls=1, unexplained=adjusted.is_unexplained, seeded=adjusted.is_read_seeded and not adjusted.is_unexplained
        )
        for fix, change, _ in self._fixes:
            reason = _not_for(change, call.row)
            self.why_not[fix.name].update([reason] if reason else [])
            self.n_calls[fix.name, group] += not reason
        if len(self._lanes) > MOST_LANES:
            self._fold(self._lanes.popitem(last=False)[1])

    def finish(self) -> None:
        """The recording is over."""
        while self._lanes:
            self._fold(self._lanes.popitem(last=False)[1])

    @property
    def taken_over(self) -> TakenOver:
        """What the replay does not explain, and repeats."""
        counts = self._counts
        return TakenOver(counts["calls"], counts["unexplained"], counts["seeded"])

    @property
    def difference_usd(self) -> float:
        """The replay of what was less the bill: nothing but rounding, as it takes over what it does not explain."""
        return self._bill["replayed"] - self._bill["recorded"]

    def note(self, fix: Fix) -> str:
        """What else is to be said of a fix."""
        change, gaps = fix.lane or AS_IT_WAS, self._gaps
        if change.is_per_lane:
            return f"worth it in {self._chosen[True]} of {self._chosen.total()} lanes"
        if change.has_pings:
            return f"{gaps['pings']:,} pings; {gaps['paying']:,} of {gaps['long']:,} gaps longer than the lifetime are worth them"
        extra = self._extra[fix.name]
        saved = next(iter(self.sums.of(fix)))
        return (
            f"long writes cost {dollars(extra)} more, what is found alive saves {dollars(saved + extra)}"
            if change.is_long
            else ""
        )

    def _fold(self, lane: _Lane) -> None:
        lane.finish()
        self._bill["recorded"] += lane.recorded_usd
        self._bill["replayed"] += lane.was_usd[LIFETIMES[0]]
        for fix, change, readings in self._fixes:
            saved = [lane.saved_usd(change, reading) for reading in readings]
            self._extra[fix.name] += lane.extra_usd
            self._gaps.update(lane.gaps(change, readings[0]))
            if change.is_per_lane:
                self._chosen[saved[0] > 0] += 1
                saved = (
                    saved if saved[0] > 0 else [0.0] * len(saved)
                )  # chosen by the figure, before anybody knows which reading is true
            self.sums.add(lane.group, fix.name, saved)


class _Lane:
    """One lane: as it was, and with every change under every reading."""

    __slots__ = ("_change_of", "_runs", "_was", "extra_usd", "group", "paid_usd", "recorded_usd", "was_usd")

    def __init__(self, group: str, fixes: Sequence[tuple[Fix, LaneChange, list[Reading]]]) -> None:
        self.group = group
        self.recorded_usd = 0.0
        self.extra_usd = 0.0
        """What long writes cost more than the same writes as they were, under the first reading."""
        self._was = {lifetime: LaneRun(AS_IT_WAS, {"lifetime": lifetime}) for lifetime in LIFETIMES}
        self.was_usd = dict.fromkeys(LIFETIMES, 0.0)
        self._runs: dict[_Key, tuple[LaneChange, Reading, LaneRun]] = {}
        self.paid_usd: defaultdict[_Key, float] = defaultdict(float)
        self._change_of = [(change, reading) for _, change, readings in fixes for reading in readings]

    def see(self, call: Call, recorded_usd: float) -> AdjustedCall:
        """The next call; gives what had to be told under the first reading of lifetimes."""
        if not self._runs:
            self._open(call.row)
        self.recorded_usd += recorded_usd
        adjusted: dict[str, AdjustedCall] = {}
        for lifetime, run in self._was.items():
            bills, adjusted[lifetime] = run.see(call)
            self.was_usd[lifetime] += _usd(bills, AS_IT_WAS)
        for key, (change, reading, run) in self._runs.items():
            bills = run.see(call, adjusted[reading["lifetime"]])[0]
            self.paid_usd[key] += _usd(bills, change)
            if change.is_long and reading == _FIRST:
                self.extra_usd += _extra(bills[-1])
        return adjusted[LIFETIMES[0]]

    def finish(self) -> None:
        """No more calls."""
        for key, (change, _, run) in self._runs.items():
            self.paid_usd[key] += _usd(run.finish(), change)

    def saved_usd(self, change: LaneChange, reading: Reading) -> float:
        """What the change saves in this lane; of another model's prices all that the recorded bill was more."""
        before = self.recorded_usd if change.model else self.was_usd[reading["lifetime"]]
        return before - self.paid_usd[_key(change, reading)]

    def gaps(self, change: LaneChange, reading: Reading) -> Counter[str]:
        """What pings did under a reading; nothing where there are none."""
        return self._runs[_key(change, reading)][2].gaps if change.has_pings else Counter()

    def _open(self, row: Model) -> None:
        for change, reading in self._change_of:
            scale = scale_of(row, change.model, reading.get("tokenizer", "as listed")) if change.model else 1.0
            self._runs.setdefault(_key(change, reading), (change, reading, LaneRun(change, reading, scale)))


def scale_of(row: Model, other: Model, reading: str) -> float:
    """Tokens of `other` for one token of `row`.

    >>> scale_of(model_named("claude-opus-4-5"), model_named("claude-opus-4-7"), "as listed") > 1.29
    True
    """
    is_same = (row.tokenizer, row.bytes_per_token) == (other.tokenizer, other.bytes_per_token)
    return 1.0 if is_same else row.bytes_per_token / other.bytes_per_token * _SCALES[reading]


def _key(change: LaneChange, reading: Reading) -> _Key:
    return replace(change, is_per_lane=False), tuple(reading.items())


def _not_for(change: LaneChange, row: Model) -> str:
    """Why a change says nothing to a model, empty where it does."""
    has_choice = row.cache in ("breakpoints", "billed") and len(row.ttls_seconds) > 1
    return f"no write to {row.name}'s cache asks for a lifetime" if change.is_long and not has_choice else ""


def _usd(bills: Sequence[Paid], change: LaneChange) -> float:
    return sum(price(change, paid, paid.usage) for paid in bills)


def price(change: LaneChange, paid: Paid, usage: Usage) -> float:
    """Dollars; every call that is seen has a price, and so has the model that is asked instead."""
    exchange, model = paid.call.exchange, change.model
    if model:
        return prices.cost_usd(model.provider, model.name, _whole(usage)) or 0.0
    return prices.cost_usd(exchange.provider, exchange.model, _whole(usage), exchange.at) or 0.0


def _extra(paid: Paid) -> float:
    """What its long writes cost more than as short ones, where they were short."""
    long, was = paid.usage.write_1h or 0, paid.call.usage.write_1h or 0
    moved = max(0, long - was)
    short = paid.usage.with_written((paid.usage.write_5m or 0) + moved, long - moved)
    return price(AS_IT_WAS, paid, paid.usage) - price(AS_IT_WAS, paid, short)


def _whole(usage: Usage) -> Usage:
    return usage if usage.output is not None else replace(usage, output=0)
