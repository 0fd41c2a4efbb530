"""Cache misses of a ledger: the calls that read less than they could, with the cause of each.

`LedgerAnalyzer` takes records one by one and returns an `AnalyzedCall` per exchange; it stores one call per lane, so a
recording may be larger than memory. `MissDetector` decides by the bills whether a call missed. Only then the prompts
and times of the call and of the one before it are compared, and the first entry of `CAUSES` with evidence is the cause:
changes of the prompt come before time and concurrency. Where the record explains nothing, the cause is `unknown`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from contextkit import prices
from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import ZERO, Usage
from contextkit.errors import UnknownModel
from contextkit.ledger.calls import Bodies, Exchange, Outline, Record, Remark
from contextkit.ledger.prompts import Growing, Read, outline, read_body
from contextkit.models import Model, find_model, model_named
from contextkit.prompt.diff import divergence
from contextkit.prompt.prompt import LEVELS

DEFAULT_TTL_SECONDS, LONG_TTL_SECONDS = 300, 3600
"""Lifetimes assumed where neither the prompt nor the model table states one; the second where 1 h writes were billed
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching)."""

Cause = Literal[
    "below_minimum",
    "first_write",
    "model_changed",
    "compaction",
    "params_changed",
    "tools_changed",
    "system_changed",
    "messages_changed",
    "ttl_expired",
    "cold_fan_out",
    "out_of_reach",
    "aborted",
    "unknown",
]

NO_REMARKS: Mapping[Cause, str] = MappingProxyType({})
"""No remarks since the call before."""

Evidence = tuple[str, bool]
"""The evidence as text, and whether it was recorded rather than assumed."""


@dataclass(frozen=True, slots=True)
class CachedPrefix:
    """A prefix that a call may have left in the cache."""

    segment: int
    """Index of its last block."""
    digest: bytes
    """Running digest at its end."""
    position: int
    """Lookback position of its end."""
    n_tokens: int
    """Size."""
    ttl_seconds: int | None
    """Lifetime; None where the prompt has no breakpoints and its end is used instead."""


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The facts of a call needed to judge the next one, copied because prompts are borrowed."""

    exchange: Exchange
    """The ledger row."""
    usage: Usage
    """Its bill, with every part of the prompt known."""
    prompt_tokens: int
    """Size of the prompt, as billed."""
    outline: Outline | None
    """The prompt as a difference; None where it was not recorded."""
    namespaces: tuple[bytes, ...]
    """Cache namespaces of the prompt; empty where it was not recorded."""
    n: int
    """Number of blocks."""
    cached: tuple[CachedPrefix, ...]
    """Prefixes it may have left readable, shortest first."""

    @property
    def began_at(self) -> float | None:
        """Time at which its writes became readable: its first byte, or its end where that is unknown."""
        return self.exchange.ended_at if self.exchange.first_byte_at is None else self.exchange.first_byte_at


@dataclass(slots=True)
class LaneState:
    """State of one lane between two of its calls."""

    before: CallFacts | None = None
    """The last call with a bill."""
    high_tokens: int = 0
    """Most tokens in the cache so far; restarts after a miss or a shorter prompt."""
    n_unchanged: int = 0
    """Leading blocks unchanged since `before`."""
    unbilled: int = 0
    """Calls without a bill since `before`, which may or may not have kept the cache warm."""
    is_long: bool = False
    """True where 1 h writes were billed."""
    entries: list[int] = field(default_factory=list)
    """Log sequence of each block."""
    remarks: Mapping[Cause, str] = field(default_factory=lambda: NO_REMARKS)
    """Causes recorded as remarks since `before`, with their text."""


@dataclass(frozen=True, slots=True)
class CallPair:
    """A call and the call before it in its lane."""

    lane: LaneState
    """Their lane."""
    before: CallFacts
    """The last call with a bill."""
    now: CallFacts
    """The call under examination."""
    prompt: Prompt | None
    """Prompt of `now`."""
    row: Model | None
    """Model of `now`."""
    place: str = ""
    """First difference of the two bodies where they were recorded: `messages[4] byte 812`."""
    is_whole: bool = False
    """True where whole request bodies were compared."""


