"""Why each cache miss happened: the first cause in one ordered table that the record bears out.

Takes exchanges, gives a `Miss` for every call that read clearly less than the calls before it had left in the cache,
and for every call that had nothing to read yet. Bills decide whether there is a miss; prompts and times only name its
cause. Where nothing that was recorded explains it, the cause is `unknown`. Knows nothing of reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from contextkit import prices
from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.errors import UnknownModel
from contextkit.ledger.bodies.comparing import KeptBodies
from contextkit.ledger.causes import (
    CAUSES,
    NOTHING_SAID,
    Call,
    Cause,
    Lane,
    Mark,
    Pair,
    call_of,
    not_yet,
    nothing_visible,
)
from contextkit.ledger.exchange import Bodies, Exchange, Outline
from contextkit.ledger.outlines import Growing
from contextkit.models import Model, find_model, model_named

SHARE = 0.05
"""A shortfall up to this share of what was expected is noise (pydantic-ai-harness 0.62.0, `WarnOnCacheBusts`)."""
TOKENS = 2_000
"""A shortfall up to this many tokens is noise (same source)."""


@dataclass(frozen=True, slots=True)
class Miss:
    """One call that read less than it could have."""

    exchange_id: str
    """Which call."""
    index: int
    """Its place in the ledger, from 0."""
    lane: str
    """Its lane."""
    at: float
    """When it started, seconds since 1970."""
    cause: Cause
    """Why, as far as the record tells."""
    expected_tokens: int
    """What the calls before it had left in the cache, at most its own prompt."""
    read_tokens: int
    """What it read."""
    lost_tokens: int
    """The difference, paid as a write or as plain input. 0 for a call that had nothing to read yet."""
    cost_usd: float | None
    """What the lost tokens cost above the price of reading them; None where no price is known."""
    where: str
    """The evidence: the segment that changed, the gap and the lifetime, …"""
    certain: bool
    """Whether the evidence was recorded; otherwise something, such as a lifetime, was assumed."""


def misses(exchanges: Iterable[Exchange]) -> list[Miss]:
    """Every miss of a ledger in its order, each with the first cause that the record bears out."""
    judge = Judge()
    found = (judge.see(exchange) for exchange in exchanges)
    return [miss for miss in found if miss]


class Judge:
    """Is shown a recording call by call, and says which calls missed.

    A miss is a shortfall above `SHARE` and `TOKENS`, or the first write of a lane. Calls whose bill is unknown, or
    lacks a counter, are passed over. Costs what each exchange added; keeps one call a lane.
    """

    __slots__ = ("_bodies", "_growing", "_lanes", "_seen")

    def __init__(self) -> None:
        self._bodies = KeptBodies()
        self._growing = Growing()
        self._lanes: dict[str, dict[str, Lane]] = {}
        self._seen = -1

    def pass_over(self) -> None:
        """A row of the recording that is no call: it has its place, and neither misses nor leaves anything in the
        cache.
        """
        self._seen += 1

    def see(self, exchange: Exchange, said: Mapping[Cause, str] = NOTHING_SAID) -> Miss | None:
        """The next call of the recording.

        Gives its miss, if it is one. `said` is what was remarked of the time since the call before.
        """
        self._seen += 1
        lanes = self._lanes.setdefault(exchange.session, {})
        lane = lanes.setdefault(exchange.lane, Lane())
        prompt = self._growing.prompt(exchange)
        _follow(lane, exchange)
        if said:
            lane.said = {**lane.said, **said}
        usage = measured(exchange)
        if usage is None:
            lane.unbilled += 1
            return None
        siblings = [] if lane.before else [sibling.before for sibling in lanes.values() if sibling.before]
        if isinstance(exchange.prompt, Bodies):
            now, miss = self._see_body(lane, exchange, exchange.prompt.request, usage, siblings)
        else:
            now = call_of(exchange, usage, prompt)
            miss = _judge(lane, now, prompt, siblings)
        if self._bodies or isinstance(exchange.prompt, Bodies):
            self._bodies.keep(exchange)
        _advance(lane, now, is_miss=miss is not None)
        return replace(miss, index=self._seen) if miss else None

    def _see_body(
        self, lane: Lane, exchange: Exchange, raw: bytes, usage: Usage, siblings: list[Call]
    ) -> tuple[Call, Miss | None]:
        """A call whose body was recorded: the body is read only where a cause is looked for."""
        now = call_of(replace(exchange, prompt=None), usage, None)
        if siblings and not usage.read:
            return now, _judge(lane, *self._bodies.beside(now, raw, siblings))
        return now, _judge(lane, now, None, siblings, lambda pair: self._bodies.compared(pair, raw))


def measured(exchange: Exchange) -> Usage | None:
    """The bill of `exchange` where every part of the prompt is known, else None.

    Where the cache is free to write nobody reports writes: they count 0.
    """
    usage = exchange.usage
    if usage is None or usage.prompt is not None:
        return usage
    if _is_free_to_write(exchange.provider, exchange.model):
        usage = replace(usage, write_5m=usage.write_5m or 0, write_1h=usage.write_1h or 0)
    return usage if usage.prompt is not None else None


def _is_free_to_write(provider: str, model: str) -> bool:
    """By the model table.

    For a model without a row by the price list, or as its nearest relative's host reports writes.
    """
    row = find_model(model)
    return row.cache in _FREE if row else _is_listed_free(provider, model)


_FREE = ("implicit", "units")
"""Kinds of caches that cost nothing to write."""
_REPORTING = ("anthropic", "aws")
"""Hosts whose input count leaves out what was written: without a count of writes the size of the prompt is not known.
"""


@lru_cache(maxsize=256)
def _is_listed_free(provider: str, model: str) -> bool:
    try:
        return not prices.bills_writes(provider, model)
    except UnknownModel:
        return not {provider, model_named(model, provider).provider} & set(_REPORTING)


def _row_of(exchange: Exchange) -> Model:
    return find_model(exchange.model) or model_named(exchange.model, exchange.provider)


def is_shortfall(expected_tokens: int, read_tokens: int) -> bool:
    """Whether reading this little is more than noise.

    >>> is_shortfall(40_000, 37_000), is_shortfall(100_000, 96_000), is_shortfall(1_500, 0)
    (True, False, False)
    """
    return expected_tokens - read_tokens > max(SHARE * expected_tokens, TOKENS)


def _follow(lane: Lane, exchange: Exchange) -> None:
    if isinstance(exchange.prompt, Outline):
        lane.kept = min(lane.kept, exchange.prompt.keep)
        lane.entries[exchange.prompt.keep :] = exchange.prompt.entries


def _advance(lane: Lane, now: Call, *, is_miss: bool) -> None:
    cached = _cached_tokens(now, _row_of(now.exchange))
    starts_again = is_miss or now.prompt_tokens < lane.high_tokens
    lane.high_tokens = cached if starts_again else max(cached, lane.high_tokens)
    lane.is_long = bool(now.usage.write_1h) or (lane.is_long and not is_miss)
    lane.before, lane.kept, lane.unbilled, lane.said = now, now.n, 0, NOTHING_SAID


def _cached_tokens(call: Call, row: Model) -> int:
    """What a call leaves readable; an implicit cache keeps every prompt that is long enough, in whole steps."""
    if row.cache == "implicit":
        whole = call.prompt_tokens - call.prompt_tokens % row.granularity_tokens
        return whole if call.prompt_tokens >= row.min_tokens else 0
    return sum(part or 0 for part in (call.usage.read, call.usage.write_5m, call.usage.write_1h))


def _judge(
    lane: Lane,
    now: Call,
    prompt: Prompt | None,
    siblings: Sequence[Call],
    told: Callable[[Pair], Pair] = lambda pair: pair,
) -> Miss | None:
    """The miss of a call, if it is one; `told` adds to a pair what its bodies say."""
    row = _row_of(now.exchange)
    if lane.before is None or not lane.high_tokens:
        return _opening(now, prompt, siblings, row)
    expected = min(lane.high_tokens, now.prompt_tokens)
    if not is_shortfall(expected, now.usage.read or 0):
        return None
    pair = told(Pair(lane, lane.before, now, prompt, row))
    for cause, ask in CAUSES:
        evidence = ask(pair)
        if evidence:
            return _miss(now, cause, expected, *evidence)
    return _miss(now, "unknown", expected, nothing_visible(pair), False)


def _opening(now: Call, prompt: Prompt | None, siblings: Sequence[Call], row: Model) -> Miss | None:
    """A call of a lane that has nothing in the cache yet: a shared prefix may be on its way, or this is the first
    write.
    """
    if now.usage.read:
        return None
    late = _on_its_way(now, prompt, siblings)
    if late:
        return late
    if now.prompt_tokens < row.min_tokens and not _written(now):
        least = f"{row.min_tokens:,}" + (f", {row.source.partition(':')[0]}" if row.is_assumed else "")
        text = f"{now.prompt_tokens:,} tokens; the least that is cached is {least}"
        return _miss(now, "below_minimum", 0, text, not row.is_assumed)
    if not _cached_tokens(now, row):
        return None
    return _miss(now, "first_write", 0, f"nothing was cached in lane {now.exchange.lane!r} before", True)


def _on_its_way(now: Call, prompt: Prompt | None, siblings: Sequence[Call]) -> Miss | None:
    """The longest prefix that a sibling lane was writing while this call started."""
    shared = [
        (mark.n_tokens, call)
        for call in siblings
        for mark in call.marks
        if _is_shared(mark, call, prompt) and _overlap(call, now)
    ]
    expected, call = max(shared, key=lambda pair: pair[0], default=(0, now))
    evidence = not_yet(call, now) if is_shortfall(min(expected, now.prompt_tokens), 0) else None
    return _miss(now, "cold_fan_out", min(expected, now.prompt_tokens), *evidence) if evidence else None


def _is_shared(mark: Mark, call: Call, prompt: Prompt | None) -> bool:
    if prompt is None or prompt.n <= mark.segment or prompt.namespaces != call.namespaces:
        return False
    return prompt.digests[mark.segment] == mark.digest


def _overlap(call: Call, now: Call) -> bool:
    """Whether `call` started before `now` began to answer: the ledger may hold them in the order they ended."""
    return now.began_at is None or call.exchange.at < now.began_at


def _written(call: Call) -> int:
    return (call.usage.write_5m or 0) + (call.usage.write_1h or 0)


def _miss(now: Call, cause: Cause, expected: int, where: str, certain: bool) -> Miss:
    exchange, read = now.exchange, now.usage.read or 0
    lost = max(0, expected - read)
    return Miss(
        exchange.id, -1, exchange.lane, exchange.at, cause, expected, read, lost, _extra_usd(now, lost), where, certain
    )


def _extra_usd(call: Call, lost: int) -> float | None:
    """The bill less the bill had the lost tokens been read."""
    exchange, paid = call.exchange, replace(call.usage, output=0)
    try:
        bills = [
            prices.cost_usd(exchange.provider, exchange.model, usage, exchange.at)
            for usage in (paid, _had_it_been_read(paid, lost))
        ]
    except UnknownModel:
        return None  # an unknown price is said as unknown by whoever shows this
    return None if bills[0] is None or bills[1] is None else bills[0] - bills[1]


def _had_it_been_read(usage: Usage, lost: int) -> Usage:
    """Lost tokens stand right behind what was read, so they were paid as long writes first, then short ones, then plain
    input.
    """
    long = min(lost, usage.write_1h or 0)
    short = min(lost - long, usage.write_5m or 0)
    plain = lost - long - short
    return Usage(
        (usage.fresh or 0) - plain,
        (usage.read or 0) + lost,
        (usage.write_5m or 0) - short,
        (usage.write_1h or 0) - long,
        0,
        service_tier=usage.service_tier,
    )
