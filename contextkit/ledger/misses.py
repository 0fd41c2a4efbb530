"""The table of causes: what can be seen in two neighbouring calls that explains why the second read less.

Takes what is known of a call, of the one before it and of their lane; gives evidence or None, one function a cause. The
order of `CAUSES` is the order they are asked in: what changed the prompt comes before what time or timing did.

Two recorded bodies side by side, only where a call missed: what exactly is not what it was.

Takes the calls of a recording as they come, keeps the body of each lane's last billed call, within a bound; gives a
`Pair` whose calls know their segments and marks, and the place of the first difference. A call that read what it could
costs nothing here.

Why each cache miss happened: the first cause in one ordered table that the record bears out.

Takes exchanges, gives a `Miss` for every call that read clearly less than the calls before it had left in the cache,
and for every call that had nothing to read yet. Bills decide whether there is a miss; prompts and times only name its
cause. Where nothing that was recorded explains it, the cause is `unknown`. Knows nothing of reports.

A recording judged call by call: each with its bill, its two prices, its miss, and what was said of it.

Takes records as they come, gives one `Judged` an exchange; keeps one call a lane and what the remarks said, so a
recording may be larger than memory. Whoever adds up, draws or lists reads this.
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
"""Assumed where neither the prompt nor the model table says; the second for lanes that were billed long writes
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

NOTHING_SAID: Mapping[Cause, str] = MappingProxyType({})
"""Where nobody remarked anything."""

Evidence = tuple[str, bool]
"""Where, and whether it was recorded rather than assumed."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of a prefix that a call may have left in the cache."""

    segment: int
    """Index of its last segment."""
    digest: bytes
    """Running digest there."""
    position: int
    """Lookback position there."""
    n_tokens: int
    """Its size."""
    ttl_seconds: int | None
    """Lifetime; None where the prompt names no breakpoints, and the end of the prompt stands in for one."""


@dataclass(frozen=True, slots=True)
class Call:
    """What must be kept of a call to judge the next one; prompts are borrowed, so their facts are copied."""

    exchange: Exchange
    """The row."""
    usage: Usage
    """Its bill, every part of the prompt known."""
    prompt_tokens: int
    """Size of the prompt, as billed."""
    outline: Outline | None
    """Its prompt, as a difference; None where it was not recorded."""
    namespaces: tuple[bytes, ...]
    """Of the prompt; empty where it was not recorded."""
    n: int
    """Its segments."""
    marks: tuple[Mark, ...]
    """What it may have left readable, in rising order."""

    @property
    def began_at(self) -> float | None:
        """When its writes became readable, the end standing in for an unknown beginning."""
        return self.exchange.ended_at if self.exchange.first_byte_at is None else self.exchange.first_byte_at


@dataclass(slots=True)
class Lane:
    """What one lane has shown so far."""

    before: Call | None = None
    """The last call with a bill."""
    high_tokens: int = 0
    """High-water mark of what is in the cache; starts again after a miss or a shorter prompt."""
    kept: int = 0
    """Leading segments unchanged since `before`."""
    unbilled: int = 0
    """Calls without a bill since `before`: they may have kept the cache warm, or not."""
    is_long: bool = False
    """Whether long writes were billed."""
    entries: list[int] = field(default_factory=list)
    """Log sequence of each segment."""
    said: Mapping[Cause, str] = field(default_factory=lambda: NOTHING_SAID)
    """Causes that were remarked since `before`, with the words."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A call beside the one before it."""

    lane: Lane
    """Where both stand."""
    before: Call
    """The last call with a bill."""
    now: Call
    """The call that is judged."""
    prompt: Prompt | None
    """What `now` sent."""
    row: Model | None
    """The model table on `now`."""
    place: str = ""
    """Where the two bodies first differ, where they were recorded: `messages[4] byte 812`."""
    is_whole: bool = False
    """Whether bodies were compared, which hold all that was sent."""


def call_of(exchange: Exchange, usage: Usage, prompt: Prompt | None) -> Call:
    """The facts of one call, copied out of its borrowed prompt."""
    outline = exchange.prompt if isinstance(exchange.prompt, Outline) else None
    size = usage.prompt or 0
    if prompt is None or not prompt.n:
        return Call(exchange, usage, size, outline, (), 0, ())
    return Call(exchange, usage, size, outline, prompt.namespaces, prompt.n, _marks(prompt))


