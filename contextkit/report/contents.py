"""Collects what every format of a report shows: sums, misses with their agents and provider verdicts, completeness.

Takes judged calls one by one, gives `Contents`; the figures are pure functions over a `Summary`. Knows nothing of
terminals, pages or files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from contextkit.cache.usage import Usage, ttl_name
from contextkit.ledger.misses import AnalyzedCall, Miss
from contextkit.ledger.summary import MOST_MISSES, PlaceholderOutput, RecordedCost, Row, Summary, Tally, dollars

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
    """What that cost; None where a price is unknown."""


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
    """Misses that lost something, by cause, the most tokens first."""
    causes = dict.fromkeys(miss.cause for miss in summary.losses)
    causes_found = [_loss(summary, cause) for cause in causes]
    return sorted(causes_found, key=lambda loss: -loss.lost_tokens)


def _loss(summary: Summary, cause: str) -> Loss:
    same = [miss for miss in summary.losses if miss.cause == cause]
    costs = [miss.cost_usd for miss in same if miss.cost_usd is not None]
    return Loss(
        cause, len(same), sum(miss.lost_tokens for miss in same), sum(costs) if len(costs) == len(same) else None
    )


Fault = tuple[str, int, str]
"""(file, line or 0, what is wrong with it)."""
MOST_NAMED = 5
"""Models named in a line."""


def billed(summary: Summary) -> str:
    """What the sums of a recording are of."""
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

    def has(self, call: AnalyzedCall) -> bool:
        """Whether a call counts."""
        at = call.exchange.at
        if (self.since is not None and at < self.since) or (self.until is not None and at >= self.until):
            return False
        return not self.session or call.exchange.session.startswith(self.session)


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

    def add(self, call: AnalyzedCall) -> None:
        """One more."""
        at, session = call.exchange.at, call.exchange.session
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


class Gathering:
    """Adds calls up for a report as they come."""

    __slots__ = (
        "_also",
        "_chosen",
        "_left_out",
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
        self._without_writes: Counter[str] = Counter()
        self._without_usage: Counter[str] = Counter()
        self._left_out = LeftOut()

    def add(self, call: AnalyzedCall) -> None:
        """One more call, if it is one of those chosen."""
        if not self._chosen.has(call):
            self._left_out.add(call)
            return
        self._tally.add(call)
        if call.miss:
            self._note(call.miss, call)
        if _lacks_writes(call):
            self._without_writes[call.exchange.model] += 1
        if call.exchange.usage is None:
            self._without_usage[call.exchange.model] += 1
        for other in self._also:
            other(call)

    def _note(self, miss: Miss, call: AnalyzedCall) -> None:
        """Whose miss it was; of misses that are in the report no more, as dearer ones came, nothing is kept."""
        self._sessions[miss.index] = call.exchange.session
        if call.verdict:
            self._verdicts[miss.index] = call.verdict
        if len(self._sessions) > 2 * MOST_MISSES:
            reported = {miss.index for miss in self._tally.summary().misses}
            self._sessions = {index: session for index, session in self._sessions.items() if index in reported}
            self._verdicts = {index: verdict for index, verdict in self._verdicts.items() if index in reported}

    def copied(self) -> Gathering:
        """Another one with the same sums, that goes on by itself and shows its calls to nobody."""
        ahead = Gathering(self.by, self._chosen)
        reported: dict[int, Any] = {
            id(miss): miss for miss in self._tally.summary().misses
        }  # they never change, and may be many
        ahead._tally = deepcopy(self._tally, reported)
        ahead._verdicts, ahead._sessions, ahead._left_out = (
            dict(self._verdicts),
            dict(self._sessions),
            deepcopy(self._left_out),
        )
        ahead._without_writes, ahead._without_usage = self._without_writes.copy(), self._without_usage.copy()
        return ahead

    def add_all(self, calls: Iterable[AnalyzedCall]) -> None:
        """Each of them."""
        for call in calls:
            self.add(call)

    def contents(
        self, title: str, *, is_partial: bool = False, faults: Sequence[Fault] = (), n_faults: int = 0
    ) -> Contents:
        """What was gathered so far."""
        summary = self._tally.summary()
        return Contents(
            title,
            summary,
            self.by,
            self._verdicts,
            self._sessions,
            is_partial,
            tuple(faults),
            n_faults,
            self._left_out,
            billed(summary),
            dict(self._without_writes),
            dict(self._without_usage),
        )


def _lacks_writes(call: AnalyzedCall) -> bool:
    """Whether a bill is unknown for want of what was written."""
    bill = call.exchange.usage
    return call.usage is None and bill is not None and bill.read is not None and None in (bill.write_5m, bill.write_1h)


def unknowns(contents: Contents) -> list[str]:
    """Why dollars and tokens of some calls are unknown, and what to do, a line each.

    Usage, writes and price are told apart: a model whose usage is missing needs no price yet.
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
    return lines


def notes(summary: Summary) -> list[str]:
    """What recorded costs differ from list prices, and what placeholder counts leave out, a line each."""
    recorded, placeholders = summary.total.recorded, summary.total.placeholders
    lines = [_recorded_text(recorded, summary.total.calls)] if recorded.usd is not None else []
    return lines + ([_placeholder_text(placeholders)] if placeholders.calls else [])


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
_UNBILLED = (
    "bill unknown in {n:,} of the calls of {model}: they tell what was read from the cache, not what was written to it; "
    "give the recorded responses, whose usage tells both"
)
_UNPRICED = (
    "no price is known for {models}: their tokens are counted, their dollars are not, so totals with ≥ are lower bounds; "
    "to give a price, add a [[prices]] row to a TOML file and name the file with --models (docs/models.md)"
)


def dearest_misses(misses: Sequence[Miss], most: int) -> list[Miss]:
    """At most so many of them, those that cost or lost most, in the order they happened."""
    worst = sorted(misses, key=lambda miss: (-(miss.cost_usd or 0.0), -miss.lost_tokens))[:most]
    return sorted(worst, key=lambda miss: miss.index)


def dearest_rows(rows: Sequence[Row], most: int) -> list[Row]:
    """At most so many of them, those that cost or sent most, in the order they came."""
    ranked = sorted(
        range(len(rows)), key=lambda i: (-(rows[i].cost_usd or 0.0), -(rows[i].usage.prompt or 0), -rows[i].calls)
    )
    return [rows[i] for i in sorted(ranked[:most])]
