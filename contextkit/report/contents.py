"""Collects what every format of a report shows: sums, misses with their agents and provider verdicts, completeness.

Takes judged calls one by one, gives `Contents`; the figures are pure functions over a `Summary`. Knows nothing of
terminals, pages or files.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from operator import itemgetter

from contextkit.cache.usage import Usage, ttl_name
from contextkit.ledger.calls import Record, Remark
from contextkit.ledger.figures import Count, Dollars, dollars
from contextkit.ledger.misses import AnalyzedCall, Miss
from contextkit.ledger.summary import (
    MOST_MISSES,
    PlaceholderOutput,
    RecordedCost,
    Row,
    RowSums,
    Summary,
    Tally,
)
from contextkit.redact import redact_text
from contextkit.whatif.actions import OPERATOR, reader_of
from contextkit.whatif.what_if import WhatIf

RAMP = "▁▂▃▄▅▆▇█"
"""From 0 to 1."""
ASCII_RAMP = "_.:-=+*#"
"""The same where blocks cannot be shown."""
UNKNOWN = "·"
"""Stands for a value nobody knows; a dot, as a blank would look like zero."""
ASCII_UNKNOWN = "?"
"""The same where the dot cannot be shown."""


@dataclass(frozen=True, slots=True)
class Loss:
    """All misses of one cause."""

    cause: str
    """As in `Miss.cause`."""
    n: int
    """How many."""
    lost_tokens: int
    """What they lost together."""
    cost_usd: float | None
    """What those with a known price cost; None where no price is known."""
    is_lower_bound: bool = False
    """Whether some of them have no known price, so that they cost more than `cost_usd`."""
    program: str = ""
    """Whose misses they are, as `whatif.actions.reader_of` names it, where they are of one reader."""
    kinds: tuple[str, ...] = ()
    """What changed, the dearest first, where that is known."""

    @property
    def cost(self) -> Dollars:
        """Return `cost_usd`, a lower bound if a miss has no price."""
        return Dollars(self.cost_usd, self.is_lower_bound)


@dataclass(frozen=True, slots=True)
class Part:
    """The calls of one project in one agent program."""

    project: str
    """The folder; empty where nobody recorded it."""
    program: str
    """The agent program: `Claude Code`, `Codex`; empty where the recording is of none."""
    row: Row
    """Its sums, named by the project."""
    lost: Loss
    """Its misses together; their `cause` is empty."""

    @property
    def lost_tokens(self) -> Count:
        """Return the tokens that its misses lost."""
        return self.row.lost(self.lost.lost_tokens)

    @property
    def lost_usd(self) -> Dollars:
        """Return what its misses cost."""
        return Dollars(None if self.row.has_unknown_misses else self.lost.cost_usd, self.is_lost_lower_bound)

    @property
    def is_lost_lower_bound(self) -> bool:
        """Return whether its misses may have cost more than `lost` says."""
        return self.lost.is_lower_bound or self.row.is_lost_partial


def buckets(values: Sequence[float | None], width: int) -> list[float | None]:
    """At most `width` means of neighbouring values, unknown ones left out; None for a bucket of unknowns only.

    >>> buckets([1.0, 0.0, None, None, 0.5], 3)
    [1.0, 0.0, 0.5]
    """
    n = min(width, len(values))
    cuts = [i * len(values) // n for i in range(n + 1)] if n > 0 else [0]
    return [_mean(values[start:end]) for start, end in pairwise(cuts)]


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def sparkline(values: Sequence[float | None], width: int, *, is_ascii: bool = False) -> str:
    """Values from 0 to 1 as one line of at most `width` characters.

    >>> sparkline([0.0, None, 0.5, 1.0], 10)
    '▁·▅█'
    """
    ramp, unknown = (ASCII_RAMP, ASCII_UNKNOWN) if is_ascii else (RAMP, UNKNOWN)
    return "".join(unknown if value is None else _step(value, ramp) for value in buckets(values, width))


def _step(value: float, ramp: str) -> str:
    return ramp[min(len(ramp) - 1, max(0, int(value * len(ramp))))]


def shares(usage: Usage) -> list[tuple[str, float]]:
    """What the input was billed as, in parts of 1; empty where a part is unknown or nothing was sent.

    >>> shares(Usage(fresh=1, read=90, writes={300: 9}))
    [('read', 0.9), ('write 5m', 0.09), ('fresh', 0.01)]
    """
    total = usage.prompt
    if not total:
        return []
    writes = [(f"write {ttl_name(ttl)}", tokens) for ttl, tokens in usage.writes or ()]
    parts = [("read", usage.read), *writes, ("fresh", usage.fresh)]
    return [(name, part / total) for name, part in parts if part]


def losses(summary: Summary) -> list[Loss]:
    """Sum up the misses that lost something, by cause, the most tokens first."""
    sums: dict[str, _Losses] = {}
    for miss in summary.losses:
        sums.setdefault(miss.cause, _Losses()).add(miss)
    return sorted((one.loss(cause) for cause, one in sums.items()), key=lambda loss: -loss.lost_tokens)


def dearest_losses(summary: Summary) -> list[Loss]:
    """Return the losses, those that cost most first."""
    return sorted(losses(summary), key=lambda loss: (-(loss.cost_usd or 0.0), -loss.lost_tokens))


def total_loss(misses: Iterable[Miss]) -> Loss:
    """Sum up misses whatever their causes."""
    sums = _Losses()
    for miss in misses:
        sums.add(miss)
    return sums.loss("")


class _Losses:
    """Misses that lost something, added up."""

    __slots__ = ("cost", "kinds", "lost_tokens", "n", "n_priced")

    def __init__(self) -> None:
        self.n = self.n_priced = self.lost_tokens = 0
        self.cost, self.kinds = 0.0, Counter[str]()

    def add(self, miss: Miss, kind: str = "") -> None:
        """Add one; of those that lost nothing the tokens that were not read are counted."""
        tokens = miss.lost_tokens or miss.expected_tokens - miss.read_tokens
        self.n += 1
        self.lost_tokens += tokens
        if kind:
            self.kinds[kind] += tokens
        if miss.cost_usd is not None:
            self.n_priced += 1
            self.cost += miss.cost_usd

    def loss(self, cause: str, program: str = "") -> Loss:
        is_known, is_lower_bound = self.n_priced > 0 or not self.n, 0 < self.n_priced < self.n
        cost_usd = self.cost if is_known else None
        kinds = tuple(kind for kind, _ in self.kinds.most_common())
        return Loss(cause, self.n, self.lost_tokens, cost_usd, is_lower_bound, program, kinds)


Fault = tuple[str, int, str]
"""(file, line or 0, what is wrong with it)."""
MOST_NAMED = 5
"""Models named in a line."""
MOST_TITLE = 60
"""Characters of a session's title that a table shows."""
LATEST = 253_402_300_799.0
"""The end of the year 9999, seconds since 1970: what is later is no time that can be written."""
ID_CHARACTERS = 8
"""Of a session's id that a table shows at least."""
SHORTEST_NAME = 3
"""Characters of a folder's name that names a project alone: `2` of `worktrees/2` says nothing."""
UNKNOWN_PROJECT = "unknown"
"""What stands for the folder of a session where nobody recorded it."""