def call_facts(exchange: Exchange, usage: Usage, prompt: Prompt | None) -> CallFacts:
    """Copy the facts of one call out of its borrowed prompt."""
    outline = exchange.prompt if isinstance(exchange.prompt, Outline) else None
    size = usage.prompt or 0
    if prompt is None or not prompt.n:
        return CallFacts(exchange, usage, size, outline, (), 0, ())
    return CallFacts(exchange, usage, size, outline, prompt.namespaces, prompt.n, _cached_prefixes(prompt))


def _cached_prefixes(prompt: Prompt) -> tuple[CachedPrefix, ...]:
    ends: list[tuple[int, int | None]] = [
        (mark.segment, mark.ttl_seconds) for mark in prompt.breakpoints if mark.is_written
    ]
    ends = ends or [(prompt.n - 1, None)]
    return tuple(CachedPrefix(i, prompt.digests[i], prompt.positions[i], prompt.ends_tokens[i], ttl) for i, ttl in ends)


def _model_changed(pair: CallPair) -> Evidence | None:
    before, now = pair.before.exchange, pair.now.exchange
    is_same = (before.provider, before.model) == (now.provider, now.model)
    return None if is_same else (f"{before.provider}/{before.model} → {now.provider}/{now.model}", True)


def _compaction(pair: CallPair) -> Evidence | None:
    before, now = pair.before.outline, pair.now.outline
    remarks = pair.lane.remarks.get("compaction")
    sizes = f"prompt {pair.before.prompt_tokens:,} → {pair.now.prompt_tokens:,} tokens"
    if before is None or now is None or before.epoch == now.epoch:
        return (f"{remarks}, {sizes}", True) if remarks else None
    return f"epoch {before.epoch} → {now.epoch}, {sizes}", True


def _params_changed(pair: CallPair) -> Evidence | None:
    levels = zip(LEVELS, pair.before.namespaces, pair.now.namespaces, strict=False)
    level = next((level for level, before, now in levels if before != now), None)
    if level:
        return f"{level}: a request setting outside the prompt's text", True
    remarks = pair.lane.remarks.get("params_changed")
    return (remarks, True) if remarks else None


def _text_changed(level: int) -> Callable[[CallPair], Evidence | None]:
    def check(pair: CallPair) -> Evidence | None:
        segment = first_changed_block(pair)
        if segment is None or _level(pair, segment) != level:
            return None
        if pair.place:
            return pair.place, True
        entry = pair.lane.entries[segment] if segment < len(pair.lane.entries) else -1
        place = f"{LEVELS[level]} block {segment}"
        return (f"{place}, entry {entry}" if entry >= 0 else place), True

    return check


def first_changed_block(pair: CallPair) -> int | None:
    """Index of the first changed block; None where everything that was cached is unchanged.

    A change behind the last breakpoint does not count, because it was never in the cache.
    """
    prompt = pair.prompt
    if prompt is None or not pair.before.cached:
        return None
    last = pair.before.cached[-1]
    if prompt.n > last.segment and prompt.digests[last.segment] == last.digest:
        return None
    return pair.lane.n_unchanged


def _level(pair: CallPair, segment: int) -> int:
    """Level of a block in either prompt, the earlier where they differ: an added tool moves every later block."""
    ends = [(call.outline.level_ends, call.n) for call in (pair.before, pair.now) if call.outline]
    return min((segment >= tools) + (segment >= system) for (tools, system), n in ends if segment < n)


def _ttl(pair: CallPair) -> tuple[int, bool]:
    """Lifetime of the last cached prefix, and whether it was recorded."""
    recorded = pair.before.cached[-1].ttl_seconds if pair.before.cached else None
    if recorded is not None:
        return recorded, True
    if pair.row:
        return (pair.row.ttls_seconds[-1] if pair.lane.is_long else pair.row.default_ttl_seconds), False
    return (LONG_TTL_SECONDS if pair.lane.is_long else DEFAULT_TTL_SECONDS), False


def _gap(pair: CallPair) -> float:
    """Seconds from start to start: a lifetime counts from the start of the request that wrote or read."""
    return pair.now.exchange.at - pair.before.exchange.at


def _ttl_expired(pair: CallPair) -> Evidence | None:
    gap, (ttl, is_recorded) = _gap(pair), _ttl(pair)
    seconds = f"{gap:.1f}" if int(gap) == ttl else f"{int(gap)}"
    return (f"gap {seconds} s > {ttl} s", is_recorded and not pair.lane.unbilled) if gap > ttl else None


