"""Cache misses of a ledger: the calls that read less than they could, with the cause of each.

`LedgerAnalyzer` takes records one by one and returns an `AnalyzedCall` per call. `MissDetector` asks the judge where a
prompt was recorded. Of the other calls, those of transcripts, it decides by the bills of their lane whether one missed;
then it takes the first cause with evidence in the times and remarks (`causes.py`). Where the record explains nothing,
the cause is `unknown`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from contextkit import prices
from contextkit.cache.usage import ZERO, Usage
from contextkit.errors import UnknownModel, UnreadableRequest
from contextkit.facts import load
from contextkit.ledger.calls import ModelCall, Record, Remark
from contextkit.ledger.causes import (
    NO_REMARKS,
    CallFacts,
    CallPair,
    Evidence,
    LaneState,
    Messages,
    RecordedMessages,
    by_bills,
    call_facts,
    cause_of_miss,
    is_stored_whole,
    predicted_read,
    recorded,
)
from contextkit.ledger.cold import as_read
from contextkit.ledger.judge import Judge, Rounding, Sent
from contextkit.ledger.verdict import (
    NOTHING_TO_READ,
    Basis,
    Cause,
    Gap,
    Verdict,
    Whose,
    gap_costs_usd,
    is_shortfall,
    loss_usd,
)
from contextkit.models import Model, find_model, model_named
from contextkit.prompt.prompt import LEVELS

if TYPE_CHECKING:
    from contextkit.ledger.parsed_call import ParsedCall


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a call was expected to read before its bill was looked at."""

    now: CallFacts
    """The call."""
    pair: CallPair | None
    """The call and the one before it in its lane; None for the first of a lane, that shares a prefix with other lanes."""
    trivial_tokens: int
    """What it would read if all that was sent before were read."""
    expected_tokens: int
    """What the calls before it had left in the cache, by their bills; by the judge for the first of a lane."""
    read_tokens: int
    """What it was predicted to read."""
    cause: Cause | None
    """Why that is less than what they had left; None where it is not."""
    is_silent: bool = False
    """True where nothing has shown so far that the host reports reads: what the call read is unknown."""


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
    whose: Whose
    """Whose doing it is."""
    expected_tokens: int
    """Tokens that the calls before it had left in the cache, at most its own prompt."""
    read_tokens: int
    """Tokens it read."""
    lost_tokens: int
    """The difference, paid as a write or as plain input; 0 where nobody could have read it: for a first call, a rewrite of
    the history, a start after the longest lifetime."""
    cost_usd: float | None
    """Price of the difference above that of reading it; None where no price is known."""
    where: str
    """Evidence: the changed block, the gap and the lifetime, …"""
    certain: bool
    """True where the evidence was recorded; False where something, such as a lifetime, was assumed."""
    basis: Basis = ""
    """What supports the cause."""

    @property
    def is_loss(self) -> bool:
        """Return whether tokens were lost that need not have been: a declared rewrite of the history, a start after the
        longest lifetime, and a first write have their price and lose nothing.
        """
        return self.lost_tokens > 0


def misses(calls: Iterable[ModelCall]) -> list[Miss]:
    """List the misses of a ledger in order."""
    detector = MissDetector()
    fed = (detector.feed(call) for call in calls)
    return [miss for miss in fed if miss]