def billed(summary: Summary) -> str:
    """Say what the sums of a recording are of."""
    n, total = summary.total.recorded.calls, summary.total.calls
    if not n:
        prices = "at list prices"
    elif n == summary.total.calls_with_price:
        prices = "as recorded"
    else:
        prices = f"as recorded for {n:,} of {total:,} calls, at list prices for the others"
    return f"what the provider billed, as recorded; dollars {prices}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which calls a report counts; the others are still read, as what they left in the cache matters to those."""

    since: float | None = None
    """Calls that started at this second or later."""
    until: float | None = None
    """Calls that started before it."""
    session: str = ""
    """Calls of the session of this id, or whose id starts so."""
    is_whole_id: bool = False
    """Whether a session whose id only starts so is another one."""

    def has(self, analyzed: AnalyzedCall) -> bool:
        """Return whether a call counts."""
        at = analyzed.call.at
        if (self.since is not None and at < self.since) or (self.until is not None and at >= self.until):
            return False
        if self.is_whole_id:
            return analyzed.call.session == self.session
        return not self.session or analyzed.call.session.startswith(self.session)


@dataclass(slots=True)
class LeftOut:
    """The calls that were read and not chosen: what a choice that chose nothing could have named."""

    calls: int = 0
    """How many."""
    sessions: list[str] = field(default_factory=list)
    """The first few of their sessions."""
    first_at: float = math.inf
    """When the earliest started, seconds since 1970."""
    last_at: float = -math.inf
    """When the latest started."""

    def add(self, analyzed: AnalyzedCall) -> None:
        """One more."""
        at, session = analyzed.call.at, analyzed.call.session
        self.calls += 1
        self.first_at, self.last_at = min(self.first_at, at), max(self.last_at, at)
        if len(self.sessions) < MOST_NAMED and session not in self.sessions:
            self.sessions.append(session)