def starts_too_early(call: CallFacts, now: CallFacts) -> Evidence | None:
    """Evidence that `now` started before `call` began to answer, so that it could not read what `call` wrote."""
    if call.began_at is None or now.exchange.at >= call.began_at:
        return None
    early = call.began_at - now.exchange.at
    return (
        f"started {early:.1f} s before the response of {call.exchange.id!r} began",
        call.exchange.first_byte_at is not None,
    )


def _cold_fan_out(pair: CallPair) -> Evidence | None:
    return starts_too_early(pair.before, pair.now)


def _out_of_reach(pair: CallPair) -> Evidence | None:
    if pair.prompt is None or not pair.before.cached or pair.before.cached[-1].ttl_seconds is None:
        return None
    last, positions = pair.before.cached[-1], pair.prompt.positions
    behind = [
        (positions[mark.segment] - last.position, mark.lookback)
        for mark in pair.prompt.breakpoints
        if mark.segment >= last.segment
    ]
    if not behind:
        return f"no breakpoint at or behind block {last.segment}, up to which the call before was cached", True
    if any(distance < lookback for distance, lookback in behind):
        return None
    distance, lookback = min(behind)
    return f"{distance} positions behind the last breakpoint, a lookup visits {lookback}", True


def _aborted(pair: CallPair) -> Evidence | None:
    call = pair.before
    has_begun = call.exchange.first_byte_at is not None or bool(call.usage.output)
    return (
        None
        if call.exchange.error is None or has_begun
        else (f"{call.exchange.id!r} ended before its response began", False)
    )


CAUSES: tuple[tuple[Cause, Callable[[CallPair], Evidence | None]], ...] = (
    ("model_changed", _model_changed),
    ("compaction", _compaction),
    ("params_changed", _params_changed),
    ("tools_changed", _text_changed(0)),
    ("system_changed", _text_changed(1)),
    ("messages_changed", _text_changed(2)),
    ("ttl_expired", _ttl_expired),
    ("cold_fan_out", _cold_fan_out),
    ("out_of_reach", _out_of_reach),
    ("aborted", _aborted),
)
"""Causes in order of precedence; the first with evidence applies."""


def without_evidence(pair: CallPair) -> str:
    """Describe a miss for which no cause has evidence."""
    gap, (ttl, _) = _gap(pair), _ttl(pair)
    if pair.prompt and pair.before.outline:
        intact = (
            "prefix intact"
            if pair.is_whole or pair.prompt.level_ends[1]
            else "messages intact, tools and system not in the record"
        )
        return f"{intact}, gap {int(gap)} s ≤ {ttl} s"
    before, now = pair.before.prompt_tokens, pair.now.prompt_tokens
    shrunk = f", and shrank from {before:,} to {now:,} tokens" if now < before else ""
    return f"the prompt was not recorded{shrunk}; gap {int(gap)} s ≤ {ttl} s"


MOST_BYTES = 64 << 20
"""Limit of stored bodies over all lanes; a lane whose body was evicted is compared by times and bills only."""


class StoredBodies:
    """Bodies of the last billed call of each lane; the least recently used are evicted first."""

    __slots__ = ("_n_bytes", "_stored")

    def __init__(self) -> None:
        self._stored: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._n_bytes = 0

    def __len__(self) -> int:
        return len(self._stored)

    def keep(self, exchange: Exchange) -> None:
        """Store the body of `exchange`, its lane's last billed call from now on."""
        place = exchange.session, exchange.lane
        self._n_bytes -= len(self._stored.pop(place, b""))
        if isinstance(exchange.prompt, Bodies):
            self._stored[place] = exchange.prompt.request
            self._n_bytes += len(exchange.prompt.request)
            while self._n_bytes > MOST_BYTES and len(self._stored) > 1:
                self._n_bytes -= len(self._stored.popitem(last=False)[1])

    def compared(self, pair: CallPair, raw: bytes) -> CallPair:
        """Add the facts of both bodies to `pair`; unchanged where either is unreadable. `raw` is the body of
        `pair.now`.
        """
        older, newer = self._read(pair.before), _read(pair.now, raw)
        if older is None or newer is None:
            return pair
        difference = divergence(older.layout, newer.layout)
        place = f"{difference.path} byte {difference.offset:,}" if difference else ""
        lane = replace(pair.lane, n_unchanged=difference.segment if difference else older.prompt.n, entries=[])
        before, now = _with_prompt_facts(pair.before, older), _with_prompt_facts(pair.now, newer)
        return replace(pair, lane=lane, before=before, now=now, prompt=newer.prompt, place=place, is_whole=True)

    def beside(
        self, now: CallFacts, raw: bytes, siblings: Iterable[CallFacts]
    ) -> tuple[CallFacts, Prompt | None, list[CallFacts]]:
        """A lane's first call, its prompt, and the calls of other lanes that had not begun to answer when it started."""
        late = [call for call in siblings if call.began_at is not None and call.began_at > now.exchange.at]
        newer = _read(now, raw) if late else None
        if newer is None:
            return now, None, late
        return (
            _with_prompt_facts(now, newer),
            newer.prompt,
            [_with_prompt_facts(call, read) for call in late if (read := self._read(call))],
        )

    def _read(self, call: CallFacts) -> Read | None:
        raw = self._stored.get((call.exchange.session, call.exchange.lane))
        return _read(call, raw) if raw else None


