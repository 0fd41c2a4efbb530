"""Cache misses of a ledger: the calls that read less than they could, with the cause of each.

`LedgerAnalyzer` takes records one by one and returns an `AnalyzedCall` per call; it stores one call per lane, so a
recording may be larger than memory. `MissDetector` decides by the bills whether a call missed. Only then the prompts
and times of the call and of the one before it are compared, and the first cause with evidence is told (`causes.py`):
changes of the prompt come before time and concurrency. Where the record explains nothing, the cause is `unknown`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache

from contextkit import prices
from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import ZERO, Usage
from contextkit.errors import UnknownModel
from contextkit.facts import load
from contextkit.facts.observed import ReadStep, read_steps
from contextkit.ledger.calls import Bodies, ModelCall, Outline, Record, Remark
from contextkit.ledger.causes import (
    NO_REMARKS,
    Basis,
    CachedPrefix,
    CallFacts,
    CallPair,
    Cause,
    Evidence,
    LaneState,
    call_facts,
    cause_of_miss,
    is_shortfall,
    is_stored_whole,
    recorded,
    starts_too_early,
)
from contextkit.ledger.prompts import Growing, Read, outline, read_body
from contextkit.models import Model, find_model, model_named
from contextkit.prompt.diff import divergence

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

    def keep(self, call: ModelCall) -> None:
        """Store the body of `call`, its lane's last billed call from now on."""
        place = call.session, call.lane
        self._n_bytes -= len(self._stored.pop(place, b""))
        if isinstance(call.prompt, Bodies):
            self._stored[place] = call.prompt.request
            self._n_bytes += len(call.prompt.request)
            while self._n_bytes > MOST_BYTES and len(self._stored) > 1:
                self._n_bytes -= len(self._stored.popitem(last=False)[1])

    def compared(self, pair: CallPair, raw: bytes | None) -> CallPair:
        """Add the facts of both bodies to `pair`, as far as they can be read.

        `raw` is the body of `pair.now`, None where it was not recorded.
        """
        older, newer = self._read(pair.before), _read(pair.now, raw) if raw else None
        if older is None:
            return pair
        if newer is None:  # the lifetime that the call before asked for still counts
            return replace(pair, before=_with_prompt_facts(pair.before, older))
        difference = divergence(older.layout, newer.layout)
        place = f"{difference.path} byte {difference.offset:,}" if difference else ""
        lane = replace(pair.lane, n_unchanged=difference.segment if difference else older.prompt.n, entries=[])
        before, now = _with_prompt_facts(pair.before, older), _with_prompt_facts(pair.now, newer)
        return replace(pair, lane=lane, before=before, now=now, prompt=newer.prompt, place=place, is_whole=True)

    def beside(
        self, now: CallFacts, raw: bytes, siblings: Iterable[CallFacts]
    ) -> tuple[CallFacts, Prompt | None, list[CallFacts]]:
        """A lane's first call, its prompt, and the calls of other lanes that had not begun to answer when it started."""
        late = [call for call in siblings if call.began_at is not None and call.began_at > now.call.at]
        newer = _read(now, raw) if late else None
        if newer is None:
            return now, None, late
        return (
            _with_prompt_facts(now, newer),
            newer.prompt,
            [_with_prompt_facts(call, read) for call in late if (read := self._read(call))],
        )

    def _read(self, analyzed: CallFacts) -> Read | None:
        raw = self._stored.get((analyzed.call.session, analyzed.call.lane))
        return _read(analyzed, raw) if raw else None


def _read(analyzed: CallFacts, raw: bytes) -> Read | None:
    return read_body(raw, analyzed.call.provider, analyzed.call.model)


def _with_prompt_facts(analyzed: CallFacts, read: Read) -> CallFacts:
    """Add the facts of its prompt to `call`."""
    remarks = outline(None, read.prompt, [-1] * read.prompt.n, 0)
    return call_facts(replace(analyzed.call, prompt=remarks), analyzed.usage, read.prompt)


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
    basis: Basis = ""
    """What supports the cause."""
    takes_routing_key: bool = False
    """Whether requests to its model carry a `prompt_cache_key`."""


def misses(calls: Iterable[ModelCall]) -> list[Miss]:
    """List the misses of a ledger in order."""
    detector = MissDetector()
    fed = (detector.feed(call) for call in calls)
    return [miss for miss in fed if miss]