def _marks(prompt: Prompt) -> tuple[Mark, ...]:
    ends: list[tuple[int, int | None]] = [
        (mark.segment, mark.ttl_seconds) for mark in prompt.breakpoints if mark.is_written
    ]
    ends = ends or [(prompt.n - 1, None)]
    return tuple(Mark(i, prompt.digests[i], prompt.positions[i], prompt.ends_tokens[i], ttl) for i, ttl in ends)


def _model_changed(pair: Pair) -> Evidence | None:
    was, now = pair.before.exchange, pair.now.exchange
    is_same = (was.provider, was.model) == (now.provider, now.model)
    return None if is_same else (f"{was.provider}/{was.model} → {now.provider}/{now.model}", True)


def _compaction(pair: Pair) -> Evidence | None:
    was, now = pair.before.outline, pair.now.outline
    said = pair.lane.said.get("compaction")
    sizes = f"prompt {pair.before.prompt_tokens:,} → {pair.now.prompt_tokens:,} tokens"
    if was is None or now is None or was.epoch == now.epoch:
        return (f"{said}, {sizes}", True) if said else None
    return f"epoch {was.epoch} → {now.epoch}, {sizes}", True


def _params_changed(pair: Pair) -> Evidence | None:
    levels = zip(LEVELS, pair.before.namespaces, pair.now.namespaces, strict=False)
    level = next((level for level, was, now in levels if was != now), None)
    if level:
        return f"{level}: a request setting outside the prompt's text", True
    said = pair.lane.said.get("params_changed")
    return (said, True) if said else None


def _text_changed(level: int) -> Callable[[Pair], Evidence | None]:
    def ask(pair: Pair) -> Evidence | None:
        segment = first_change(pair)
        if segment is None or _level(pair, segment) != level:
            return None
        if pair.place:
            return pair.place, True
        entry = pair.lane.entries[segment] if segment < len(pair.lane.entries) else -1
        place = f"{LEVELS[level]} segment {segment}"
        return (f"{place}, entry {entry}" if entry >= 0 else place), True

    return ask


def first_change(pair: Pair) -> int | None:
    """Index of the first segment that is not what it was, None where all that was cached is still there.

    A change behind the last breakpoint was never in the cache, and is none here.
    """
    prompt = pair.prompt
    if prompt is None or not pair.before.marks:
        return None
    last = pair.before.marks[-1]
    if prompt.n > last.segment and prompt.digests[last.segment] == last.digest:
        return None
    return pair.lane.kept


def _level(pair: Pair, segment: int) -> int:
    """The level it stands on in either prompt, the earlier one where they differ: a tool put behind the tools moves all
    the rest.
    """
    ends = [(call.outline.level_ends, call.n) for call in (pair.before, pair.now) if call.outline]
    return min((segment >= tools) + (segment >= system) for (tools, system), n in ends if segment < n)


def _ttl(pair: Pair) -> tuple[int, bool]:
    """Lifetime of what the lane left in the cache, and whether it was recorded."""
    recorded = pair.before.marks[-1].ttl_seconds if pair.before.marks else None
    if recorded is not None:
        return recorded, True
    if pair.row:
        return (pair.row.ttls_seconds[-1] if pair.lane.is_long else pair.row.default_ttl_seconds), False
    return (LONG_TTL_SECONDS if pair.lane.is_long else DEFAULT_TTL_SECONDS), False


def _gap(pair: Pair) -> float:
    """From start to start: a lifetime counts from the start of the request that wrote or read."""
    return pair.now.exchange.at - pair.before.exchange.at


def _ttl_expired(pair: Pair) -> Evidence | None:
    gap, (ttl, is_recorded) = _gap(pair), _ttl(pair)
    shown = f"{gap:.1f}" if int(gap) == ttl else f"{int(gap)}"
    return (f"gap {shown} s > {ttl} s", is_recorded and not pair.lane.unbilled) if gap > ttl else None


def not_yet(call: Call, now: Call) -> Evidence | None:
    """Whether `now` started before `call` began to answer, so that it could not read what `call` wrote."""
    if call.began_at is None or now.exchange.at >= call.began_at:
        return None
    early = call.began_at - now.exchange.at
    return (
        f"started {early:.1f} s before the response of {call.exchange.id!r} began",
        call.exchange.first_byte_at is not None,
    )


def _cold_fan_out(pair: Pair) -> Evidence | None:
    return not_yet(pair.before, pair.now)