def _read(call: CallFacts, raw: bytes) -> Read | None:
    return read_body(raw, call.exchange.provider, call.exchange.model)


def _with_prompt_facts(call: CallFacts, read: Read) -> CallFacts:
    """Add the facts of its prompt to `call`."""
    remarks = outline(None, read.prompt, [-1] * read.prompt.n, 0)
    return call_facts(replace(call.exchange, prompt=remarks), call.usage, read.prompt)


SHARE = 0.05
"""A shortfall up to this share of what was expected is noise (pydantic-ai-harness 0.62.0, `WarnOnCacheBusts`)."""
TOKENS = 2_000
"""A shortfall up to this many tokens is noise (same source)."""


@dataclass(frozen=True, slots=True)
class Miss:
    """A call that read less than it could have."""

    exchange_id: str
    """Id of the call."""
    index: int
    """Position in the ledger, from 0."""
    lane: str
    """Its lane."""
    at: float
    """Start, in seconds since 1970."""
    cause: Cause
    """Cause, as far as the record shows it."""
    expected_tokens: int
    """Tokens that the calls before it had left in the cache, at most its own prompt."""
    read_tokens: int
    """Tokens it read."""
    lost_tokens: int
    """The difference, paid as a write or as plain input. 0 for a call that had nothing to read yet."""
    cost_usd: float | None
    """Price of the lost tokens above that of reading them; None where no price is known."""
    where: str
    """Evidence: the changed block, the gap and the lifetime, …"""
    certain: bool
    """True where the evidence was recorded; False where something, such as a lifetime, was assumed."""


def misses(exchanges: Iterable[Exchange]) -> list[Miss]:
    """List the misses of a ledger in order."""
    detector = MissDetector()
    fed = (detector.feed(exchange) for exchange in exchanges)
    return [miss for miss in fed if miss]


class MissDetector:
    """Finds the calls of a recording that missed, fed one by one.

    A miss is a shortfall above `SHARE` and `TOKENS`, or the first write of a lane. Calls whose bill is unknown or
    lacks a counter are skipped. Each call costs time linear in what it added; one call per lane is stored.
    """

    __slots__ = ("_bodies", "_growing", "_index", "_lanes")

    def __init__(self) -> None:
        self._bodies = StoredBodies()
        self._growing = Growing()
        self._lanes: dict[str, dict[str, LaneState]] = {}
        self._index = -1

    def skip(self) -> None:
        """Count a row that is not a single call: it cannot miss and leaves nothing in the cache."""
        self._index += 1

    def feed(self, exchange: Exchange, remarks: Mapping[Cause, str] = NO_REMARKS) -> Miss | None:
        """Add the next call and return its miss, if it is one; `remarks` are causes recorded since the call before."""
        self._index += 1
        lanes = self._lanes.setdefault(exchange.session, {})
        lane = lanes.setdefault(exchange.lane, LaneState())
        prompt = self._growing.prompt(exchange)
        _update_outline(lane, exchange)
        if remarks:
            lane.remarks = {**lane.remarks, **remarks}
        usage = complete_usage(exchange)
        if usage is None:
            lane.unbilled += 1
            return None
        siblings = [] if lane.before else [sibling.before for sibling in lanes.values() if sibling.before]
        if isinstance(exchange.prompt, Bodies):
            now, miss = self._feed_body(lane, exchange, exchange.prompt.request, usage, siblings)
        else:
            now = call_facts(exchange, usage, prompt)
            miss = _find_miss(lane, now, prompt, siblings)
        if self._bodies or isinstance(exchange.prompt, Bodies):
            self._bodies.keep(exchange)
        _advance(lane, now, is_miss=miss is not None)
        return replace(miss, index=self._index) if miss else None

    def _feed_body(
        self, lane: LaneState, exchange: Exchange, raw: bytes, usage: Usage, siblings: list[CallFacts]
    ) -> tuple[CallFacts, Miss | None]:
        """Add a call whose body was recorded; the body is parsed only where a cause is needed."""
        now = call_facts(replace(exchange, prompt=None), usage, None)
        if siblings and not usage.read:
            return now, _find_miss(lane, *self._bodies.beside(now, raw, siblings))
        return now, _find_miss(lane, now, None, siblings, lambda pair: self._bodies.compared(pair, raw))