@dataclass(frozen=True, slots=True)
class Contents:
    """A report, whatever it is shown on."""

    title: str
    """What was read: a file's name, or how many files."""
    summary: Summary
    """The sums."""
    by: str = ""
    """What `Summary.groups` has a row of each; empty for nothing."""
    verdicts: Mapping[int, str] = field(default_factory=dict)
    """`Miss.index` → the provider's own diagnosis, where it gave one."""
    sessions: Mapping[int, str] = field(default_factory=dict)
    """`Miss.index` → whose call it was."""
    changed: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """`Miss.index` → the changed text as it was and as it is, secrets covered."""
    is_partial: bool = False
    """Whether reading was cut short by Ctrl-C."""
    faults: tuple[Fault, ...] = ()
    """What was wrong with the recordings, the first few of each kind."""
    n_faults: int = 0
    """How many there were in all."""
    left_out: LeftOut = field(default_factory=LeftOut)
    """Calls that were read and not among those chosen."""
    counted: str = ""
    """What the sums are of: bills, or what a cache would have billed; empty where whoever shows it says so."""
    calls_without_writes: Mapping[str, int] = field(default_factory=dict)
    """Model → how many of its calls say what was read and not what was written, where that costs: their bills are
    unknown."""
    calls_without_usage: Mapping[str, int] = field(default_factory=dict)
    """Model → how many of its calls come without any usage: the recording does not say what was billed."""
    parts: tuple[Part, ...] = ()
    """One for each project and agent program, in order of appearance."""
    session_rows: tuple[Row, ...] = ()
    """One row for each session, named by its id, in order of appearance."""
    about: Mapping[str, SessionFacts] = field(default_factory=dict)
    """Session → what is known of it besides its calls."""
    agents: Mapping[str, str] = field(default_factory=dict)
    """`session/lane` → the name of the agent that the lane is, where one was recorded."""
    by_program: tuple[Loss, ...] = ()
    """One for each agent program and cause, cold starts and rewrites too."""
    what_if: WhatIf | None = None
    """What changes would have saved; None where nothing was replayed."""
    first_at: float = math.inf
    """When the first call started, seconds since 1970."""
    last_at: float = -math.inf
    """When the last one did."""
    has_prompts: bool = False
    """Whether the prompt of any call was recorded."""
    n_engines: int = 0
    """How many engines wrote what they served as sums: of these no call is judged."""


@dataclass(slots=True)
class SessionFacts:
    """What a recording says of a session besides its calls."""

    title: str = ""
    """What its program calls it; empty where it has no name."""
    program: str = ""
    """The agent program that held it; empty for none."""
    project: str = ""
    """The folder it was held in; empty where nobody recorded it."""
    started_at: float = math.inf
    """When its first call started, seconds since 1970."""