class MissDetector:
    """Finds the calls of a recording that missed, fed one by one.

    Calls whose prompt was recorded are judged by it (`judge.py`); the others by the bills of their lane, the times and
    what is remarked of them. Each call costs time linear in what it added.
    """

    __slots__ = (
        *("_examine", "_index", "_judge", "_lanes", "_messages", "_roundings", "_rows"),
        *("is_priced", "is_silent", "sent", "usage", "verdict"),
    )

    def __init__(self, examine: Callable[[Prediction], None] | None = None, *, is_priced: bool = True) -> None:
        """`examine` is shown the prediction of each call that has one before it in its lane, whether it missed or not.

        Without `is_priced` every cost is None, and no price list is read: reading it takes longer than judging a session.
        """
        self._judge, self._messages = Judge(), RecordedMessages()
        self.is_priced = is_priced
        self._lanes: dict[tuple[str, str], LaneState] = {}
        self._roundings: dict[tuple[str, str], Rounding] = {}
        self._rows: dict[tuple[str, str], Model] = {}
        """(provider, model) → its row, looked up once."""
        self._index = -1
        self._examine = examine
        self.usage: Usage | None = None
        """Bill of the last call; None where a part of its prompt is unknown."""
        self.verdict: Verdict | None = None
        """The verdict on the last call; None where its prompt was not recorded."""
        self.sent: Sent | None = None
        """The last call with its prompt, as the judge read it; None where that was not recorded."""
        self.is_silent = False
        """True where the last call had something to read, and nothing has shown so far that its host reports reads: it
        is neither a miss nor none."""

    def skip(self) -> None:
        """Count a row that is not a single call: it cannot miss and leaves nothing in the cache."""
        self._index += 1
        self.usage = self.verdict = self.sent = None
        self.is_silent = False

    def feed(self, call: ModelCall, remarks: Mapping[str, str] = NO_REMARKS) -> Miss | None:
        """Add the next call and return its miss, if it is one; `remarks` are about the call, text by kind, of an event
        by its name. `verdict` is then the one on this call.
        """
        verdict = self.judge(call, remarks)
        return None if verdict is None else _miss(verdict, call, self._index, is_priced=self.is_priced)

    def judge(self, call: ModelCall, remarks: Mapping[str, str] = NO_REMARKS) -> Verdict | None:
        """Add the next call and return the verdict on it, as `feed`; without the prices that a miss has."""
        self._index += 1
        self.is_silent = False
        key = call.session, call.lane
        lane = self._lanes.get(key) or self._lanes.setdefault(key, LaneState())
        if remarks:
            lane.remarks = {**lane.remarks, **remarks}
        row = self._row_of(call)
        usage = self.usage = complete_usage(call)
        judged = self._judge.feed(call, row, usage, lane.remarks)
        self.sent = self._judge.sent
        self.verdict, messages = judged, self._messages.feed(call, is_billed=usage is not None)
        if usage is None:
            lane.unbilled += 1
        else:
            now = call_facts(call, usage)
            verdict, is_shorter = self._by_bills(lane, now, row, judged, messages)
            self.verdict = judged or verdict
            self._advance(lane, now, row, is_miss=is_shorter)
        return self.verdict

    def forecast(self, call: ModelCall) -> Verdict | None:
        """Judge a call that is about to be sent, as if the cache kept its rules; nothing is kept of it."""
        return self._judge.forecast(call, self._row_of(call))

    def _by_bills(
        self, lane: LaneState, now: CallFacts, row: Model, judged: Verdict | None, messages: Messages | None
    ) -> tuple[Verdict, bool]:
        """Judge a call by the bills, and say whether it read less than they promised; `judged` is the verdict by its prompt."""
        read = now.usage.read or 0
        if lane.before is None or not lane.high_tokens:
            shared = judged.shared or 0 if judged and judged.earlier_id and lane.before is None else 0
            self.is_silent = bool(shared) and self._judge.is_silent(now.call)
            if self._examine is not None and judged is not None and shared:
                predicted = judged.predicted_read or 0
                why = judged.main.cause if is_shortfall(shared, predicted) and judged.main else None
                self._examine(Prediction(now, None, shared, shared, predicted, why, self.is_silent))
            return by_bills(now, 0, None if judged else _first_call(now, row)), False
        expected = min(lane.high_tokens, now.prompt_tokens)
        self.is_silent = self._judge.is_silent(now.call)
        is_shorter = is_shortfall(expected, read) and not self.is_silent
        if not is_shorter and self._examine is None:
            return by_bills(now, 0, None), False
        pair = CallPair(lane, lane.before, now, row, messages)
        if self._examine is not None:
            trivial = min(lane.before.prompt_tokens, now.prompt_tokens)
            self._examine(Prediction(now, pair, trivial, expected, *_predicted(pair, expected, judged), self.is_silent))
        cause = cause_of_miss(pair, expected) if is_shorter and judged is None else None
        return by_bills(now, max(0, expected - read), cause), is_shorter

    def _advance(self, lane: LaneState, now: CallFacts, row: Model, *, is_miss: bool) -> None:
        """Go on to the next call of the lane."""
        read, long, written = now.usage.read or 0, now.usage.write_1h, now.usage.written
        cached = read + ((now.usage.write_5m or 0) + (long or 0) if written is None else written)
        is_cut, is_first = "compaction" in lane.remarks, lane.before is None
        if is_stored_whole(now, row):
            key = now.call.session, row.name
            rounding = self._roundings.get(key) or self._roundings.setdefault(key, Rounding(row))
            rounding.observe(read)
            cached = rounding.down(now.prompt_tokens)
        lane.note_cached(cached, is_cut=is_cut)
        starts_again = is_miss or now.prompt_tokens < lane.high_tokens
        lane.high_tokens = cached if starts_again else max(cached, lane.high_tokens)
        lane.is_long = bool(long) or (lane.is_long and not is_miss)
        lane.is_ttl_billed = lane.is_ttl_billed or bool(written)
        if read and (is_first or is_miss):
            lane.head_tokens = min(read, lane.head_tokens or read)
        if is_first or is_cut or "turn" in lane.remarks or now.prompt_tokens < lane.turn_tokens:
            lane.turn_tokens = now.prompt_tokens
        if is_first or is_cut:
            lane.first_tokens = now.prompt_tokens
        lane.before, lane.unbilled, lane.remarks = now, 0, NO_REMARKS

    def _row_of(self, call: ModelCall) -> Model:
        key = call.provider, call.model
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = row_of_call(call)
        return row