def complete_usage(exchange: Exchange) -> Usage | None:
    """Usage of `exchange` where every part of the prompt is known, else None.

    Unreported writes count as 0 where writing to the cache is free.
    """
    usage = exchange.usage
    if usage is None or usage.prompt is not None:
        return usage
    if _is_free_to_write(exchange.provider, exchange.model):
        usage = usage.with_unknown_writes_as_zero()
    return usage if usage.prompt is not None else None


def _is_free_to_write(provider: str, model: str) -> bool:
    """True where the model table lists a cache that is free to write.

    A model without a row is looked up in the price list, then judged by the host of its nearest relative.
    """
    row = find_model(model)
    return row.cache in _FREE if row else _is_listed_free(provider, model)


_FREE = ("implicit", "units")
"""Kinds of cache that are free to write."""
_REPORTING = ("anthropic", "aws")
"""Hosts whose input count excludes written tokens: without a count of writes the prompt size is unknown."""


@lru_cache(maxsize=256)
def _is_listed_free(provider: str, model: str) -> bool:
    try:
        return not prices.bills_writes(provider, model)
    except UnknownModel:
        return not {provider, model_named(model, provider).provider} & set(_REPORTING)


def _row_of(exchange: Exchange) -> Model:
    return find_model(exchange.model) or model_named(exchange.model, exchange.provider)


def is_shortfall(expected_tokens: int, read_tokens: int) -> bool:
    """True where the difference exceeds the noise limits.

    >>> is_shortfall(40_000, 37_000), is_shortfall(100_000, 96_000), is_shortfall(1_500, 0)
    (True, False, False)
    """
    return expected_tokens - read_tokens > max(SHARE * expected_tokens, TOKENS)


def _update_outline(lane: LaneState, exchange: Exchange) -> None:
    if isinstance(exchange.prompt, Outline):
        lane.n_unchanged = min(lane.n_unchanged, exchange.prompt.keep)
        lane.entries[exchange.prompt.keep :] = exchange.prompt.entries


def _advance(lane: LaneState, now: CallFacts, *, is_miss: bool) -> None:
    cached = _cached_tokens(now, _row_of(now.exchange))
    starts_again = is_miss or now.prompt_tokens < lane.high_tokens
    lane.high_tokens = cached if starts_again else max(cached, lane.high_tokens)
    lane.is_long = bool(now.usage.write_1h) or (lane.is_long and not is_miss)
    lane.before, lane.n_unchanged, lane.unbilled, lane.remarks = now, now.n, 0, NO_REMARKS


def _cached_tokens(call: CallFacts, row: Model) -> int:
    """Tokens that a call leaves readable; an implicit cache holds every long enough prompt in whole steps."""
    if row.cache == "implicit":
        whole = call.prompt_tokens - call.prompt_tokens % row.granularity_tokens
        return whole if call.prompt_tokens >= row.min_tokens else 0
    return sum(part or 0 for part in (call.usage.read, call.usage.write_5m, call.usage.write_1h))


