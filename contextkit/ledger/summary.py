"""A ledger judged: how much was read from the cache, what it cost, what it would have cost, what was lost and to what.

Takes a `Ledger`, or records as they are read, gives a `Summary`: plain numbers, no layout. What nobody reported is
counted as unknown, never as zero.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import log
from typing import Generic, TypeVar

from contextkit.cache.usage import Quality, Usage, worst_qualities
from contextkit.ledger.calls import Record
from contextkit.ledger.figures import Count, Dollars, Share, dollars
from contextkit.ledger.misses import AnalyzedCall, Miss, analyzed_calls

K = TypeVar("K")
MOST_RATES = 1 << 20
"""Hit rates kept; of a longer recording each is the mean of as many neighbours together as it takes, a power of two."""
MOST_MISSES = 1 << 18
"""Misses kept; of more, those that cost most."""


@dataclass(frozen=True, slots=True)
class RecordedCost:
    """The calls whose cost a provider, a gateway or the recording program stated, beside what list prices give."""

    calls: int = 0
    """How many."""
    usd: float | None = None
    """What they are said to have cost; None where there is no such call."""
    calls_with_list_price: int = 0
    """How many of them have a list price too; only these can be compared."""
    comparable_usd: float | None = None
    """What those are said to have cost."""
    list_usd: float | None = None
    """What those cost at list prices."""


@dataclass(frozen=True, slots=True)
class PlaceholderOutput:
    """The calls whose output count is a placeholder of a stream that was recorded before its end: a lower bound."""

    calls: int = 0
    """How many."""
    tokens: int = 0
    """Their output as counted; these tokens are in the sums."""
    calls_estimated: int = 0
    """How many of them have an estimate by the visible text of the reply."""
    tokens_estimated: int = 0
    """Output of those by their visible text; in no sum."""
    hidden_usd: float | None = None
    """What the tokens beyond the counted ones cost at list prices, of calls whose cost is not recorded; in no sum. None
    where none of them has a list price."""


@dataclass(frozen=True, slots=True)
class FirstTokens:
    """How long calls waited for their first token, those that read at least half of their prompt and the others; medians
    are known to about 2 %.
    """

    calls_reading: int
    """Calls that read at least half, of which the time is recorded."""
    reading_seconds: float | None
    """Their median; None where there are none."""
    calls_other: int
    """The others of which the time is recorded."""
    other_seconds: float | None
    """Their median."""

    @property
    def difference_seconds(self) -> float | None:
        """Return how much longer the others waited."""
        if self.reading_seconds is None or self.other_seconds is None:
            return None
        return self.other_seconds - self.reading_seconds


@dataclass(frozen=True, slots=True)
class Row:
    """The calls of one model, or of one lane, or all of them."""

    name: str
    """Model, lane (`session/lane` where there are several sessions), or `all`."""
    calls: int
    """How many."""
    calls_with_usage: int
    """How many of them say what their whole prompt was billed; only these are added up."""
    calls_with_price: int
    """How many of them have a recorded cost or a list price; only these are in `cost_usd`."""
    usage: Usage
    """Their tokens; a counter that one of them lacks is None."""
    cost_usd: float | None
    """What they cost: the recorded cost of each call, its list price where none is recorded; None where no call has
    either."""
    cost_uncached_usd: float | None
    """What the calls in `list_cost_usd` would have cost at list prices without any cache."""
    n_misses: int
    """Calls that lost something they could have read; a first write loses nothing."""
    list_cost_usd: float | None = None
    """What the calls with a list price cost at it, whatever is recorded; None where no call has one."""
    calls_without_price: int = 0
    """How many of them have tokens and neither a recorded cost nor a list price."""
    calls_with_partial_cost: int = 0
    """How many of them are in `cost_usd` at a list price that is a lower bound."""
    recorded: RecordedCost = RecordedCost()
    """Those with a recorded cost."""
    placeholders: PlaceholderOutput = PlaceholderOutput()
    """Those whose output count is a placeholder."""
    calls_refused: int = 0
    """How many of them the provider refused with an error status: they cost nothing and read nothing."""
    calls_silent: int = 0
    """How many of them had something to read at a host that reports no reads: what they read is unknown."""
    silent_tokens: int = 0
    """Size of their prompts."""

    @property
    def has_no_usage(self) -> bool:
        """Return whether no call reports its usage, though some may have been billed."""
        return self.calls > self.calls_refused and not self.calls_with_usage

    @property
    def is_silent(self) -> bool:
        """Return whether nothing is known of what its calls read, as their host reports no reads."""
        return self.calls_silent > 0 and not self.usage.read

    @property
    def has_unknown_misses(self) -> bool:
        """Return whether it is unknown how many of its calls missed."""
        return self.has_no_usage or (self.is_silent and not self.n_misses)

    @property
    def is_partial(self) -> bool:
        """Return whether sums over its calls are lower bounds: some that may have been billed do not report their usage."""
        return self.calls_with_usage < self.calls - self.calls_refused

    @property
    def hit_rate(self) -> float | None:
        """Tokens read over all input tokens, of the calls whose reads are known; None where nothing is known."""
        return self.usage_with_reads.hit_rate

    @property
    def input_to_output(self) -> float | None:
        """Input tokens for each output token; None where one of both is unknown or nothing was written."""
        prompt, output = self.usage_or_unknown.prompt, self.usage_or_unknown.output
        return prompt / output if prompt is not None and output else None

    @property
    def usage_with_reads(self) -> Usage:
        """Return `usage` without the calls of a host that reports no reads; all unknown if there are no others."""
        if self.is_silent:
            return Usage()
        fresh = self.usage.fresh
        return self.usage if fresh is None else replace(self.usage, fresh=fresh - self.silent_tokens)

    @property
    def is_cost_lower_bound(self) -> bool:
        """Return whether its calls cost more than `cost_usd`: some have no usage and no recorded cost, tokens and no price, or a
        list price that is a lower bound.
        """
        return self.calls_with_price < self.calls - self.calls_refused or bool(self.calls_with_partial_cost)

    @property
    def misses(self) -> Count:
        """Return `n_misses`: unknown if no call reports its usage, or its reads, a lower bound if only some do.

        >>> str(Row("all", 5, 0, 0, Usage(), None, None, 0).misses)
        'unknown'
        """
        return self.lost(self.n_misses)

    @property
    def spent(self) -> Dollars:
        """Return `cost_usd`, a lower bound if it leaves something out."""
        return Dollars(self.cost_usd, self.is_cost_lower_bound)

    def count(self, number: int | None) -> Count:
        """Return a sum over its calls: unknown if no call reports its usage, a lower bound if only some do."""
        return Count(None if self.has_no_usage else number, self.is_partial)

    def lost(self, number: int | None) -> Count:
        """Return a sum over its misses: unknown if no call reports its usage, or its reads, a lower bound if only some do."""
        return Count(None if self.has_unknown_misses else number, self.is_lost_partial)

    @property
    def is_lost_partial(self) -> bool:
        """Return whether sums over its misses are lower bounds."""
        return self.is_partial or self.calls_silent > 0

    @property
    def usage_or_unknown(self) -> Usage:
        """Return `usage`, with every counter unknown if no call reports any."""
        return self.usage if self.calls_with_usage else Usage()

    @property
    def saved_usd(self) -> float | None:
        """What the cache saved at list prices; negative where its writes cost more than its reads saved.

        Recorded costs do not enter: nobody records what a call would have cost without the cache.
        """
        if self.list_cost_usd is None or self.cost_uncached_usd is None or self.is_silent:
            return None
        return self.cost_uncached_usd - self.list_cost_usd


@dataclass(frozen=True, slots=True)
class Summary:
    """What a ledger says."""

    total: Row
    """Everything."""
    models: tuple[Row, ...]
    """One row a model, in order of appearance."""
    lanes: tuple[Row, ...]
    """One row a lane, in order of appearance."""
    misses: tuple[Miss, ...]
    """Every miss, first writes included, in ledger order; of more than `MOST_MISSES` the dearest."""
    hit_rates: tuple[float | None, ...]
    """Of each call, in ledger order; None where unknown. Of more than `MOST_RATES` calls, of neighbours together."""
    models_without_price: tuple[str, ...]
    """Models whose calls have tokens and no price, and are in no dollar figure."""
    groups: tuple[Row, ...] = ()
    """One row a day, session, … where a grouping was asked for, in the order of their names."""
    first_tokens: FirstTokens | None = None
    """How long calls waited for their first token; None where no time is recorded."""

    @property
    def calls(self) -> int:
        """How many calls were recorded."""
        return self.total.calls

    @property
    def calls_with_usage(self) -> int:
        """How many of them say what their whole prompt was billed."""
        return self.total.calls_with_usage

    @property
    def usage(self) -> Usage:
        """Tokens of the calls with usage."""
        return self.total.usage

    @property
    def hit_rate(self) -> float | None:
        """Tokens read over all input tokens."""
        return self.total.hit_rate

    @property
    def cost_usd(self) -> float | None:
        """What the calls with a price cost, as recorded where that is known, else at list prices."""
        return self.total.cost_usd

    @property
    def cost_uncached_usd(self) -> float | None:
        """What the calls with a list price would have cost without any cache."""
        return self.total.cost_uncached_usd

    @property
    def saved_usd(self) -> float | None:
        """What the cache saved at list prices."""
        return self.total.saved_usd

    @property
    def losses(self) -> tuple[Miss, ...]:
        """The misses that lost something."""
        return tuple(miss for miss in self.misses if miss.is_loss)

    def __str__(self) -> str:
        """One line: `94.1 % of input read from cache · $0.12 spent · $0.83 saved · 0 misses`, and what is unknown."""
        return " · ".join(
            part for part in (_hit_text(self), *_money_texts(self), _miss_text(self), *_unknown_texts(self)) if part
        )


def summarise(records: Iterable[Record], by: str = "") -> Summary:
    """Judge a ledger, or any records as they are read: bills added up, calls priced one by one as recorded, else at the
    prices of their day, misses named.

    `by` names a key of `GROUPS`, whose rows `Summary.groups` then holds.
    """
    tally = Tally(by)
    for call in analyzed_calls(records):
        tally.add(call)
    return tally.summary()


GROUPS: dict[str, Callable[[AnalyzedCall], str]] = {
    "day": lambda analyzed: datetime.fromtimestamp(analyzed.call.at, UTC).strftime("%Y-%m-%d"),
    "session": lambda analyzed: analyzed.call.session,
    "model": lambda analyzed: analyzed.call.model,
    "agent": lambda call: call.agent,
    "project": lambda call: call.project or "unknown",
}
"""What calls can be grouped by; days are those of UTC."""


class Tally:
    """Adds calls up as they come.

    Keeps a row a lane and group, and of the rest a bounded number: memory does not grow with calls.
    """

    __slots__ = ("_by", "_groups", "_lanes", "_misses", "_models", "_rates", "_total", "_waits", "_without_price")

    def __init__(self, by: str = "") -> None:
        self._by = GROUPS[by] if by else None
        self._total = _Sum()
        self._models: defaultdict[str, _Sum] = defaultdict(_Sum)
        self._lanes: defaultdict[tuple[str, str], _Sum] = defaultdict(_Sum)
        self._groups: defaultdict[str, _Sum] = defaultdict(_Sum)
        self._misses: list[Miss] = []
        self._rates = _Rates()
        self._waits = {True: Counter[int](), False: Counter[int]()}
        self._without_price: dict[str, None] = {}

    def add(self, analyzed: AnalyzedCall) -> None:
        """One more call."""
        call = analyzed.call
        sums = [self._total, self._models[call.model], self._lanes[call.session, call.lane]]
        if self._by:
            sums.append(self._groups[self._by(analyzed)])
        for one in sums:
            one.add(analyzed)
        self._rates.add(analyzed.hit_rate)
        rate, seconds = analyzed.hit_rate, (call.first_byte_at or call.at) - call.at
        if rate is not None and seconds > 0 and call.first_byte_at != call.ended_at and not analyzed.is_sum:
            self._waits[rate >= 0.5][round(log(min(max(seconds, 1e-3), 1e5), _WAIT_STEP))] += 1
        if analyzed.miss:
            self._misses.append(analyzed.miss)
            if len(self._misses) > 2 * MOST_MISSES:
                self._misses = dearest(self._misses, MOST_MISSES)
        is_unpriced = analyzed.cost_usd is None and not analyzed.has_model_price
        if is_unpriced and analyzed.usage and (analyzed.usage.prompt or analyzed.usage.output):
            # of a call without a bill the price is not what is missing
            self._without_price[unpriced_name(call.model, analyzed.usage.service_tier)] = None

    def copied(self) -> Tally:
        """Another one with the same sums, that goes on by itself."""
        return deepcopy(self, {id(miss): miss for miss in self._misses})  # which never change, and may be many

    def summary(self) -> Summary:
        """What was added up so far."""
        has_sessions = len({session for session, _ in self._lanes}) > 1
        return Summary(
            total=self._total.row("all"),
            models=tuple(one.row(name) for name, one in self._models.items()),
            lanes=tuple(
                one.row(f"{session}/{lane}" if has_sessions else lane) for (session, lane), one in self._lanes.items()
            ),
            misses=tuple(dearest(self._misses, MOST_MISSES)),
            hit_rates=tuple(self._rates),
            models_without_price=tuple(self._without_price),
            groups=tuple(one.row(name) for name, one in sorted(self._groups.items())),
            first_tokens=FirstTokens(*self._waits_of(True), *self._waits_of(False))
            if any(self._waits.values())
            else None,
        )

    def _waits_of(self, is_reading: bool) -> tuple[int, float | None]:
        """The number of waits, and about their median."""
        waits = self._waits[is_reading]
        left = waits.total() / 2
        for step, n in sorted(waits.items()):
            left -= n
            if left <= 0:
                return waits.total(), _WAIT_STEP**step
        return 0, None


_WAIT_STEP = 1.04
"""Waits that differ by less may be counted as one: 470 numbers hold the waits of any number of calls."""


def dearest(misses: Sequence[Miss], most: int) -> list[Miss]:
    """At most so many misses, those that cost or lost most, in the order they stood in."""
    if len(misses) <= most:
        return list(misses)
    worst = sorted(range(len(misses)), key=lambda i: (-(misses[i].cost_usd or 0.0), -misses[i].lost_tokens))[:most]
    return [misses[i] for i in sorted(worst)]


class _Rates:
    """Hit rates in their order, eight bytes each; where they are too many, neighbours become one."""

    __slots__ = ("_n", "_n_rates", "_together", "_total", "_values")

    def __init__(self) -> None:
        self._values, self._together = array("d"), 1
        self._total, self._n_rates, self._n = 0.0, 0, 0

    def add(self, rate: float | None) -> None:
        self._n += 1
        if rate is not None:
            self._total, self._n_rates = self._total + rate, self._n_rates + 1
        if self._n == self._together:
            self._values.append(self._mean())
            self._total, self._n_rates, self._n = 0.0, 0, 0
            if len(self._values) == 2 * MOST_RATES:
                pairs = zip(self._values[::2], self._values[1::2], strict=True)
                self._values, self._together = array("d", map(_between, pairs)), 2 * self._together

    def __iter__(self) -> Iterator[float | None]:
        """Each kept rate, None where none of its calls has one; the last may stand for fewer calls."""
        rest = [self._mean()] if self._n else []
        return (None if rate != rate else rate for rate in (*self._values, *rest))

    def _mean(self) -> float:
        return self._total / self._n_rates if self._n_rates else float("nan")


def _between(pair: tuple[float, float]) -> float:
    """The mean of two rates; of one that is unknown the other."""
    rates = [rate for rate in pair if rate == rate]
    return sum(rates) / len(rates) if rates else float("nan")


@dataclass(slots=True)
class _Sum:
    """A row that grows; its fields are those of `Row`, and those of `Usage`."""

    calls: int = 0
    calls_with_usage: int = 0
    calls_with_price: int = 0
    calls_without_price: int = 0
    calls_with_partial_cost: int = 0
    calls_refused: int = 0
    silent: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)
    """Host and model that reported no read so far → its calls that had something to read, and the size of their prompts."""
    n_misses: int = 0
    cost_usd: float | None = None
    cost_uncached_usd: float | None = None
    list_cost_usd: float | None = None
    recorded: RecordedCost = RecordedCost()
    placeholders: int = 0
    placeholder_tokens: int = 0
    placeholders_estimated: int = 0
    tokens_estimated: int = 0
    hidden_usd: float | None = None
    fresh: int | None = 0
    read: int | None = 0
    output: int | None = 0
    writes: dict[int, int | None] | None = field(default_factory=dict)
    qualities: tuple[tuple[str, Quality], ...] = ()
    estimated: bool = False

    def add(self, analyzed: AnalyzedCall) -> None:
        call, usage, cost, listed = analyzed.call, analyzed.usage, analyzed.cost_usd, analyzed.list_cost_usd
        self.calls += 1
        self.calls_refused += call.error is not None and call.is_refused
        self.n_misses += analyzed.miss is not None and analyzed.miss.is_loss
        if usage is not None:
            self.calls_with_usage += 1
            self._count(usage)
            if analyzed.is_silent or self.silent:
                self._count_silent(analyzed, usage)
            if usage.qualities and usage.quality("output") == "partial":
                self._count_placeholder(analyzed, usage)
        if cost is not None:
            self.calls_with_price += 1
            self.cost_usd = (self.cost_usd or 0.0) + cost
            self.calls_with_partial_cost += analyzed.is_list_cost_partial and call.billed_usd is None
        elif usage is not None:
            self.calls_without_price += 1
        if listed is not None and analyzed.cost_uncached_usd is not None:
            self.list_cost_usd = (self.list_cost_usd or 0.0) + listed
            self.cost_uncached_usd = (self.cost_uncached_usd or 0.0) + analyzed.cost_uncached_usd
        if call.billed_usd is not None:
            self.recorded = _with_recorded(self.recorded, call.billed_usd, listed)

    def _count_silent(self, analyzed: AnalyzedCall, usage: Usage) -> None:
        call = analyzed.call
        key = call.provider, call.host, call.account, call.model
        if analyzed.is_silent:
            calls, tokens = self.silent.get(key, (0, 0))
            self.silent[key] = calls + 1, tokens + (usage.prompt or 0)
        elif usage.read or usage.written:
            self.silent.pop(key, None)  # it does report reads: those before were none

    def _count_placeholder(self, analyzed: AnalyzedCall, usage: Usage) -> None:
        call, hidden = analyzed.call, analyzed.hidden_output_usd
        self.placeholders += 1
        self.placeholder_tokens += usage.output or 0
        if call.output_estimate is not None:
            self.placeholders_estimated += 1
            self.tokens_estimated += call.output_estimate
        if hidden is not None and call.billed_usd is None:
            self.hidden_usd = (self.hidden_usd or 0.0) + hidden

    def _count(self, usage: Usage) -> None:
        """As adding usages up does, without making one a call."""
        self.fresh = None if self.fresh is None or usage.fresh is None else self.fresh + usage.fresh
        self.read = None if self.read is None or usage.read is None else self.read + usage.read
        self.output = None if self.output is None or usage.output is None else self.output + usage.output
        sums = self.writes
        if usage.writes is None or sums is None:
            self.writes = None
        else:
            for ttl, tokens in usage.writes:
                before = sums.get(ttl, 0)
                sums[ttl] = None if before is None or tokens is None else before + tokens
        if usage.qualities:
            self.qualities = worst_qualities(self.qualities, usage.qualities)
        self.estimated |= usage.estimated

    def row(self, name: str) -> Row:
        return Row(
            name=name,
            calls=self.calls,
            calls_with_usage=self.calls_with_usage,
            calls_with_price=self.calls_with_price,
            usage=Usage(
                self.fresh,
                self.read,
                output=self.output,
                estimated=self.estimated,
                writes=self.writes,
                qualities=self.qualities,
            ),
            cost_usd=self.cost_usd,
            cost_uncached_usd=self.cost_uncached_usd,
            n_misses=self.n_misses,
            list_cost_usd=self.list_cost_usd,
            calls_without_price=self.calls_without_price,
            calls_with_partial_cost=self.calls_with_partial_cost,
            recorded=self.recorded,
            placeholders=PlaceholderOutput(
                self.placeholders,
                self.placeholder_tokens,
                self.placeholders_estimated,
                self.tokens_estimated,
                self.hidden_usd,
            ),
            calls_refused=self.calls_refused,
            calls_silent=sum(calls for calls, _ in self.silent.values()),
            silent_tokens=sum(tokens for _, tokens in self.silent.values()),
        )


def _with_recorded(sums: RecordedCost, usd: float, list_usd: float | None) -> RecordedCost:
    """`sums` with one more call."""
    has_list_price = list_usd is not None
    return RecordedCost(
        sums.calls + 1,
        (sums.usd or 0.0) + usd,
        sums.calls_with_list_price + has_list_price,
        (sums.comparable_usd or 0.0) + usd if has_list_price else sums.comparable_usd,
        sums.list_usd if list_usd is None else (sums.list_usd or 0.0) + list_usd,
    )


class RowSums(Generic[K]):
    """Rows that grow as calls come, one for each key, in order of appearance."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: defaultdict[K, _Sum] = defaultdict(_Sum)

    def add(self, key: K, call: AnalyzedCall) -> None:
        """One more call of the row of `key`."""
        self._sums[key].add(call)

    def rows(self, name_of: Callable[[K], str]) -> dict[K, Row]:
        """The rows as they stand, each under its key."""
        return {key: one.row(name_of(key)) for key, one in self._sums.items()}