LONGEST_LIFETIME_SECONDS = 86_400
"""The longest lifetime that a provider of the model table documents."""


def row_of_call(call: ModelCall) -> Model:
    """Rules by which a call is judged: those of its model, assumed after its nearest relative where the table has none.

    The lifetimes that a planner assumes are cautious: the shortest that may be. Where none is documented, a pause proves
    a miss no sooner than after the longest lifetime of all.
    """
    row = find_model(call.model) or model_named(call.model, call.provider)
    if row.is_lifetime_documented:
        return row
    return replace(row, ttls_seconds=(LONGEST_LIFETIME_SECONDS,), default_ttl_seconds=LONGEST_LIFETIME_SECONDS)


def _predicted(pair: CallPair, expected: int, verdict: Verdict | None) -> tuple[int, Cause | None]:
    """Return what a call was expected to read, and why that is less than the calls before it had left."""
    if verdict is None or verdict.predicted_read is None:
        return predicted_read(pair, expected)
    is_less = is_shortfall(expected, verdict.predicted_read)
    return verdict.predicted_read, verdict.main.cause if is_less and verdict.main else None


def _miss(verdict: Verdict, call: ModelCall, index: int, *, is_priced: bool) -> Miss | None:
    """Return the miss that a verdict shows; None where nothing was missed, or no bill says what was read."""
    main = verdict.main
    if main is None or verdict.read is None or not (verdict.is_miss or main.cause in NOTHING_TO_READ or main.is_costly):
        return None
    lost, usage = main.tokens if main.is_costly else verdict.lost_tokens, complete_usage(call) if is_priced else None
    return Miss(
        exchange_id=call.id,
        index=index,
        lane=call.lane,
        at=call.at,
        cause=main.cause,
        whose=main.whose,
        expected_tokens=verdict.read + lost,
        read_tokens=verdict.read,
        lost_tokens=lost if main.is_avoidable else 0,
        cost_usd=None if usage is None else loss_usd(usage, lost, partial(list_cost_usd, call)),
        where=_where(main),
        certain=main.basis == "recorded",
        basis=main.basis,
    )


def _where(gap: Gap) -> str:
    """Return the evidence of a gap, behind its place where a block changed."""
    has_block = gap.whose == "program_bytes" and gap.place not in LEVELS
    return ": ".join(filter(None, (gap.place if has_block else "", gap.evidence)))


def complete_usage(call: ModelCall) -> Usage | None:
    """Usage of `call` where every part of the prompt is known, else None.

    Unreported writes count as 0 where writing to the cache is free. Where it is not, and the input count of the host
    includes them, the size of the prompt is known, and its price is a lower bound.
    """
    usage = call.usage
    if usage is None or usage.prompt is not None:
        return usage
    if is_free_to_write(call.provider, call.model):
        usage = usage.with_unknown_writes_as_zero()
    elif (
        usage.fresh is not None and usage.read is not None and usage.writes is None and call.provider not in _REPORTING
    ):
        usage = usage.with_unreported_writes()
    return usage if usage.prompt is not None else None