def _out_of_reach(pair: Pair) -> Evidence | None:
    if pair.prompt is None or not pair.before.marks or pair.before.marks[-1].ttl_seconds is None:
        return None
    last, positions = pair.before.marks[-1], pair.prompt.positions
    behind = [
        (positions[mark.segment] - last.position, mark.lookback)
        for mark in pair.prompt.breakpoints
        if mark.segment >= last.segment
    ]
    if not behind:
        return f"no breakpoint at or behind segment {last.segment}, up to which the call before was cached", True
    if any(distance < lookback for distance, lookback in behind):
        return None
    distance, lookback = min(behind)
    return f"{distance} positions behind the last breakpoint, a lookup visits {lookback}", True


def _aborted(pair: Pair) -> Evidence | None:
    call = pair.before
    has_begun = call.exchange.first_byte_at is not None or bool(call.usage.output)
    return (
        None
        if call.exchange.error is None or has_begun
        else (f"{call.exchange.id!r} ended before its response began", False)
    )


CAUSES: tuple[tuple[Cause, Callable[[Pair], Evidence | None]], ...] = (
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
"""Asked from the top; the first that has evidence is the cause."""


def nothing_visible(pair: Pair) -> str:
    """What can be said of a miss that nothing explains."""
    gap, (ttl, _) = _gap(pair), _ttl(pair)
    if pair.prompt and pair.before.outline:
        intact = (
            "prefix intact"
            if pair.is_whole or pair.prompt.level_ends[1]
            else "messages intact, tools and system not in the record"
        )
        return f"{intact}, gap {int(gap)} s ≤ {ttl} s"
    was, now = pair.before.prompt_tokens, pair.now.prompt_tokens
    shrunk = f", and shrank from {was:,} to {now:,} tokens" if now < was else ""
    return f"the prompt was not recorded{shrunk}; gap {int(gap)} s ≤ {ttl} s"


MOST_BYTES = 64 << 20
"""Bodies kept, all lanes together; of a lane whose body had to go only times and bills are compared."""


class StoredBodies:
    """The body of the last billed call of each lane, the lanes used last at the end."""

    __slots__ = ("_kept", "_n_bytes")

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._n_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, exchange: Exchange) -> None:
        """`exchange` is its lane's last billed call from now on."""
        place = exchange.session, exchange.lane
        self._n_bytes -= len(self._kept.pop(place, b""))
        if isinstance(exchange.prompt, Bodies):
            self._kept[place] = exchange.prompt.request
            self._n_bytes += len(exchange.prompt.request)
            while self._n_bytes > MOST_BYTES and len(self._kept) > 1:
                self._n_bytes -= len(self._kept.popitem(last=False)[1])

    def compared(self, pair: Pair, raw: bytes) -> Pair:
        """`pair` with what both bodies say; as it was where either cannot be read. `raw` is the body of `pair.now`."""
        older, newer = self._read(pair.before), _read(pair.now, raw)
        if older is None or newer is None:
            return pair
        found = divergence(older.layout, newer.layout)
        place = f"{found.path} byte {found.offset:,}" if found else ""
        lane = replace(pair.lane, kept=found.segment if found else older.prompt.n, entries=[])
        before, now = _with_prompt_facts(pair.before, older), _with_prompt_facts(pair.now, newer)
        return replace(pair, lane=lane, before=before, now=now, prompt=newer.prompt, place=place, is_whole=True)

    def beside(self, now: Call, raw: bytes, siblings: Iterable[Call]) -> tuple[Call, Prompt | None, list[Call]]:
        """A lane's first call and those of other lanes that had not begun to answer when it started, each with its
        segments.
        """
        late = [call for call in siblings if call.began_at is not None and call.began_at > now.exchange.at]
        newer = _read(now, raw) if late else None
        if newer is None:
            return now, None, late
        return (
            _with_prompt_facts(now, newer),
            newer.prompt,
            [_with_prompt_facts(call, read) for call in late if (read := self._read(call))],
        )

    def _read(self, call: Call) -> Read | None:
        raw = self._kept.get((call.exchange.session, call.exchange.lane))
        return _read(call, raw) if raw else None


def _read(call: Call, raw: bytes) -> Read | None:
    return read_body(raw, call.exchange.provider, call.exchange.model)


