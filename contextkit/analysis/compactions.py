"""The compactions of a recording: what each cost, what it saved, and what the break-even rule would have said.

And what it says now.

Takes judged calls, gives one `Compaction` for each and one `Standing` for each lane, in dollars. No recording holds the
call that made a summary: its size is assumed, and it is priced as a call that reads the whole prompt before it. Knows
nothing of terminals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from contextkit import prices
from contextkit.cache.usage import Usage
from contextkit.economics.bill import FREE_WRITES, call_usage
from contextkit.economics.break_even import OUTPUT_RESERVE, Advice, SleepTime, advise, sleep_time
from contextkit.economics.rewrite import Bills, Rewrite
from contextkit.economics.rhythm import Rhythm
from contextkit.ledger.calls import Exchange
from contextkit.ledger.misses import AnalyzedCall
from contextkit.models import Model, model_named

SUMMARY_TOKENS, KEEP_TOKENS = 3_000, 20_000
"""Of a summary, and of the tail that is kept behind it, where nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """One recorded rewrite of a lane's history."""

    index: int
    """Place in the recording of the call that carried the rewritten history first."""
    session: str
    """Its conversation."""
    lane: str
    """Its lane."""
    model: str
    """The model that was asked."""
    before_tokens: int
    """What the call would have repeated."""
    after_tokens: int
    """What it sent."""
    cost_usd: float
    """What it added to the bill at once: summary and writes, less the call as it would have been."""
    saved_usd: float
    """What the calls behind it did not carry, up to the next compaction or the end; window or not."""
    turns: int
    """How many calls that is."""
    paid_after: int | None
    """After which of them the cost was saved; None where it never was."""
    full_after: int | None
    """After which of them the window would have been full without it; None where it would not: else it was due anyway.
    """
    advice: Advice
    """What the rule would have said before that call, from what the lane had shown so far."""
    reached_at: int | None
    """Place of the first call whose context was as large as the rule asks for with the cache alive; None where none
    was."""

    @property
    def net_usd(self) -> float:
        """What it was worth; negative where it cost more than it saved."""
        return self.saved_usd - self.cost_usd


@dataclass(frozen=True, slots=True)
class Standing:
    """A lane as its recording leaves it."""

    session: str
    """Its conversation."""
    lane: str
    """Its lane."""
    model: str
    """The model that was asked last."""
    context_tokens: int
    """What the next call repeats."""
    after_tokens: int
    """What it would repeat after a rewrite like the lane's last one, or, without one, of the assumed size."""
    advice: Advice
    """For the next call, if it finds the cache alive."""
    advice_cold: Advice
    """For the next call, if it does not."""
    sleep: SleepTime
    """For a session that waits."""


@dataclass(frozen=True, slots=True)
class Advised:
    """Everything that can be said of a recording."""

    compactions: tuple[Compaction, ...]
    """In the order of the recording."""
    standings: tuple[Standing, ...]
    """In the order in which the lanes ended."""
    summary_tokens: int
    """What a summary was assumed to hold."""
    unknown: tuple[str, ...]
    """Models without a price: their calls are left out."""


def advised(
    calls: Iterable[AnalyzedCall], summary_tokens: int = SUMMARY_TOKENS, kept_tokens: int = KEEP_TOKENS
) -> Advised:
    """What the compactions of a recording were worth, and what to do now; holds sizes and times of all calls in memory."""
    lanes: dict[tuple[str, str], _Lane] = {}
    unknown: set[str] = set()
    for call in calls:
        exchange, usage = call.exchange, call.usage
        row = model_named(exchange.model, exchange.provider)
        if not call.has_model_price:
            unknown.add(exchange.model)
        elif usage is not None and usage.prompt:
            key = exchange.session, exchange.lane
            lane = lanes.pop(key, None) or _Lane(summary_tokens, kept_tokens)
            lanes[key] = lane
            lane.see(_Call(call.index, exchange, usage, row, call.miss is not None and call.miss.cause == "compaction"))
    compactions = sorted((one for lane in lanes.values() for one in lane.compactions()), key=lambda one: one.index)
    standings = [standing for lane in lanes.values() if (standing := lane.standing())]
    return Advised(tuple(compactions), tuple(standings), summary_tokens, tuple(sorted(unknown)))