class Gathering:
    """Adds calls up for a report as they come."""

    __slots__ = (
        "_about",
        "_agents",
        "_also",
        "_by_cause",
        "_by_session",
        "_changed",
        "_chosen",
        "_engines",
        "_first_at",
        "_has_prompts",
        "_last_at",
        "_left_out",
        "_lost",
        "_parts",
        "_sessions",
        "_tally",
        "_verdicts",
        "_without_usage",
        "_without_writes",
        "by",
    )

    def __init__(
        self, by: str = "", chosen: Chosen | None = None, also: Sequence[Callable[[AnalyzedCall], None]] = ()
    ) -> None:
        """`also` is shown each call that counts."""
        self.by = by
        self._tally, self._chosen, self._also = Tally(by), chosen or Chosen(), tuple(also)
        self._verdicts: dict[int, str] = {}
        self._sessions: dict[int, str] = {}
        self._changed: dict[int, tuple[str, str]] = {}
        self._without_writes: Counter[str] = Counter()
        self._without_usage: Counter[str] = Counter()
        self._left_out = LeftOut()
        self._about: dict[str, SessionFacts] = {}
        self._agents: dict[str, str] = {}
        self._by_session: RowSums[str] = RowSums()
        self._parts: RowSums[tuple[str, str]] = RowSums()
        self._lost: dict[tuple[str, str], _Losses] = {}
        self._by_cause: dict[tuple[str, str], _Losses] = {}
        self._first_at, self._last_at, self._has_prompts = math.inf, -math.inf, False
        self._engines: set[tuple[str, str]] = set()

    def add_remark(self, record: Record) -> None:
        """Take note of what a record says of its session; to be called before the call of the record is added."""
        if isinstance(record, Remark):
            if record.kind == "title":
                self._facts(record.about).title = redact_text(" ".join(record.text.split()))
            elif record.kind == "program":
                self._facts(record.about).program = record.text

    def adding_remarks(self, records: Iterable[Record]) -> Iterator[Record]:
        """The same records; each remark among them is added."""
        for record in records:
            self.add_remark(record)
            yield record

    def _facts(self, session: str) -> SessionFacts:
        facts = self._about.get(session)
        if facts is None:
            facts = self._about[session] = SessionFacts()
        return facts

    def add(self, analyzed: AnalyzedCall) -> None:
        """Add the next call, if it is one of those chosen."""
        if not self._chosen.has(analyzed):
            self._left_out.add(analyzed)
            return
        self._tally.add(analyzed)
        self._first_at, self._last_at = min(self._first_at, analyzed.call.at), max(self._last_at, analyzed.call.at)
        self._has_prompts |= analyzed.verdict is not None and analyzed.verdict.shared is not None
        self._add_to_session(analyzed)
        if analyzed.is_sum and reader_of(analyzed) == OPERATOR:
            self._engines.add((analyzed.call.session, analyzed.call.lane))
        if analyzed.miss:
            self._note(analyzed.miss, analyzed)
        if _lacks_writes(analyzed):
            self._without_writes[analyzed.call.model] += 1
        if analyzed.call.usage is None:
            self._without_usage[analyzed.call.model] += 1
        for other in self._also:
            other(analyzed)

    def _add_to_session(self, analyzed: AnalyzedCall) -> None:
        session, facts = analyzed.call.session, self._facts(analyzed.call.session)
        if analyzed.project:
            facts.project = analyzed.project
        if analyzed.call.at < facts.started_at:
            facts.started_at = analyzed.call.at
        if analyzed.agent != analyzed.call.lane:
            self._agents[f"{session}/{analyzed.call.lane}"] = analyzed.agent
        part = facts.project, facts.program
        self._by_session.add(session, analyzed)
        self._parts.add(part, analyzed)
        if analyzed.miss and analyzed.miss.is_loss:
            self._lost.setdefault(part, _Losses()).add(analyzed.miss)

    def _note(self, miss: Miss, analyzed: AnalyzedCall) -> None:
        """Note whose miss it was; of misses that are in the report no more, as dearer ones came, nothing is kept."""
        self._sessions[miss.index] = analyzed.call.session
        key, main = (reader_of(analyzed), miss.cause), analyzed.verdict.main if analyzed.verdict else None
        self._by_cause.setdefault(key, _Losses()).add(miss, main.kind if main else "")
        if analyzed.diagnosis:
            self._verdicts[miss.index] = analyzed.diagnosis
        if main and (main.was or main.now):
            self._changed[miss.index] = main.was, main.now
        if len(self._sessions) > 2 * MOST_MISSES:
            reported = {miss.index for miss in self._tally.summary().misses}
            self._sessions = {index: session for index, session in self._sessions.items() if index in reported}
            self._verdicts = {index: verdict for index, verdict in self._verdicts.items() if index in reported}
            self._changed = {index: sides for index, sides in self._changed.items() if index in reported}

    def copied(self, also: Sequence[Callable[[AnalyzedCall], None]] = ()) -> Gathering:
        """Return another one with the same sums, that goes on by itself and shows its calls to `also` only."""
        ahead = Gathering(self.by, self._chosen, also)
        ahead._tally = self._tally.copied()
        ahead._verdicts, ahead._sessions, ahead._changed = (
            dict(self._verdicts),
            dict(self._sessions),
            dict(self._changed),
        )
        ahead._left_out = deepcopy(self._left_out)
        ahead._without_writes, ahead._without_usage = self._without_writes.copy(), self._without_usage.copy()
        ahead._about, ahead._agents = deepcopy(self._about), dict(self._agents)
        ahead._by_session, ahead._parts, ahead._lost = deepcopy((self._by_session, self._parts, self._lost))
        ahead._by_cause = deepcopy(self._by_cause)
        ahead._first_at, ahead._last_at, ahead._has_prompts = self._first_at, self._last_at, self._has_prompts
        ahead._engines = set(self._engines)
        return ahead

    def add_all(self, calls: Iterable[AnalyzedCall]) -> None:
        """Add each of the calls."""
        for call in calls:
            self.add(call)

    def contents(
        self,
        title: str,
        *,
        is_partial: bool = False,
        faults: Sequence[Fault] = (),
        n_faults: int = 0,
        what_if: WhatIf | None = None,
    ) -> Contents:
        """What was gathered so far; `what_if` is of the same calls."""
        summary = self._tally.summary()
        return Contents(
            title,
            summary,
            self.by,
            self._verdicts,
            self._sessions,
            self._changed,
            is_partial,
            tuple(faults),
            n_faults,
            self._left_out,
            billed(summary),
            dict(self._without_writes),
            dict(self._without_usage),
            tuple(
                Part(*key, row, self._lost.get(key, _Losses()).loss(""))
                for key, row in self._parts.rows(itemgetter(0)).items()
            ),
            tuple(self._by_session.rows(str).values()),
            self._about,
            self._agents,
            tuple(sums.loss(cause, program) for (program, cause), sums in self._by_cause.items()),
            what_if,
            self._first_at,
            self._last_at,
            self._has_prompts,
            len(self._engines),
        )