def is_free_to_write(provider: str, model: str) -> bool:
    """Return whether the model table lists a cache that is free to write.

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


def _first_call(now: CallFacts, row: Model) -> tuple[Cause, Evidence] | None:
    """Say why a call whose lane has nothing in the cache yet read nothing: a short prompt, or the first write."""
    if now.usage.read:
        return None
    if now.prompt_tokens < row.min_tokens and not now.usage.written:
        least = f"{row.min_tokens:,}" + (f", {row.source.partition(':')[0]}" if row.is_assumed else "")
        text = f"{now.prompt_tokens:,} tokens; the least that is cached is {least}"
        return "below_minimum", recorded(text, is_recorded=not row.is_assumed)
    if not _leaves_any(now, row):
        return None
    return "first_write", Evidence(f"nothing was cached in lane {now.call.lane!r} before")


def _leaves_any(call: CallFacts, row: Model) -> bool:
    """Return whether a call that read nothing left something to read."""
    if row.cache == "implicit":
        return call.prompt_tokens >= max(row.min_tokens, row.granularity_tokens)
    return bool(call.usage.written)


def list_cost_usd(call: ModelCall, usage: Usage) -> float | None:
    """Return what `usage` costs at the list price of the call's day; None where the price, or a counter, is unknown."""
    try:
        return prices.cost_usd(call.provider, call.model, usage, call.at)
    except UnknownModel:
        return None  # the report names the model


def priced_gaps(verdict: Verdict, call: ModelCall) -> list[tuple[Gap, float | None]]:
    """Pair the gaps of a verdict with their cost at list prices, by the bill or, without one, by the bill that is predicted;
    None where the bill or a price is unknown. Those of what was lost add up to the cost of the miss.
    """
    usage = complete_usage(call) if call.usage else verdict.quote
    return list(zip(verdict.gaps, gap_costs_usd(verdict.gaps, usage, partial(list_cost_usd, call)), strict=True))


def predicted_usage(pair: CallPair, read_tokens: int) -> Usage:
    """Compute the bill of a call, had it read so many tokens: what it would not have read it would have written for as long as its
    lane does, or sent afresh where writing is free.
    """
    usage = pair.now.usage
    more = read_tokens - (usage.read or 0)
    if more >= 0:
        return as_read(usage, more)
    rest = replace(usage, read=read_tokens)
    if pair.row is None or pair.row.cache in _FREE:
        return replace(rest, fresh=(usage.fresh or 0) - more)
    short, long, is_long = usage.write_5m or 0, usage.write_1h or 0, pair.lane.is_long
    return rest.with_written(short if is_long else short - more, long - more if is_long else long)


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
    verdict: Verdict | None
    """What the judge says of it; None where neither its prompt nor its bill is known."""
    diagnosis: str
    """The provider's own diagnosis; empty where there is none."""
    project: str
    """Project folder of its session; empty where it is unknown."""
    agent: str
    """Name of its agent: from a remark, else the lane's name."""
    program: str
    """Agent program of its session, such as `Claude Code`; empty where it is unknown."""
    is_silent: bool = False
    """True where it had something to read, and nothing has shown so far that its host reports reads: what it read, and
    whether it missed, is unknown."""
    is_sum: bool = False
    """True where its row adds up several calls."""
    sent: Sent | None = field(default=None, repr=False, compare=False)
    """Its prompt, as the judge read it; None where that was not recorded. Its blocks may be evicted."""
    has_body: bool = False
    """Whether it has a request body that can be parsed; False where nobody asked for its checks."""
    unreadable: UnreadableRequest | None = None
    """Why its body cannot be parsed."""
    checks: tuple[Gap, ...] = ()
    """The checks that its request and its bill fail, whatever came before it."""

    @property
    def hit_rate(self) -> float | None:
        """Tokens read over all input tokens; None where that is unknown."""
        return None if self.usage is None or self.is_silent else self.usage.hit_rate