@dataclass(frozen=True, slots=True)
class _Call:
    """A call with a bill."""

    index: int
    exchange: Exchange
    usage: Usage
    row: Model
    is_rewritten: bool
    """Whether a compaction came before it."""

    @property
    def prompt(self) -> int:
        return self.usage.prompt or 0

    @property
    def left(self) -> int:
        """What the next call repeats."""
        return self.prompt + (self.usage.output or 0)

    @property
    def bills(self) -> Bills:
        """Prices of its day, for the lifetime it was written with."""
        exchange = self.exchange

        def price(usage: Usage) -> float | None:
            return prices.cost_usd(exchange.provider, exchange.model, usage, exchange.at)

        ttl = 3600 if self.usage.write_1h and 3600 in self.row.ttls_seconds else self.row.default_ttl_seconds
        return Bills(self.row, price, ttl)

    @property
    def limit(self) -> int:
        return max(self.row.window_tokens - OUTPUT_RESERVE, self.left + 1)

    def carrying(self, tokens: int) -> float:
        """What it would have cost more with so many tokens in front, read where it read."""
        is_warm = (self.usage.read or 0) * 2 >= self.prompt
        more = call_usage(tokens if is_warm else 0, 0 if is_warm else tokens, self.row, self.bills.ttl_seconds)
        usage = (
            self.usage
            if self.row.cache not in FREE_WRITES
            else Usage(self.prompt - (self.usage.read or 0), self.usage.read, 0, 0, 0)
        )
        return self.bills.usd(usage + more) - self.bills.usd(usage)


@dataclass(slots=True)
class _Lane:
    """The calls of one lane."""

    summary_tokens: int
    kept_tokens: int
    calls: list[_Call] = field(default_factory=list)

    def see(self, call: _Call) -> None:
        self.calls.append(call)

    def compactions(self) -> list[Compaction]:
        places = [
            i for i, call in enumerate(self.calls) if call.is_rewritten and i and self.calls[i - 1].left > call.prompt
        ]
        ends = zip([0, *places], places, [*places[1:], len(self.calls)], strict=False)
        return [self._compaction(start, at, end) for start, at, end in ends]

    def _compaction(self, start: int, at: int, end: int) -> Compaction:
        first, before = self.calls[at], self.calls[at - 1]
        rewrite, bills = self._rewrite(before.left, first), first.bills
        is_cold = first.exchange.at - before.exchange.at > bills.ttl_seconds
        cost = bills.rewritten(rewrite, 0, is_cold=is_cold) - bills.stay(before.left, 0, is_cold=is_cold)
        saved, paid_after, full_after = self._carried(at, end, rewrite.removed_tokens, cost)
        advice = advise(
            rewrite,
            self._rhythm(at),
            first.row,
            bills.price,
            ttl_seconds=bills.ttl_seconds,
            limit_tokens=before.limit,
            is_cold=is_cold,
        )
        reached = next(
            (call.index for call in self.calls[start:at] if advice.warm_tokens and call.left >= advice.warm_tokens),
            None,
        )
        exchange = first.exchange
        return Compaction(
            first.index,
            exchange.session,
            exchange.lane,
            exchange.model,
            before.left,
            first.prompt,
            cost,
            saved,
            end - at - 1,
            paid_after,
            full_after,
            advice,
            reached,
        )

    def _carried(self, at: int, end: int, removed: int, cost: float) -> tuple[float, int | None, int | None]:
        saved, paid_after, full_after = 0.0, None, None
        for turns, call in enumerate(self.calls[at + 1 : end], 1):
            saved += call.carrying(removed)
            paid_after = turns if paid_after is None and saved >= cost else paid_after
            full_after = turns if full_after is None and call.prompt + removed > call.limit else full_after
        return saved, paid_after, full_after

    def standing(self) -> Standing | None:
        """What now; None where a rewrite would remove nothing."""
        last = self.calls[-1]
        first = next((call for call in reversed(self.calls) if call.is_rewritten), None)
        rewrite = self._rewrite(last.left, first) if first else self._assumed(last.left)
        if rewrite.removed_tokens <= 0:
            return None
        rhythm, bills, exchange = self._rhythm(len(self.calls)), last.bills, last.exchange
        warm, cold = (
            advise(
                rewrite,
                rhythm,
                last.row,
                bills.price,
                ttl_seconds=bills.ttl_seconds,
                limit_tokens=last.limit,
                is_cold=is_cold,
            )
            for is_cold in (False, True)
        )
        sleep = sleep_time(
            rewrite, rhythm, last.row, bills.price, ttl_seconds=bills.ttl_seconds, limit_tokens=last.limit
        )
        return Standing(
            exchange.session, exchange.lane, exchange.model, last.left, rewrite.after_tokens, warm, cold, sleep
        )

    def _rewrite(self, context: int, first: _Call) -> Rewrite:
        """One that leads to the prompt of `first`."""
        unchanged = min(first.usage.read or 0, context)
        return Rewrite(context, unchanged, first.prompt - unchanged, min(self.summary_tokens, first.prompt - unchanged))

    def _assumed(self, context: int) -> Rewrite:
        """One that keeps the least any call read: what stands at the front of all of them."""
        unchanged = min((call.usage.read for call in self.calls if call.usage.read), default=0)
        return Rewrite(context, min(unchanged, context), self.summary_tokens + self.kept_tokens, self.summary_tokens)

    def _rhythm(self, end: int) -> Rhythm:
        """What the lane had shown before its call `end`."""
        pairs = zip(self.calls[: end - 1], self.calls[1:end], strict=False)
        return Rhythm().see_all(
            (after.exchange.at - before.exchange.at, after.prompt - before.prompt)
            for before, after in pairs
            if not after.is_rewritten
        )