class MissDetector:
    """Finds the calls of a recording that missed, fed one by one.

    A miss is a shortfall above `SHARE` and `TOKENS`, or the first write of a lane. Calls whose bill is unknown or
    lacks a counter are skipped. Each call costs time linear in what it added; one call per lane is stored.
    """

    __slots__ = ("_bodies", "_examine", "_growing", "_index", "_lanes", "_roundings", "_rows")

    def __init__(self, examine: Callable[[CallPair, int], None] | None = None) -> None:
        """`examine` is shown each call that has one before it in its lane, whether it missed or not, and how many tokens
        it could have read.
        """
        self._bodies = StoredBodies()
        self._growing = Growing()
        self._lanes: dict[str, dict[str, LaneState]] = {}
        self._roundings: dict[tuple[str, str], _Rounding] = {}
        self._rows: dict[tuple[str, str], Model] = {}
        """(provider, model) → its row, looked up once."""
        self._index = -1
        self._examine = examine

    def skip(self) -> None:
        """Count a row that is not a single call: it cannot miss and leaves nothing in the cache."""
        self._index += 1

    def feed(self, call: ModelCall, remarks: Mapping[str, str] = NO_REMARKS) -> Miss | None:
        """Add the next call and return its miss, if it is one; `remarks` are about the call, text by kind, of an event
        by its name.
        """
        self._index += 1
        lanes = self._lanes.setdefault(call.session, {})
        lane = lanes.setdefault(call.lane, LaneState())
        prompt = self._growing.prompt(call)
        _update_outline(lane, call)
        if remarks:
            lane.remarks = {**lane.remarks, **remarks}
        usage = complete_usage(call)
        if usage is None:
            lane.unbilled += 1
            return None
        siblings = [] if lane.before else [sibling.before for sibling in lanes.values() if sibling.before]
        if isinstance(call.prompt, Bodies):
            now, miss = self._feed_body(lane, call, call.prompt.request, usage, siblings)
        else:
            now = call_facts(call, usage, prompt)
            miss = self._find_miss(
                lane,
                now,
                prompt,
                siblings,
                (lambda pair: self._bodies.compared(pair, None)) if call.prompt is None else (lambda pair: pair),
            )
        if self._bodies or isinstance(call.prompt, Bodies):
            self._bodies.keep(call)
        self._advance(lane, now, is_miss=miss is not None)
        return replace(miss, index=self._index) if miss else None

    def _feed_body(
        self, lane: LaneState, call: ModelCall, raw: bytes, usage: Usage, siblings: list[CallFacts]
    ) -> tuple[CallFacts, Miss | None]:
        """Add a call whose body was recorded; the body is parsed only where a cause is needed."""
        now = call_facts(replace(call, prompt=None), usage, None)
        if siblings and not usage.read:
            return now, self._find_miss(lane, *self._bodies.beside(now, raw, siblings))
        return now, self._find_miss(lane, now, None, siblings, lambda pair: self._bodies.compared(pair, raw))

    def _find_miss(
        self,
        lane: LaneState,
        now: CallFacts,
        prompt: Prompt | None,
        siblings: Sequence[CallFacts],
        with_bodies: Callable[[CallPair], CallPair] = lambda pair: pair,
    ) -> Miss | None:
        """Return the miss of a call, if it is one; `with_bodies` adds the facts of recorded bodies to a pair."""
        row = self._row_of(now.call)
        if lane.before is None or not lane.high_tokens:
            return _first_call(now, prompt, siblings, row)
        expected = min(lane.high_tokens, now.prompt_tokens)
        is_miss = is_shortfall(expected, now.usage.read or 0)
        if not is_miss and self._examine is None:
            return None
        pair = with_bodies(CallPair(lane, lane.before, now, prompt, row))
        if self._examine is not None:
            self._examine(pair, expected)
        return _miss(now, *cause_of_miss(pair, expected), expected) if is_miss else None

    def _advance(self, lane: LaneState, now: CallFacts, *, is_miss: bool) -> None:
        """Go on to the next call of the lane."""
        read, row = now.usage.read or 0, self._row_of(now.call)
        cached = sum(part or 0 for part in (read, now.usage.write_5m, now.usage.write_1h))
        is_cut, is_first = "compaction" in lane.remarks, lane.before is None
        if is_stored_whole(now, row):
            key = now.call.session, row.name
            rounding = self._roundings.get(key) or self._roundings.setdefault(key, _Rounding(row))
            rounding.observe(read)
            cached = rounding.down(now.prompt_tokens)
        lane.note_cached(cached, is_cut=is_cut)
        starts_again = is_miss or now.prompt_tokens < lane.high_tokens
        lane.high_tokens = cached if starts_again else max(cached, lane.high_tokens)
        lane.is_long = bool(now.usage.write_1h) or (lane.is_long and not is_miss)
        lane.is_ttl_billed = lane.is_ttl_billed or bool(now.usage.written)
        if read and (is_first or is_miss):
            lane.head_tokens = min(read, lane.head_tokens or read)
        if is_first or is_cut or "turn" in lane.remarks or now.prompt_tokens < lane.turn_tokens:
            lane.turn_tokens = now.prompt_tokens
        if is_first or is_cut:
            lane.first_tokens = now.prompt_tokens
        lane.before, lane.n_unchanged, lane.unbilled, lane.remarks = now, now.n, 0, NO_REMARKS

    def _row_of(self, call: ModelCall) -> Model:
        key = call.provider, call.model
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = find_model(call.model) or model_named(call.model, call.provider)
        return row