class LedgerAnalyzer:
    """Analyzes a recording record by record; a remark applies to the calls behind it."""

    __slots__ = ("_before", "_detector", "_index", "_is_checking", "_remarks")

    def __init__(
        self,
        examine: Callable[[Prediction], None] | None = None,
        *,
        is_priced: bool = True,
        is_checking: bool = False,
    ) -> None:
        """`examine` and `is_priced` as of `MissDetector`; with `is_checking` each request is checked by itself, too."""
        self._detector, self._remarks, self._index = MissDetector(examine, is_priced=is_priced), _Remarks(), 0
        self._is_checking = is_checking
        self._before: ParsedCall | None = None

    def feed(self, record: Record) -> AnalyzedCall | None:
        """Add the next record; return its analyzed call, or None for a remark."""
        if isinstance(record, Remark):
            self._remarks.feed(record)
            return None
        miss = self._remarks.miss(self._detector, record)
        call = _analyzed_call(self._index, record, miss, self._detector, self._remarks)
        self._index += 1
        return self._checked(call) if self._is_checking else call

    def _checked(self, analyzed: AnalyzedCall) -> AnalyzedCall:
        from contextkit.ledger.parsed_call import parse_call  # a report on transcripts parses no body
        from contextkit.ledger.request_checks import failed_checks

        try:
            parsed = parse_call(analyzed.call, self._before)
        except UnreadableRequest as error:
            return replace(analyzed, unreadable=error)
        if parsed is None:
            return analyzed
        self._before = parsed
        return replace(analyzed, has_body=True, checks=tuple(failed_checks(parsed)))

    def copy(self) -> LedgerAnalyzer:
        """Return an independent copy with the same state."""
        return deepcopy(self, {id(NO_REMARKS): NO_REMARKS})


def analyzed_calls(records: Iterable[Record], *, is_checking: bool = False) -> Iterator[AnalyzedCall]:
    """Yield an analyzed call for each call of `records`, in order; `is_checking` as of `LedgerAnalyzer`."""
    analyzer = LedgerAnalyzer(is_checking=is_checking)
    calls = (analyzer.feed(record) for record in records)
    return with_later_evidence(call for call in calls if call is not None)


MOST_HELD = 256
"""Calls that are held back for what a later call shows of them."""


def with_later_evidence(calls: Iterable[AnalyzedCall]) -> Iterator[AnalyzedCall]:
    """Yield the calls in order; an unexplained miss is the provider's where the next call of its lane that reads more reads the
    older entry that it did not read.
    """
    later = LaterEvidence()
    for call in calls:
        yield from later.feed(call)
    yield from later.close()


class LaterEvidence:
    """Holds calls back, fed one by one, until a later call could show why they missed; at most `MOST_HELD` of them."""

    __slots__ = ("_held", "_n_gone", "_open", "_unexplained")

    def __init__(self) -> None:
        self._held, self._n_gone = deque[AnalyzedCall](), 0
        self._unexplained: dict[tuple[str, str], list[int]] = {}
        """Session and lane → the numbers of its calls that missed and that nothing explains yet."""
        self._open: set[int] = set()
        """All of those numbers."""

    def feed(self, call: AnalyzedCall) -> Iterator[AnalyzedCall]:
        """Add the next call; yield, in order, those of which nothing more can be learnt."""
        held, is_unexplained = self._held, call.miss is not None and call.miss.whose == "unexplained"
        if self._unexplained or is_unexplained:
            lane = call.call.session, call.call.lane
            still = self._apply_evidence(self._unexplained.pop(lane, ()), call)
            if is_unexplained:
                still.append(self._n_gone + len(held))
                self._open.add(self._n_gone + len(held))
            if still:
                self._unexplained[lane] = still
        held.append(call)
        while held and (self._n_gone not in self._open or len(held) > MOST_HELD):
            self._open.discard(self._n_gone)
            self._n_gone += 1
            yield held.popleft()

    def _apply_evidence(self, numbers: Iterable[int], call: AnalyzedCall) -> list[int]:
        """Apply what the next call of their lane shows to calls that are held; return the numbers of those that it says nothing of."""
        still: list[int] = []
        for number in numbers:
            place = number - self._n_gone
            if place >= 0:
                self._held[place] = _with_evidence(self._held[place], call)
                if _misses_again(self._held[place], call):
                    still.append(number)
                else:
                    self._open.discard(number)
        return still

    def copied(self) -> LaterEvidence:
        """Return another one that holds the same calls and goes on by itself."""
        ahead = LaterEvidence()
        ahead._held, ahead._n_gone, ahead._open = self._held.copy(), self._n_gone, set(self._open)
        ahead._unexplained = {lane: list(numbers) for lane, numbers in self._unexplained.items()}
        return ahead

    def close(self) -> Iterator[AnalyzedCall]:
        """Yield the calls that are left."""
        yield from self._held