def _find_miss(
    lane: LaneState,
    now: CallFacts,
    prompt: Prompt | None,
    siblings: Sequence[CallFacts],
    with_bodies: Callable[[CallPair], CallPair] = lambda pair: pair,
) -> Miss | None:
    """Return the miss of a call, if it is one; `with_bodies` adds the facts of recorded bodies to a pair."""
    row = _row_of(now.exchange)
    if lane.before is None or not lane.high_tokens:
        return _first_call(now, prompt, siblings, row)
    expected = min(lane.high_tokens, now.prompt_tokens)
    if not is_shortfall(expected, now.usage.read or 0):
        return None
    pair = with_bodies(CallPair(lane, lane.before, now, prompt, row))
    for cause, check in CAUSES:
        evidence = check(pair)
        if evidence:
            return _miss(now, cause, expected, *evidence)
    return _miss(now, "unknown", expected, without_evidence(pair), False)


def _first_call(now: CallFacts, prompt: Prompt | None, siblings: Sequence[CallFacts], row: Model) -> Miss | None:
    """Judge a call whose lane has nothing in the cache yet: a concurrent write, a short prompt, or the first write."""
    if now.usage.read:
        return None
    late = _concurrent_write(now, prompt, siblings)
    if late:
        return late
    if now.prompt_tokens < row.min_tokens and not _written(now):
        least = f"{row.min_tokens:,}" + (f", {row.source.partition(':')[0]}" if row.is_assumed else "")
        text = f"{now.prompt_tokens:,} tokens; the least that is cached is {least}"
        return _miss(now, "below_minimum", 0, text, not row.is_assumed)
    if not _cached_tokens(now, row):
        return None
    return _miss(now, "first_write", 0, f"nothing was cached in lane {now.exchange.lane!r} before", True)


def _concurrent_write(now: CallFacts, prompt: Prompt | None, siblings: Sequence[CallFacts]) -> Miss | None:
    """Find the longest shared prefix that a sibling lane was still writing when this call started."""
    shared = [
        (mark.n_tokens, call)
        for call in siblings
        for mark in call.cached
        if _is_shared(mark, call, prompt) and _overlap(call, now)
    ]
    expected, call = max(shared, key=lambda pair: pair[0], default=(0, now))
    evidence = starts_too_early(call, now) if is_shortfall(min(expected, now.prompt_tokens), 0) else None
    return _miss(now, "cold_fan_out", min(expected, now.prompt_tokens), *evidence) if evidence else None


def _is_shared(mark: CachedPrefix, call: CallFacts, prompt: Prompt | None) -> bool:
    if prompt is None or prompt.n <= mark.segment or prompt.namespaces != call.namespaces:
        return False
    return prompt.digests[mark.segment] == mark.digest


def _overlap(call: CallFacts, now: CallFacts) -> bool:
    """True where `call` started before `now` began to answer; the ledger may list them in the order they ended."""
    return now.began_at is None or call.exchange.at < now.began_at


def _written(call: CallFacts) -> int:
    return call.usage.written or 0


def _miss(now: CallFacts, cause: Cause, expected: int, where: str, certain: bool) -> Miss:
    exchange, read = now.exchange, now.usage.read or 0
    lost = max(0, expected - read)
    return Miss(
        exchange.id, -1, exchange.lane, exchange.at, cause, expected, read, lost, _extra_usd(now, lost), where, certain
    )


def _extra_usd(call: CallFacts, lost: int) -> float | None:
    """Cost of the call minus its cost had the lost tokens been read."""
    exchange, paid = call.exchange, replace(call.usage, output=0)
    try:
        bills = [
            prices.cost_usd(exchange.provider, exchange.model, usage, exchange.at)
            for usage in (paid, _usage_if_read(paid, lost))
        ]
    except UnknownModel:
        return None  # the report marks the price as unknown
    return None if bills[0] is None or bills[1] is None else bills[0] - bills[1]


def _usage_if_read(usage: Usage, lost: int) -> Usage:
    """Usage had the lost tokens been read.

    They follow directly behind what was read, so they were billed as 1 h writes first, then as 5 m writes, then as
    uncached input.
    """
    long = min(lost, usage.write_1h or 0)
    short = min(lost - long, usage.write_5m or 0)
    plain = lost - long - short
    rest = usage.with_written((usage.write_5m or 0) - short, (usage.write_1h or 0) - long)
    return replace(rest, fresh=(usage.fresh or 0) - plain, read=(usage.read or 0) + lost, output=0)