class _Rounding:
    """How a model's reads are rounded down in a session: as documented, until a read contradicts that; then as measured, if a
    measured step fits; else not at all.
    """

    __slots__ = ("_least", "_steps")

    def __init__(self, row: Model) -> None:
        self._least = row.min_tokens
        documented = [ReadStep(row.granularity_tokens)] if row.granularity_tokens > 1 else []
        self._steps = [*documented, *read_steps(row.name), ReadStep(1)]

    def observe(self, read: int) -> None:
        """A read that was billed."""
        while not self._steps[0].fits(read):
            del self._steps[0]

    def down(self, prompt_tokens: int) -> int:
        """The longest read of a prompt."""
        return self._steps[0].down(prompt_tokens) if prompt_tokens >= self._least else 0


def complete_usage(call: ModelCall) -> Usage | None:
    """Usage of `call` where every part of the prompt is known, else None.

    Unreported writes count as 0 where writing to the cache is free.
    """
    usage = call.usage
    if usage is None or usage.prompt is not None:
        return usage
    if is_free_to_write(call.provider, call.model):
        usage = usage.with_unknown_writes_as_zero()
    return usage if usage.prompt is not None else None


def is_free_to_write(provider: str, model: str) -> bool:
    """True where the model table lists a cache that is free to write.

    A model without a row is looked up in the price list, then judged by the host of its nearest relative.
    """
    row = find_model(model)
    return row.cache in _FREE if row else _is_listed_free(provider, model, load.state())


_FREE = ("implicit", "units")
"""Kinds of cache that are free to write."""
_REPORTING = ("anthropic", "aws")
"""Hosts whose input count excludes written tokens: without a count of writes the prompt size is unknown."""


@lru_cache(maxsize=256)
def _is_listed_free(provider: str, model: str, state: object) -> bool:
    """Return whether the price list bills no writes; `state` is that of the user's prices."""
    try:
        return not prices.bills_writes(provider, model)
    except UnknownModel:
        return not {provider, model_named(model, provider).provider} & set(_REPORTING)


def _update_outline(lane: LaneState, call: ModelCall) -> None:
    if isinstance(call.prompt, Outline):
        lane.n_unchanged = min(lane.n_unchanged, call.prompt.keep)
        lane.entries[call.prompt.keep :] = call.prompt.entries


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
        return _miss(now, "below_minimum", recorded(text, is_recorded=not row.is_assumed), 0)
    if not _leaves_any(now, row):
        return None
    return _miss(now, "first_write", Evidence(f"nothing was cached in lane {now.call.lane!r} before"), 0)


def _leaves_any(call: CallFacts, row: Model) -> bool:
    """True where a call that read nothing left something to read."""
    if row.cache == "implicit":
        return call.prompt_tokens >= max(row.min_tokens, row.granularity_tokens)
    return bool(_written(call))


def _concurrent_write(now: CallFacts, prompt: Prompt | None, siblings: Sequence[CallFacts]) -> Miss | None:
    """Find the longest shared prefix that a sibling lane was still writing when this call started."""
    shared = [
        (mark.n_tokens, call)
        for call in siblings
        for mark in call.cached
        if _is_shared(mark, call, prompt) and _overlap(call, now) and starts_too_early(call, now)
    ]
    expected, call = max(shared, key=lambda pair: pair[0], default=(0, now))
    evidence = starts_too_early(call, now) if is_shortfall(min(expected, now.prompt_tokens), 0) else None
    return _miss(now, "cold_fan_out", evidence, min(expected, now.prompt_tokens)) if evidence else None