def _lacks_writes(analyzed: AnalyzedCall) -> bool:
    """Return whether a bill is unknown for want of what was written."""
    bill = analyzed.call.usage
    return (
        analyzed.usage is None and bill is not None and bill.read is not None and None in (bill.write_5m, bill.write_1h)
    )


def unknowns(contents: Contents) -> list[str]:
    """Why dollars and tokens of some calls are unknown, and what to do, a line each.

    Usage, reads, writes and price are told apart: a model whose usage is missing needs no price yet.
    """
    lines = [
        _UNBILLED.format(n=n, model=model) for model, n in list(contents.calls_without_writes.items())[:MOST_NAMED]
    ]
    missing = [(row, contents.calls_without_usage.get(row.name, 0)) for row in contents.summary.models]
    without = sorted(((n, row) for row, n in missing if n), key=lambda pair: -pair[0])
    lines += [
        _NO_USAGE.format(
            n=n, calls=row.calls, model=row.name, dollars=_DOLLARS_ONLY if row.recorded.calls else _NO_DOLLARS
        )
        for n, row in without[:MOST_NAMED]
    ]
    if len(without) > MOST_NAMED:
        lines.append(f"usage missing in calls of {len(without) - MOST_NAMED:,} more models")
    lines += [
        _SILENT.format(n=row.calls_silent, calls=row.calls, model=row.name)
        for row in contents.summary.models
        if row.calls_silent
    ][:MOST_NAMED]
    names = set(contents.summary.models_without_price)
    unpriced = [
        (row.name, row.calls_without_price)
        for row in contents.summary.models
        if row.name in names and row.calls_without_price
    ]
    if unpriced:
        more = f" and {len(unpriced) - MOST_NAMED:,} more" if len(unpriced) > MOST_NAMED else ""
        named = ", ".join(f"{model} ({n:,} {'call' if n == 1 else 'calls'})" for model, n in unpriced[:MOST_NAMED])
        lines.append(_UNPRICED.format(models=named + more))
    return [*lines, *_without_cause(contents.summary)]


def _without_cause(summary: Summary) -> list[str]:
    """Say how much was lost to causes that nobody knows, in a line or none."""
    lost = losses(summary)
    unknown = next((loss for loss in lost if loss.cause == "unknown"), None)
    if unknown is None:
        return []
    share = unknown.lost_tokens / sum(loss.lost_tokens for loss in lost)
    n, n_all = unknown.n, sum(loss.n for loss in lost)
    return [_NO_CAUSE.format(n=n, n_all=n_all, misses="miss" if n_all == 1 else "misses", share=share)]