@dataclass(frozen=True, slots=True)
class AnalyzedCall:
    """A call of a recording with its bill, prices, miss and remarks."""

    index: int
    """Position in the recording, from 0."""
    exchange: Exchange
    """The ledger row."""
    usage: Usage | None
    """Bill; None where a part of the prompt is unknown."""
    cost_usd: float | None
    """Cost at the list price of its day; None where the bill or the price is unknown."""
    cost_uncached_usd: float | None
    """Cost without any cache."""
    has_model_price: bool
    """True where the model has a price."""
    miss: Miss | None
    """Its miss; None where it read what it could."""
    verdict: str
    """The provider's own diagnosis; empty where there is none."""
    project: str
    """Project folder of its session; empty where it is unknown."""
    agent: str
    """Name of its agent: from a remark, else the lane's name."""


class LedgerAnalyzer:
    """Analyzes a recording record by record; a remark applies to the calls behind it."""

    __slots__ = ("_detector", "_index", "_remarks")

    def __init__(self) -> None:
        self._detector, self._remarks, self._index = MissDetector(), _Remarks(), 0

    def feed(self, record: Record) -> AnalyzedCall | None:
        """Add the next record; return its analyzed call, or None for a remark."""
        if isinstance(record, Remark):
            self._remarks.feed(record)
            return None
        call = _analyzed_call(self._index, record, self._remarks.miss(self._detector, record), self._remarks)
        self._index += 1
        return call

    def copy(self) -> LedgerAnalyzer:
        """Return an independent copy with the same state."""
        return deepcopy(self, {id(NO_REMARKS): NO_REMARKS})


def analyzed_calls(records: Iterable[Record]) -> Iterator[AnalyzedCall]:
    """Yield an analyzed call for each exchange of `records`, in order."""
    analyzer = LedgerAnalyzer()
    for record in records:
        call = analyzer.feed(record)
        if call is not None:
            yield call


judged = analyzed_calls
"""The earlier name of `analyzed_calls`; an alias until the next minor version."""


class _Remarks:
    """Remarks read so far; one about a single call is dropped once that call was read."""

    __slots__ = ("_by_kind", "agents", "causes", "projects", "sums", "verdicts")

    def __init__(self) -> None:
        self.verdicts: dict[str, str] = {}
        self.projects: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self.sums: dict[str, str] = {}
        self.causes: dict[str, Mapping[Cause, str]] = {}
        self._by_kind = {"verdict": self.verdicts, "project": self.projects, "agent": self.agents, "sum": self.sums}

    def feed(self, remark: Remark) -> None:
        texts, cause = self._by_kind.get(remark.kind), CAUSE_OF_REMARK.get(remark.kind)
        if texts is not None:
            texts[remark.about] = remark.text
        if cause is not None:
            self.causes[remark.about] = {**self.causes.get(remark.about, NO_REMARKS), cause: remark.text}

    def miss(self, detector: MissDetector, exchange: Exchange) -> Miss | None:
        """Return the miss of a call; a row that adds up several calls has none."""
        if self.sums and f"{exchange.session}/{exchange.lane}" in self.sums:
            detector.skip()
            return None
        return detector.feed(exchange, self.causes.pop(exchange.id, NO_REMARKS) if self.causes else NO_REMARKS)


CAUSE_OF_REMARK: dict[str, Cause] = {"compaction": "compaction", "setting": "params_changed"}
"""Kind of a remark → the cause it gives a miss of the call it is about."""


def _analyzed_call(index: int, exchange: Exchange, miss: Miss | None, remarks: _Remarks) -> AnalyzedCall:
    usage = complete_usage(exchange)
    cost, uncached, has_price = _priced(exchange, usage)
    return AnalyzedCall(
        index,
        exchange,
        usage,
        cost,
        uncached,
        has_price,
        miss,
        remarks.verdicts.pop(exchange.id, ""),
        remarks.projects.get(exchange.session, ""),
        remarks.agents.get(f"{exchange.session}/{exchange.lane}", exchange.lane),
    )


def _priced(exchange: Exchange, usage: Usage | None) -> tuple[float | None, float | None, bool]:
    call = exchange.provider, exchange.model, usage or ZERO, exchange.at
    try:
        cost, uncached = prices.cost_usd(*call), prices.cost_uncached_usd(*call)
    except UnknownModel:
        return None, None, False  # the summary names the model
    return (None, None, True) if usage is None or cost is None or uncached is None else (cost, uncached, True)