def _is_shared(mark: CachedPrefix, call: CallFacts, prompt: Prompt | None) -> bool:
    if prompt is None or prompt.n <= mark.segment or prompt.namespaces != call.namespaces:
        return False
    return prompt.digests[mark.segment] == mark.digest


def _overlap(analyzed: CallFacts, now: CallFacts) -> bool:
    """True where `call` started before `now` began to answer; the ledger may list them in the order they ended."""
    return now.began_at is None or analyzed.call.at < now.began_at


def _written(call: CallFacts) -> int:
    return call.usage.written or 0


def _miss(now: CallFacts, cause: Cause, evidence: Evidence, expected: int) -> Miss:
    call, read = now.call, now.usage.read or 0
    lost = max(0, expected - read)
    return Miss(
        call.id,
        -1,
        call.lane,
        call.at,
        cause,
        expected,
        read,
        lost,
        _extra_usd(now, lost),
        evidence.text,
        evidence.basis == "recorded",
        evidence.basis,
        model_named(call.model, call.provider).takes_routing_key,
    )


def _extra_usd(analyzed: CallFacts, lost: int) -> float | None:
    """Cost of the call minus its cost had the lost tokens been read."""
    paid = replace(analyzed.usage, output=0)
    billed, if_read = list_cost_usd(analyzed.call, paid), list_cost_usd(analyzed.call, _usage_if_read(paid, lost))
    return None if billed is None or if_read is None else billed - if_read


def list_cost_usd(call: ModelCall, usage: Usage) -> float | None:
    """What `usage` costs at the list price of the call's day; None where the price, or a counter, is unknown."""
    try:
        return prices.cost_usd(call.provider, call.model, usage, call.at)
    except UnknownModel:
        return None  # the report names the model


def predicted_usage(pair: CallPair, read_tokens: int) -> Usage:
    """The bill of a call, had it read so many tokens: what it would not have read it would have written for as long as its
    lane does, or sent afresh where writing is free.
    """
    usage = pair.now.usage
    more = read_tokens - (usage.read or 0)
    if more >= 0:
        return replace(_usage_if_read(usage, more), output=usage.output)
    rest = replace(usage, read=read_tokens)
    if pair.row is None or pair.row.cache in _FREE:
        return replace(rest, fresh=(usage.fresh or 0) - more)
    short, long, is_long = usage.write_5m or 0, usage.write_1h or 0, pair.lane.is_long
    return rest.with_written(short if is_long else short - more, long - more if is_long else long)


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
    call: ModelCall
    """The ledger row."""
    usage: Usage | None
    """Bill; None where a part of the prompt is unknown."""
    cost_usd: float | None
    """Dollars that the provider, a gateway or the recording program says it cost; where none says so, `list_cost_usd`, or
    the list price that an anonymized recording states."""
    list_cost_usd: float | None
    """Cost at the list price of its day; None where the bill or the price is unknown."""
    cost_uncached_usd: float | None
    """Cost at list prices without any cache; None where `list_cost_usd` is."""
    hidden_output_usd: float | None
    """List price of the output tokens that a placeholder count leaves out, by the reply's visible text; None where the
    count is no placeholder, and where nothing estimates it."""
    is_list_cost_partial: bool
    """True where the list price is a lower bound: a counter is one, or the row adds up calls that may each have been
    above a price tier, and is priced at the lowest."""
    has_model_price: bool
    """True where the model has a list price."""
    miss: Miss | None
    """Its miss; None where it read what it could."""
    verdict: str
    """The provider's own diagnosis; empty where there is none."""
    project: str
    """Project folder of its session; empty where it is unknown."""
    agent: str
    """Name of its agent: from a remark, else the lane's name."""
    program: str
    """Agent program of its session, such as `Claude Code`; empty where it is unknown."""


class LedgerAnalyzer:
    """Analyzes a recording record by record; a remark applies to the calls behind it."""

    __slots__ = ("_detector", "_index", "_remarks")

    def __init__(self, examine: Callable[[CallPair, int], None] | None = None) -> None:
        """`examine` as of `MissDetector`."""
        self._detector, self._remarks, self._index = MissDetector(examine), _Remarks(), 0

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
    """Yield an analyzed call for each call of `records`, in order."""
    analyzer = LedgerAnalyzer()
    for record in records:
        call = analyzer.feed(record)
        if call is not None:
            yield call


