"""All lanes of a recording with something changed that bills and times can answer: what it would have cost, reading by
reading.

Takes calls as they are judged, gives dollars by group, fix and reading. Keeps the lanes used last; one that comes back
after it had to go starts again with what its bill says was there. O(lanes) memory, however long the recording.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

from contextkit import prices
from contextkit.analysis.counterfactual.answer import Sums, Unexplained
from contextkit.analysis.counterfactual.fix import Fix, LaneChange, Reading, readings_of
from contextkit.analysis.counterfactual.timed_lane import AS_IT_WAS, AdjustedCall, Call, LaneRun, Paid
from contextkit.cache.usage import Usage
from contextkit.facts.rules import MIXED_LIFETIMES, rule_holds
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
        self._counts["calls"] += 1
        self._counts["unexplained"] += adjusted.is_unexplained
        self._counts["seeded"] += adjusted.is_read_seeded and not adjusted.is_unexplained
        for fix, change, _ in self._fixes:
            reason = _not_for(change, call.row)
            if reason:
                self.why_not[fix.name][reason] += 1
            self.n_calls[fix.name, group] += not reason
        if len(self._lanes) > MOST_LANES:
            self._fold(self._lanes.popitem(last=False)[1])

    def finish(self) -> None:
        """The recording is over."""
        while self._lanes:
            self._fold(self._lanes.popitem(last=False)[1])

    @property
    def unexplained(self) -> Unexplained:
        """What the replay does not explain, and repeats."""
        counts = self._counts
        return Unexplained(counts["calls"], counts["unexplained"], counts["seeded"])

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


class _Branch:
    """One lane with one change under one reading.

    Until it differs from another run it has none of its own: pings that renew nothing never change what calls find,
    others do not before the first is sent; who writes for the long lifetime anyway asks for nothing else; and misses
    that vanish are those that happen again until there is one.
    """

    __slots__ = ("base", "change", "gaps", "paid_usd", "reading", "run", "usd")

    def __init__(self, change: LaneChange, reading: Reading, base: LaneRun | _Branch | None, scale: float) -> None:
        self.change, self.reading = change, reading
        self.run: LaneRun | None = None
        """Its own; None as long as it is that of `base`."""
        if base is None:
            self.run = base = LaneRun(change, reading, scale)
        self.base = base
        self.paid_usd = self.usd = 0.0
        """What it came to, and the last call of it."""
        self.gaps = Counter[str]()
        """With pings: how many were sent, how many gaps were longer than the lifetime, in how many of those pings pay."""

    @property
    def shared_run(self) -> LaneRun:
        """The run that says what its calls find."""
        return self.run or (self.base.shared_run if isinstance(self.base, _Branch) else self.base)

    def fork(self) -> LaneRun:
        """Its own run, from now on."""
        if self.run is None:
            self.run = self.shared_run.fork(self.change, self.reading)
        return self.run

    def ping(self, until: float) -> list[float]:
        """What the pings of the gap before `until` cost."""
        pings = self.shared_run.pings_before(until, self.reading["pinging"], self.gaps)
        if pings is None:
            return []
        exchange = pings.call.exchange
        price = prices.price_of(exchange.provider, exchange.model, exchange.at)
        if self.reading["pings"] == "renew":
            return [price(paid.usage) or 0.0 for paid in self.fork().ping(pings)]
        return [price(pings.usage) or 0.0] * len(pings.times)


class _Lane:
    """One lane: as it was, and with every change under every reading."""

    __slots__ = (
        "_branches",
        "_change_of",
        "_long",
        "_pinged",
        "_row",
        "_was",
        "_without_misses",
        "extra_usd",
        "group",
        "recorded_usd",
        "was_usd",
    )

    def __init__(self, group: str, fixes: Sequence[tuple[Fix, LaneChange, list[Reading]]]) -> None:
        self.group = group
        self.recorded_usd = 0.0
        self.extra_usd = 0.0
        """What long writes cost more than the same writes as they were, under the first reading."""
        self._was = {lifetime: LaneRun(AS_IT_WAS, {"lifetime": lifetime}) for lifetime in LIFETIMES}
        self.was_usd = dict.fromkeys(LIFETIMES, 0.0)
        self._branches: dict[_Key, _Branch] = {}
        self._row: Model | None = None
        """Of its first call."""
        self._pinged: list[_Branch] = []
        self._long: list[_Branch] = []
        self._without_misses: list[_Branch] = []
        self._change_of = [(change, reading) for _, change, readings in fixes for reading in readings]

    def see(self, call: Call, recorded_usd: float) -> AdjustedCall:
        """The next call; gives what had to be told under the first reading of lifetimes."""
        if not self._branches:
            self._open(call.row)
        self.recorded_usd += recorded_usd
        exchange = call.exchange
        pings = {id(branch): usd for branch in self._pinged if (usd := branch.ping(exchange.at))}
        price = prices.price_of(exchange.provider, exchange.model, exchange.at)
        adjusted = {lifetime: run.find_out(call) for lifetime, run in self._was.items()}
        if call.row is not self._row or call.short or not call.long:
            for branch in self._long:
                branch.fork()
        for branch in self._without_misses:
            if adjusted[branch.reading["lifetime"]].is_unexplained:
                branch.fork()
        was = {lifetime: run.see(call, adjusted[lifetime]) for lifetime, run in self._was.items()}
        was_usd = {lifetime: _usd(price, paid.usage) for lifetime, paid in was.items()}
        for lifetime in LIFETIMES:
            self.was_usd[lifetime] += was_usd[lifetime]
        for branch in self._branches.values():
            lifetime = branch.reading["lifetime"]
            if branch.run is not None:
                paid = branch.run.see(call, adjusted[lifetime])
                branch.usd = _usd(_price_under(branch.change, price), paid.usage)
            else:
                paid = was[lifetime]
                branch.usd = branch.base.usd if isinstance(branch.base, _Branch) else was_usd[lifetime]
            if branch.change.is_long and branch.reading == _FIRST:
                self.extra_usd += _extra(price, paid)
            branch.paid_usd += sum([*pings.get(id(branch), ()), branch.usd])
        return adjusted[LIFETIMES[0]]

    def finish(self) -> None:
        """No more calls; what is still billed after the last one, as nobody knew that it was the last."""
        for branch in self._pinged:
            if branch.reading["pinging"] == "until it no longer pays" and not branch.shared_run.is_over:
                branch.paid_usd += sum(branch.ping(float("inf")))

    def saved_usd(self, change: LaneChange, reading: Reading) -> float:
        """What the change saves in this lane; of another model's prices all that the recorded bill was more."""
        before = self.recorded_usd if change.model else self.was_usd[reading["lifetime"]]
        return before - self._branches[_key(change, reading)].paid_usd

    def gaps(self, change: LaneChange, reading: Reading) -> Counter[str]:
        """What pings did under a reading; nothing where there are none."""
        return self._branches[_key(change, reading)].gaps if change.has_pings else Counter()

    def _open(self, row: Model) -> None:
        self._row = row
        # a mark that is only looked up may ask for any lifetime then
        is_long_free = row.cache == "breakpoints" and rule_holds(MIXED_LIFETIMES, row.provider)
        for change, reading in self._change_of:
            key = _key(change, reading)
            if key in self._branches:
                continue
            scale = scale_of(row, change.model, reading.get("tokenizer", "as listed")) if change.model else 1.0
            again = self._branches.get(_happening_again(key))
            base = self._was[reading["lifetime"]] if change.has_pings or (is_long_free and change.is_long) else None
            branch = self._branches[key] = _Branch(change, reading, again or base, scale)
            if again is not None:
                self._without_misses.append(branch)
            elif base is not None:
                (self._pinged if change.has_pings else self._long).append(branch)