def unpriced_name(model: str, service_tier: str) -> str:
    """Name a model whose calls have no price, with the service tier that has none."""
    return f"{model} ({service_tier})" if service_tier else model


def _hit_text(summary: Summary) -> str:
    if not summary.calls:
        return "no calls recorded"
    if summary.hit_rate is None:
        return f"hit rate unknown{': the host reports no reads' if summary.total.is_silent else ''}"
    return f"{Share(summary.hit_rate).spaced} of input read from cache" + (
        " (estimated)" if summary.usage.estimated else ""
    )


def _money_texts(summary: Summary) -> Iterable[str]:
    if summary.cost_usd is not None:
        yield f"{summary.total.spent} spent"
    if summary.saved_usd is not None:
        yield (
            f"{dollars(summary.saved_usd)} saved"
            if summary.saved_usd >= 0
            else f"{dollars(-summary.saved_usd)} more than without a cache"
        )


def _miss_text(summary: Summary) -> str:
    n = summary.total.n_misses
    if summary.total.is_silent and not n:
        return "misses unknown"
    return f"{summary.total.misses} {'miss' if n == 1 else 'misses'}" if summary.calls_with_usage else ""


def _unknown_texts(summary: Summary) -> Iterable[str]:
    row = summary.total
    if row.is_partial:
        yield f"usage unknown for {row.calls - row.calls_refused - row.calls_with_usage} of {row.calls} calls"
    billed = {one.name for one in summary.models if one.calls_with_usage}  # without usage no price is missing yet
    unpriced = [model for model in summary.models_without_price if model in billed]
    if unpriced:
        yield f"price unknown for {', '.join(unpriced)}"