class _Remarks:
    """Remarks read so far; one about a single call is dropped once that call was read."""

    __slots__ = ("_by_kind", "agents", "before_calls", "programs", "projects", "sums", "verdicts")

    def __init__(self) -> None:
        self.verdicts: dict[str, str] = {}
        self.projects: dict[str, str] = {}
        self.programs: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self.sums: dict[str, str] = {}
        self.before_calls: dict[str, Mapping[str, str]] = {}
        self._by_kind = {
            "verdict": self.verdicts,
            "project": self.projects,
            "program": self.programs,
            "agent": self.agents,
            "sum": self.sums,
        }

    def feed(self, remark: Remark) -> None:
        texts = self._by_kind.get(remark.kind)
        if texts is not None:
            texts[remark.about] = remark.text
        if remark.kind in KINDS_BEFORE_CALL:
            self._add(remark.about, remark.kind, remark.text)
        elif remark.kind == "event":
            name, _, text = remark.text.partition(": ")
            self._add(remark.about, name, text)

    def _add(self, about: str, kind: str, text: str) -> None:
        self.before_calls[about] = {**self.before_calls.get(about, NO_REMARKS), kind: text}

    def miss(self, detector: MissDetector, call: ModelCall) -> Miss | None:
        """Return the miss of a call; a row that adds up several calls has none."""
        if self.is_sum(call):
            detector.skip()
            return None
        remarks = self.before_calls.pop(call.id, NO_REMARKS) if self.before_calls else NO_REMARKS
        return detector.feed(call, remarks)

    def is_sum(self, call: ModelCall) -> bool:
        """True where the rows of its lane add up calls."""
        return bool(self.sums) and f"{call.session}/{call.lane}" in self.sums


KINDS_BEFORE_CALL = ("compaction", "setting", "turn", "verdict")
"""Kinds of remarks on why a call may have missed: what happened between it and the one before it in its lane, and the
provider's diagnosis. `event` is one too."""


def _analyzed_call(index: int, call: ModelCall, miss: Miss | None, remarks: _Remarks) -> AnalyzedCall:
    usage = complete_usage(call)
    is_sum = remarks.is_sum(call)
    listed, uncached, has_price = _list_prices(call, usage, is_sum=is_sum)
    return AnalyzedCall(
        index,
        call,
        usage,
        next((usd for usd in (call.billed_usd, listed, call.computed_usd) if usd is not None), None),
        listed,
        uncached,
        _hidden_output_usd(call, usage, listed, is_sum=is_sum),
        usage is not None and listed is not None and _is_lower_bound(call, usage, is_sum=is_sum),
        has_price,
        miss,
        remarks.verdicts.pop(call.id, ""),
        remarks.projects.get(call.session, ""),
        remarks.agents.get(f"{call.session}/{call.lane}", call.lane),
        remarks.programs.get(call.session, ""),
    )


def _list_prices(recorded: ModelCall, usage: Usage | None, *, is_sum: bool) -> tuple[float | None, float | None, bool]:
    """Cost of a call at list prices, with the cache and without it, and whether its model has a list price."""
    call = recorded.provider, recorded.model, usage or ZERO, recorded.at
    try:
        cost, uncached = prices.costs_usd(*call, is_sum=is_sum)
    except UnknownModel:
        return None, None, False  # the summary names the model
    return (None, None, True) if usage is None or cost is None or uncached is None else (cost, uncached, True)


def _is_lower_bound(call: ModelCall, usage: Usage, *, is_sum: bool) -> bool:
    if any(quality == "partial" for _, quality in usage.qualities):
        return True
    tier = prices.first_tier(call.provider, call.model, call.at, usage.service_tier) if is_sum else None
    return tier is not None and (usage.prompt or 0) > tier


def _hidden_output_usd(call: ModelCall, usage: Usage | None, listed: float | None, *, is_sum: bool) -> float | None:
    if call.output_estimate is None or usage is None or listed is None or usage.quality("output") != "partial":
        return None
    writes, tier = usage.writes, usage.service_tier
    whole = Usage(usage.fresh, usage.read, output=call.output_estimate, writes=writes, service_tier=tier)
    cost = prices.cost_usd(call.provider, call.model, whole, call.at, is_sum=is_sum)
    return None if cost is None else cost - listed