def _with_prompt_facts(call: Call, read: Read) -> Call:
    """`call` with the facts of its prompt."""
    said = outline(None, read.prompt, [-1] * read.prompt.n, 0)
    return call_of(replace(call.exchange, prompt=said), call.usage, read.prompt)


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
        self._bodies = StoredBodies()
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
        usage = usage.with_unknown_writes_as_zero()
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
    return call.usage.written or 0


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
    rest = usage.with_written((usage.write_5m or 0) - short, (usage.write_1h or 0) - long)
    return replace(rest, fresh=(usage.fresh or 0) - plain, read=(usage.read or 0) + lost, output=0)


@dataclass(frozen=True, slots=True)
class Judged:
    """One call."""

    index: int
    """Its place in the recording, from 0."""
    exchange: Exchange
    """As recorded."""
    usage: Usage | None
    """Its bill, None where a part of its prompt is unknown."""
    cost_usd: float | None
    """What it cost at the list price of its day, None where the bill or the price is unknown."""
    cost_uncached_usd: float | None
    """What it would have cost without any cache."""
    has_model_price: bool
    """Whether its model has a price."""
    miss: Miss | None
    """Why it read less than it could have, None where it did not."""
    verdict: str
    """The provider's own diagnosis, empty where it gave none."""
    project: str
    """Where its conversation was held, empty where nobody says."""
    agent: str
    """Who its lane is: a remark's word, else the lane's name."""


class MissDetector:
    """Is shown a recording record by record, and judges each call as it comes; a remark speaks of what comes after it."""

    __slots__ = ("_index", "_judge", "_said")

    def __init__(self) -> None:
        self._judge, self._said, self._index = Judge(), _Remarks(), 0

    def hear(self, record: Record) -> Judged | None:
        """The next record; gives its call, None for a remark."""
        if isinstance(record, Remark):
            self._said.hear(record)
            return None
        call = _judged(self._index, record, self._said.judged(self._judge, record), self._said)
        self._index += 1
        return call

    def copied(self) -> MissDetector:
        """Another one that knows what this one knows, and goes on by itself."""
        return deepcopy(self, {id(NOTHING_SAID): NOTHING_SAID})


def judged(records: Iterable[Record]) -> Iterator[Judged]:
    """Each exchange of `records`, in order, as `Judging` sees it."""
    hear = MissDetector().hear
    return (call for record in records if (call := hear(record)) is not None)


class _Remarks:
    """What the remarks said so far; a word about one call is forgotten once that call came."""

    __slots__ = ("_kept", "agents", "breaks", "projects", "sums", "verdicts")

    def __init__(self) -> None:
        self.verdicts: dict[str, str] = {}
        self.projects: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self.sums: dict[str, str] = {}
        self.breaks: dict[str, Mapping[Cause, str]] = {}
        self._kept = {"verdict": self.verdicts, "project": self.projects, "agent": self.agents, "sum": self.sums}

    def hear(self, remark: Remark) -> None:
        kept, cause = self._kept.get(remark.kind), BREAKS.get(remark.kind)
        if kept is not None:
            kept[remark.about] = remark.text
        if cause is not None:
            self.breaks[remark.about] = {**self.breaks.get(remark.about, NOTHING_SAID), cause: remark.text}

    def judged(self, judge: Judge, exchange: Exchange) -> Miss | None:
        """The miss of a call; a row that adds up several calls has none."""
        if self.sums and f"{exchange.session}/{exchange.lane}" in self.sums:
            judge.pass_over()
            return None
        return judge.see(exchange, self.breaks.pop(exchange.id, NOTHING_SAID) if self.breaks else NOTHING_SAID)


BREAKS: dict[str, Cause] = {"compaction": "compaction", "setting": "params_changed"}
"""Kind of a remark → the cause it is of, should its call have missed."""


def _judged(index: int, exchange: Exchange, miss: Miss | None, said: _Remarks) -> Judged:
    usage = measured(exchange)
    cost, uncached, has_price = _priced(exchange, usage)
    return Judged(
        index,
        exchange,
        usage,
        cost,
        uncached,
        has_price,
        miss,
        said.verdicts.pop(exchange.id, ""),
        said.projects.get(exchange.session, ""),
        said.agents.get(f"{exchange.session}/{exchange.lane}", exchange.lane),
    )


def _priced(exchange: Exchange, usage: Usage | None) -> tuple[float | None, float | None, bool]:
    asked = exchange.provider, exchange.model, usage or ZERO, exchange.at
    try:
        cost, uncached = prices.cost_usd(*asked), prices.cost_uncached_usd(*asked)
    except UnknownModel:
        return None, None, False  # the summary names the model
    return (None, None, True) if usage is None or cost is None or uncached is None else (cost, uncached, True)