WITHOUT_CAUSE = "no cause is known"
"""Begins the line about misses that nothing recorded explains."""
_NO_CAUSE = (
    WITHOUT_CAUSE
    + " for {n:,} of the {n_all:,} {misses}, {share:.0%} of the lost tokens: nothing recorded explains them; "
    "`contextkit proxy --record` or `contextkit.watch` keeps the requests, which tell more"
)


def notes(contents: Contents) -> list[str]:
    """Say the input for each output token, the waits for the first token, what recorded costs differ from list prices, and
    what placeholder counts leave out, a line each.
    """
    summary = contents.summary
    recorded, placeholders = summary.total.recorded, summary.total.placeholders
    lines = [*_watched(summary)]
    lines += [_recorded_text(recorded, summary.total.calls)] if recorded.usd is not None else []
    return lines + ([_placeholder_text(placeholders)] if placeholders.calls else [])


def _watched(summary: Summary) -> Iterator[str]:
    """Yield the figures that operators of agents watch."""
    ratio, waits = summary.total.input_to_output, summary.first_tokens
    if ratio is not None:
        yield f"input to output: {'at most ' * bool(summary.total.placeholders.calls)}{ratio:,.{0 if ratio >= 10 else 1}f} : 1"
    if waits is not None:
        parts = [
            f"about {seconds:,.2f} s in {n:,} {'call' if n == 1 else 'calls'} that read {of}"
            for n, seconds, of in (
                (waits.calls_reading, waits.reading_seconds, "at least half of their prompt"),
                (waits.calls_other, waits.other_seconds, "less"),
            )
            if seconds is not None
        ]
        longer = waits.difference_seconds
        difference = f", {abs(longer):,.2f} s {'more' if longer >= 0 else 'less'}" if longer is not None else ""
        yield f"first token, in the median: {', '.join(parts)}{difference}"


def _recorded_text(recorded: RecordedCost, n_calls: int) -> str:
    text = f"cost recorded by the provider or program for {recorded.calls:,} of {n_calls:,} calls: {dollars(recorded.usd or 0.0)}"
    if recorded.comparable_usd is None or recorded.list_usd is None:
        return f"{text}; no list price is known for them"
    difference = recorded.comparable_usd - recorded.list_usd
    share = f", {difference / recorded.list_usd:+.1%}".replace("%", " %") if recorded.list_usd else ""
    n = recorded.calls_with_list_price
    if n == recorded.calls:
        compared = f"list prices give {dollars(recorded.list_usd)} for them"
    else:
        compared = (
            f"{n:,} of them {'has' if n == 1 else 'have'} a list price too: {dollars(recorded.comparable_usd)} recorded, "
            f"{dollars(recorded.list_usd)} at list prices"
        )
    told = f"difference {dollars(difference)}{share}" if abs(difference) >= SMALLEST_USD else "no difference"
    return f"{text}; {compared} ({told})"


SMALLEST_USD = 0.00005
"""Half of the last digit that `dollars` shows."""


def _placeholder_text(placeholders: PlaceholderOutput) -> str:
    n = placeholders.calls
    counts = "output count of 1 call is a placeholder" if n == 1 else f"output counts of {n:,} calls are placeholders"
    text = f"{counts} (≥ {placeholders.tokens:,} tokens)"
    if not placeholders.calls_estimated:
        return text
    of = "" if placeholders.calls_estimated == n else f" of {placeholders.calls_estimated:,} of them"
    cost = (
        ""
        if placeholders.hidden_usd is None
        else f", which cost about {dollars(placeholders.hidden_usd)} more at list prices"
    )
    return f"{text}; by the visible text{of} about {_rounded(placeholders.tokens_estimated)} tokens{cost}; in no total"


def _rounded(n_tokens: int) -> str:
    """A count that is an estimate, without digits nobody knows.

    >>> _rounded(1_312_400), _rounded(54_321), _rounded(940)
    ('1.3 M', '54,000', '940')
    """
    if n_tokens >= 1_000_000:
        return f"{n_tokens / 1e6:,.1f} M"
    digits = max(0, len(str(n_tokens)) - 2)
    return f"{round(n_tokens, -digits):,}"