def _misses_again(call: AnalyzedCall, after: AnalyzedCall) -> bool:
    """Return whether a later call of the lane reads no more than one with an unexplained miss, so that it shows nothing of it."""
    miss, read = call.miss, after.usage.read if after.usage else None
    return (
        miss is not None and miss.whose == "unexplained" and (read is None or not is_shortfall(read, miss.read_tokens))
    )


def _with_evidence(call: AnalyzedCall, after: AnalyzedCall) -> AnalyzedCall:
    """Add to a call that missed the evidence in what a later call of its lane read.

    Only of a cache that keeps every prompt: where breakpoints are written, a call may have written the older entry anew.
    """
    miss, verdict, read = call.miss, call.verdict, after.usage.read if after.usage else None
    if miss is None or verdict is None or not read or call.usage is None:
        return call
    row = row_of_call(call.call)
    step = 2 * max(row.granularity_tokens, 1)
    is_older = 0 <= miss.expected_tokens - read < step < (call.usage.prompt or 0) - read
    if row.cache == "breakpoints" or not is_older or not is_shortfall(read, miss.read_tokens):
        return call
    text = f"a later call read {read:,} tokens of the older entry: it was there"
    gaps = tuple(
        replace(gap, whose="provider", cause="other_server", evidence=text, basis="documented")
        if gap.whose == "unexplained"
        else gap
        for gap in verdict.gaps
    )
    named = replace(miss, cause="other_server", whose="provider", where=text, certain=False, basis="documented")
    return replace(call, miss=named, verdict=replace(verdict, gaps=gaps))


class _Remarks:
    """Remarks read so far; one about a single call is dropped once that call was read."""

    __slots__ = ("_by_kind", "agents", "before_calls", "diagnoses", "programs", "projects", "sums")

    def __init__(self) -> None:
        self.diagnoses: dict[str, str] = {}
        self.projects: dict[str, str] = {}
        self.programs: dict[str, str] = {}
        self.agents: dict[str, str] = {}
        self.sums: dict[str, str] = {}
        self.before_calls: dict[str, Mapping[str, str]] = {}
        self._by_kind = {
            "verdict": self.diagnoses,
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
        """Return whether the rows of its lane add up calls."""
        return bool(self.sums) and f"{call.session}/{call.lane}" in self.sums


KINDS_BEFORE_CALL = ("compaction", "setting", "turn", "verdict")
"""Kinds of remarks on why a call may have missed: what happened between it and the one before it in its lane, and the
provider's diagnosis. `event` is one too."""


def _analyzed_call(
    index: int, call: ModelCall, miss: Miss | None, detector: MissDetector, remarks: _Remarks
) -> AnalyzedCall:
    is_sum = remarks.is_sum(call)
    usage = complete_usage(call) if is_sum else detector.usage
    has_placeholder = usage is not None and bool(usage.qualities) and usage.quality("output") == "partial"
    estimate = call.output_estimate if has_placeholder else None
    has_price, costs = True, None
    if detector.is_priced:
        try:
            costs = prices.costs_usd(
                call.provider, call.model, usage or ZERO, call.at, is_sum=is_sum, output_estimate=estimate
            )
        except UnknownModel:
            has_price = False  # the summary names the model
    listed, uncached, at_estimate = costs if costs is not None and usage is not None else (None, None, None)
    return AnalyzedCall(
        index,
        call,
        usage,
        next((usd for usd in (call.billed_usd, listed, call.computed_usd) if usd is not None), None),
        listed,
        uncached,
        None if at_estimate is None or listed is None else at_estimate - listed,
        usage is not None and listed is not None and _is_lower_bound(call, usage, is_sum=is_sum),
        has_price,
        miss,
        detector.verdict,
        remarks.diagnoses.pop(call.id, ""),
        remarks.projects.get(call.session, ""),
        remarks.agents.get(f"{call.session}/{call.lane}", call.lane) if remarks.agents else call.lane,
        remarks.programs.get(call.session, ""),
        detector.is_silent,
        is_sum,
        detector.sent,
    )


def _is_lower_bound(call: ModelCall, usage: Usage, *, is_sum: bool) -> bool:
    if usage.qualities and any(quality == "partial" for _, quality in usage.qualities):
        return True
    tier = prices.first_tier(call.provider, call.model, call.at, usage.service_tier) if is_sum else None
    return tier is not None and (usage.prompt or 0) > tier