def scale_of(row: Model, other: Model, reading: str) -> float:
    """Tokens of `other` for one token of `row`.

    >>> scale_of(model_named("claude-opus-4-5"), model_named("claude-opus-4-7"), "as listed") > 1.29
    True
    """
    is_same = (row.tokenizer, row.bytes_per_token) == (other.tokenizer, other.bytes_per_token)
    return 1.0 if is_same else row.bytes_per_token / other.bytes_per_token * _SCALES[reading]


def _key(change: LaneChange, reading: Reading) -> _Key:
    return replace(change, is_per_lane=False), tuple(reading.items())


def _happening_again(key: _Key) -> _Key:
    """The key of the same change where misses that nothing explains happen again; that of no branch where the reading
    does not say that they vanish.
    """
    change, reading = key
    vanishing = ("unexplained", "vanish")
    return (
        (change, tuple(_AGAIN if one == vanishing else one for one in reading))
        if vanishing in reading
        else (change, ())
    )


_AGAIN = ("unexplained", "happen again")


def _not_for(change: LaneChange, row: Model) -> str:
    """Why a change says nothing to a model, empty where it does."""
    has_choice = row.cache in ("breakpoints", "billed") and len(row.ttls_seconds) > 1
    return f"no write to {row.name}'s cache asks for a lifetime" if change.is_long and not has_choice else ""


Price = Callable[[Usage], float | None]


def _usd(price: Price, usage: Usage) -> float:
    """Dollars; every call that is seen has a price, and so has the model that is asked instead."""
    return price(usage if usage.output is not None else usage.with_output(0)) or 0.0


def _price_under(change: LaneChange, price: Price) -> Price:
    """What a bill costs that a change makes: of another model at the prices of today."""
    return prices.price_of(change.model.provider, change.model.name) if change.model else price


def _extra(price: Price, paid: Paid) -> float:
    """What its long writes cost more than as short ones, where they were short."""
    long, was = paid.usage.write_1h or 0, paid.call.usage.write_1h or 0
    moved = max(0, long - was)
    short = paid.usage.with_written((paid.usage.write_5m or 0) + moved, long - moved)
    return _usd(price, paid.usage) - _usd(price, short)