_NO_USAGE = (
    "usage missing in {n:,} of the {calls:,} calls of {model}: the recording does not say what was billed, so they are {dollars}; "
    "record the responses with their usage"
)
_NO_DOLLARS = "in no token and no dollar figure"
_DOLLARS_ONLY = "in no token figure, and in the dollars where their cost is recorded"
_SILENT = (
    "the host reports no reads in {n:,} of the {calls:,} calls of {model}: what they read from the cache, and which of them "
    "missed, is unknown"
)
_UNBILLED = (
    "bill unknown in {n:,} of the calls of {model}: they tell what was read from the cache, not what was written to it; "
    "give the recorded responses, whose usage tells both"
)
_UNPRICED = (
    "no price is known for {models}: their tokens are counted, their dollars are not, so totals with ≥ are lower bounds; "
    "to give a price, add a [[prices]] row to a TOML file and name the file with --models (docs/reference/models.md)"
)


def project_names(paths: Iterable[str]) -> dict[str, str]:
    """Folder → its last component, and as many before it as tell it from the others; `unknown` for none.

    >>> project_names(["~/shop/api", "~/docs/api", "~/site", "~/trees/2", ""])
    {'~/shop/api': 'shop/api', '~/docs/api': 'docs/api', '~/site': 'site', '~/trees/2': 'trees/2', '': 'unknown'}
    """
    parts = {path: [part for part in re.split(r"[/\\]", path) if part] for path in paths}
    n_with = Counter(tuple(own[-n:]) for own in parts.values() for n in range(1, len(own) + 1))
    names: dict[str, str] = {}
    for path, own in parts.items():
        least = 1 if own and len(own[-1]) >= SHORTEST_NAME else 2
        n = next((n for n in range(least, len(own)) if n_with[tuple(own[-n:])] == 1), len(own))
        names[path] = "/".join(own[-n:]) or path or UNKNOWN_PROJECT
    return names


def session_names(contents: Contents) -> dict[str, str]:
    """Session → its title and the start of its id, as tables show it.

    A session that nobody named has the project's folder and the time of its first call (UTC) for a title; one of which
    neither is known has its id.
    """
    sessions = [row.name for row in contents.session_rows] or list(dict.fromkeys(contents.sessions.values()))
    projects = project_names({facts.project for facts in contents.about.values()})
    starts = _starts_of_ids(sessions)
    names = {}
    for session in sessions:
        facts = contents.about.get(session, SessionFacts())
        title = facts.title if len(facts.title) <= MOST_TITLE else f"{facts.title[: MOST_TITLE - 1]}…"
        if not title and (facts.project or facts.program) and 0 <= facts.started_at <= LATEST:
            when = datetime.fromtimestamp(facts.started_at, UTC).strftime("%Y-%m-%d %H:%M")
            title = f"{projects[facts.project] if facts.project else facts.program} {when}"
        names[session] = f"{title} ({starts[session]})" if title else session
    return names


def _starts_of_ids(ids: Sequence[str]) -> dict[str, str]:
    """The start of each id, of at least `ID_CHARACTERS`, that no other one has."""
    ranked = sorted(set(ids))
    starts = {}
    for before, own, behind in zip(["", *ranked], ranked, [*ranked[1:], ""], strict=False):
        n = 1 + max(_n_shared(own, other) for other in (before, behind))
        starts[own] = own[: max(n, ID_CHARACTERS)]
    return starts


def _n_shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def dearest_rows(rows: Sequence[Row], most: int) -> list[Row]:
    """At most so many of them, those that cost or sent most, in the order they came."""
    ranked = sorted(range(len(rows)), key=lambda i: rank(rows[i]))
    return [rows[i] for i in sorted(ranked[:most])]


def dearest_parts(parts: Sequence[Part]) -> list[Part]:
    """The same parts, those first that cost or sent most."""
    return sorted(parts, key=lambda part: rank(part.row))


def dearest_sessions(contents: Contents) -> list[Row]:
    """A row for each session, those first that cost or sent most."""
    return sorted(contents.session_rows, key=rank)


def rank(row: Row) -> tuple[float, int, int]:
    """The key by which rows are sorted, those first that cost or sent most."""
    return -(row.cost_usd or 0.0), -(row.usage.prompt or 0), -row.calls
