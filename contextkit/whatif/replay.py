"""Replays one conversation by its bills and times, as it was and with something changed, in O(1) a call.

A conversation repeats what it read; where it missed for a reason of time it repeats what was there to be read, and where
its prompt is known to have changed it does not. The cache that it meets is the provider's rule in numbers: an entry ends
at so many tokens, is readable from the first byte of the reply that wrote it, and dies unless it is read again. What the
rule does not explain is taken over from the bill: a read it thinks expired was kept alive by somebody unseen, a miss it
cannot see is a change nobody recorded, and happens again. So the replay of what was costs exactly the bill.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache

from contextkit import prices
from contextkit.cache.usage import Usage, is_long_ttl
from contextkit.ledger.misses import AnalyzedCall
from contextkit.ledger.verdict import Cause
from contextkit.models import Model, find_model, model_named

TIMELY: frozenset[Cause] = frozenset({"ttl_expired", "cold_fan_out", "aborted", "other_server", "unknown"})
"""Causes that leave the prompt what it was: it went on, and found nothing."""
SUMMARY_TOKENS, TAIL_TOKENS = 3_000, 20_000
"""Assumed to be left of a history by a compaction: a summary, and the last messages as they were."""
GROWTH = 1.1
"""A compaction before a later pause is tried only if it removes this much more than before any earlier one: the pauses
that are tried stay few."""

Bill = tuple[int, int, int, int]
"""Tokens of a prompt: fresh, read, written for the short lifetime, written for the long one."""


class ReplayedCall:
    """A call as a replay sees it."""

    __slots__ = (
        "at",
        "begins",
        "bill",
        "cause",
        "earlier_at",
        "ends",
        "expected",
        "lost",
        "output",
        "price",
        "repeats",
        "row",
        "size",
        "usd",
    )

    def __init__(self, analyzed: AnalyzedCall, usage: Usage, usd: float, earlier_at: float | None) -> None:
        """`usd`: its list price. `earlier_at`: start of the call that it was compared with; None where there is none."""
        call, miss = analyzed.call, analyzed.miss
        self.row = find_model(call.model) or model_named(call.model, call.provider)
        self.price = prices.token_price_of(call.provider, call.model, call.at, usage.service_tier)
        self.at, self.earlier_at, self.usd = call.at, earlier_at, usd
        self.ends = max(call.at, call.first_byte_at or call.at, call.ended_at or call.at)
        self.begins = self.ends if call.first_byte_at is None else max(call.at, call.first_byte_at)
        self.bill: Bill = usage.fresh or 0, usage.read or 0, usage.write_5m or 0, usage.write_1h or 0
        self.size, self.output = usage.prompt or 0, usage.output or 0
        self.cause = miss.cause if miss else None
        self.expected = max(miss.expected_tokens if miss else 0, self.bill[1])
        gaps = analyzed.verdict.gaps if analyzed.verdict and miss and miss.is_loss else ()
        self.repeats = self.bill[1] + sum(gap.tokens for gap in gaps if gap.is_avoidable and gap.cause in TIMELY)
        self.lost: dict[Cause, int] = {}
        for gap in gaps:
            if gap.is_avoidable and (gap.cause != "other_server" or self.row.takes_routing_key):
                self.lost[gap.cause] = self.lost.get(gap.cause, 0) + gap.tokens

    @property
    def is_marked(self) -> bool:
        """Return whether its cache writes where breakpoints stand; other caches keep whole prompts."""
        return self.row.cache == "breakpoints"

    @property
    def is_unmarked(self) -> bool:
        """Return whether it has no breakpoint, where a breakpoint would have written something."""
        return self.bill[0] == self.size >= self.row.min_tokens and self.is_marked

    def usd_of(self, bill: Bill) -> float:
        """Return the list price of the call with this bill of its prompt."""
        return self.price(*bill, self.output)

    def for_model(self, model: Model, scale: float) -> ReplayedCall:
        """Return the call as another model would bill it, at `scale` of its tokens for one of the recorded ones."""
        other = copy(self)
        fresh, read, _, long = self.bill
        ends = [round(end * scale) for end in (read, read + long, self.size - fresh, self.size)]
        other.row, other.price = model, prices.token_price_of(model.provider, model.name)
        other.size, other.output = ends[3], round(self.output * scale)
        other.bill = ends[3] - ends[2], ends[0], ends[2] - ends[1], ends[1] - ends[0]
        other.repeats = round((self.expected if self.cause == "model_changed" else self.repeats) * scale)
        return other


def replayed_call(analyzed: AnalyzedCall, earlier_at: float | None = None) -> ReplayedCall | str:
    """Return a call as a replay sees it; where it cannot be replayed, why."""
    usage = analyzed.usage
    if usage is None:
        return "the bill is unknown"
    if analyzed.list_cost_usd is None:
        return f"no price for {analyzed.call.model}"
    if not usage.prompt:
        return "nothing was sent"
    return ReplayedCall(analyzed, usage, analyzed.list_cost_usd, earlier_at)


@dataclass(frozen=True, slots=True)
class Change:
    """One thing changed in a conversation."""

    cures: frozenset[Cause] = frozenset()
    """Causes of misses that are gone; with `no_breakpoint`, calls that mark nothing mark their end."""
    is_long: bool | None = None
    """Whether every write asks for the longest lifetime of its model, or for the shortest; None: as recorded."""
    is_from_end: bool = False
    """Whether lifetimes count from the end of a call, not from its start."""


@dataclass(slots=True)
class AsItWas:
    """What the rule does not explain of the calls as they were."""

    seeded: list[bool] = field(default_factory=list)
    """Per call: what it read has to be put into the cache."""
    unexplained: list[bool] = field(default_factory=list)
    """Per call: it would have read more; something changed, or was lost, that nobody recorded."""
    n_misses: int = 0
    """Misses of which nobody knows the cause."""
    error_usd: float = 0.0
    """What the calls would have cost by the rule, less what they did cost."""


@dataclass(slots=True)
class _Entry:
    """A prefix in the cache."""

    tokens: int
    ttl_seconds: int
    expires_at: float
    visible_at: float


class _MarkedEntries:
    """What a conversation has in a cache that writes where breakpoints stand: entries in the order of their lengths."""

    __slots__ = ("_ends", "_entries")

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._ends: list[int] = []
        """Their lengths."""

    def cut(self, n_tokens: int, at: float) -> None:
        """Forget what stands behind the part of the prompt that goes on."""
        while self._ends and self._ends[-1] > n_tokens:
            self._ends.pop()
            self._entries.pop()

    def longest(self, limit: int, at: float) -> int:
        """Return the tokens of the longest entry up to `limit` that can be read."""
        for entry in reversed(self._entries):
            if entry.tokens <= limit and entry.visible_at <= at < entry.expires_at:
                return entry.tokens
        return 0

    def read(self, n_tokens: int, places: Sequence[int], at: float) -> None:
        """Renew the entry that was read, and those at breakpoints below it."""
        for place in {n_tokens, *places}:
            entry = self._entry(place) if place <= n_tokens else None
            if entry is not None and entry.visible_at <= at < entry.expires_at:
                entry.expires_at = max(entry.expires_at, at + entry.ttl_seconds)

    def write(self, n_tokens: int, ttl: int, at: float, visible_at: float) -> None:
        """Add an entry whose lifetime starts at `at`; a live one of this length keeps the longer lifetime."""
        old = self._entry(n_tokens)
        if old is None:
            index = bisect_left(self._ends, n_tokens)
            self._ends.insert(index, n_tokens)
            self._entries.insert(index, _Entry(n_tokens, ttl, at + ttl, visible_at))
        elif old.expires_at > visible_at:
            old.ttl_seconds = max(old.ttl_seconds, ttl)
            old.expires_at = max(old.expires_at, at + old.ttl_seconds)
        else:
            old.ttl_seconds, old.expires_at, old.visible_at = ttl, at + ttl, visible_at

    def _entry(self, n_tokens: int) -> _Entry | None:
        index = bisect_left(self._ends, n_tokens)
        return self._entries[index] if index < len(self._ends) and self._ends[index] == n_tokens else None


class _WholeEntries:
    """What a conversation has in a cache that keeps whole prompts, any part of which is read: of entries the longer of
    which lives longer, one is left.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def cut(self, n_tokens: int, at: float) -> None:
        """Shorten all to the part of the prompt that goes on."""
        left: list[_Entry] = []
        for entry in reversed(self._entries):
            entry.tokens = min(entry.tokens, n_tokens)
            if entry.tokens and all(other.expires_at < entry.expires_at or other.visible_at > at for other in left):
                left.append(entry)
        self._entries = left[::-1]

    def longest(self, limit: int, at: float) -> int:
        """Return the most tokens that can be read."""
        live = (entry.tokens for entry in self._entries if entry.visible_at <= at < entry.expires_at)
        return max((min(tokens, limit) for tokens in live), default=0)

    def read(self, n_tokens: int, places: Sequence[int], at: float) -> None:
        """Renew what was read."""
        for entry in self._entries:
            if entry.tokens <= n_tokens and entry.visible_at <= at < entry.expires_at:
                entry.expires_at = max(entry.expires_at, at + entry.ttl_seconds)

    def write(self, n_tokens: int, ttl: int, at: float, visible_at: float) -> None:
        """Add a prompt whose lifetime starts at `at`."""
        self._entries.append(_Entry(n_tokens, ttl, at + ttl, visible_at))


@dataclass(slots=True)
class _Breakpoints:
    """Where the breakpoints of a call stand, as its bill implies; a cache that keeps whole prompts has one at the end."""

    last: dict[bool, int]
    """Whether long → the last one of that kind: the next call carries it."""
    all: list[int]
    """Each of them, tokens."""
    written: list[tuple[int, int]]
    """Those that write an entry: tokens, lifetime."""


class _Run:
    """One conversation under one change."""

    __slots__ = ("_at", "_caches", "_change", "_is_first", "_last", "_size", "was")

    def __init__(self, change: Change, was: AsItWas | None) -> None:
        """Without `was`, the run finds it."""
        self._change, self._is_first, self.was = change, was is None, was or AsItWas()
        self._caches: dict[str, _MarkedEntries | _WholeEntries] = {}
        self._last: dict[bool, int] = {}
        self._size, self._at = 0, 0.0

    def next(self, number: int, call: ReplayedCall) -> Bill:
        """Replay the next call and return its bill."""
        entries, read = self._caches.get(call.row.name), call.bill[1]
        if entries is None:
            entries = _MarkedEntries() if call.is_marked else _WholeEntries()
            self._caches[call.row.name] = entries
        n_repeated, target = min(call.repeats, call.size, self._size), self._cured(call)
        points = self._breakpoints(call, n_repeated)
        if self._is_first:
            self._explain(call, entries.longest(min(n_repeated, max(points.all)), call.at))
        is_other = self.was.unexplained[number] and not target
        if is_other or target > n_repeated:
            n_repeated = min(read, n_repeated) if is_other else target
            points = self._breakpoints(call, n_repeated)
        for cache in self._caches.values():  # what is cut is no part of the prompt, whichever model is asked next
            cache.cut(n_repeated, call.at)
        found = entries.longest(min(n_repeated, max(points.all)), call.at)
        is_seeded = self.was.seeded[number] and (found < read or target > read)  # later calls may read it again
        for tokens in (read if is_seeded else 0, target if target > found else 0):
            if tokens:
                entries.write(tokens, self._ttl(call, is_long=bool(call.bill[3])), call.at, call.at)
                found = max(found, tokens)
        entries.read(found, points.all, call.at)
        started_at = call.ends if self._change.is_from_end else call.at
        for tokens, ttl in points.written:
            entries.write(tokens, ttl, started_at, call.begins)
        self._last, self._size, self._at = points.last, call.size, call.at
        return _bill(call, found, points.written)

    def _explain(self, call: ReplayedCall, by_rule: int) -> None:
        """Note what has to be taken over from the bill of a call that reads so much by the rule."""
        read = call.bill[1]
        self.was.seeded.append(by_rule != read)
        self.was.unexplained.append(by_rule > read)
        if by_rule != read and call.cause in (None, "unknown"):
            self.was.n_misses += by_rule > read
            self.was.error_usd += call.usd_of(_read_instead(call.bill, by_rule)) - call.usd

    def _cured(self, call: ReplayedCall) -> int:
        """Return what a call reads at least once the causes of its miss are gone; 0 where they are not, or where it came
        too late for the entry.
        """
        if not call.lost or not self._change.cures:
            return 0
        lost = sum(tokens for cause, tokens in call.lost.items() if cause in self._change.cures)
        before = self._at if self._size else call.earlier_at
        if not lost or before is None:
            return 0
        ttl = self._ttl(call, is_long=bool(call.bill[3]) or True in self._last)
        return min(call.bill[1] + lost, call.size) if call.at - before < ttl else 0

    def _breakpoints(self, call: ReplayedCall, n_repeated: int) -> _Breakpoints:
        _, read, short, long = call.bill
        last = {is_long: place for is_long, place in self._last.items() if place <= n_repeated}
        places, place = [read, *last.values()], read + long
        written: list[tuple[int, int]] = []
        if not call.is_marked:
            short, place = call.size, 0
        elif "no_breakpoint" in self._change.cures and call.is_unmarked:
            short = call.size
        elif place and (long or not short):
            is_long = bool(long) or (True in last and False not in last)
            last[is_long] = place
            written.append((place, self._ttl(call, is_long=is_long)))
            places.append(place)
        if short:
            last[False] = place + short
            written.append((place + short, self._ttl(call, is_long=False)))
            places.append(place + short)
        return _Breakpoints(last, places, written)

    def _ttl(self, call: ReplayedCall, *, is_long: bool) -> int:
        if not has_lifetime_choice(call.row):
            return call.row.default_ttl_seconds
        if self._change.is_long is not None:
            is_long = self._change.is_long
        return _lifetime(call.row.ttls_seconds, call.row.default_ttl_seconds, is_long)


def _bill(call: ReplayedCall, read: int, written: Sequence[tuple[int, int]]) -> Bill:
    """Return the bill of a call that reads so much and writes at these places."""
    if not call.is_marked:
        new = call.size - read
        if call.row.cache != "billed":
            return new, read, 0, 0
        fresh = min(call.bill[0], new)
        is_long = is_long_ttl(written[0][1])
        return fresh, read, 0 if is_long else new - fresh, new - fresh if is_long else 0
    end, short, long = read, 0, 0
    if len(written) > 1:
        written = sorted(written, key=lambda mark: (-mark[1], mark[0]))
    for place, ttl in written:
        new, end = max(place - end, 0), max(place, end)
        short, long = (short, long + new) if is_long_ttl(ttl) else (short + new, long)
    return call.size - end, read, short, long


def _read_instead(bill: Bill, read: int) -> Bill:
    """Return a bill with so much read; what is read less is written as the rest was, or sent afresh where nothing was."""
    fresh, was, short, long = bill
    less = was - read
    if less < 0:
        from_long = min(-less, long)
        from_short = min(-less - from_long, short)
        return max(fresh + less + from_long + from_short, 0), read, short - from_short, long - from_long
    if not short and not long:
        return fresh + less, read, 0, 0
    return (fresh, read, short, long + less) if long else (fresh, read, short + less, long)


def has_lifetime_choice(row: Model) -> bool:
    """Return whether a request to a model chooses between lifetimes of its cache entries."""
    return row.cache in ("breakpoints", "billed") and len(row.ttls_seconds) > 1


@lru_cache(maxsize=256)
def _lifetime(ttls: tuple[int, ...], default: int, is_long: bool) -> int:
    return next((ttl for ttl in ttls if is_long_ttl(ttl) is is_long), default)


def replay(calls: Sequence[ReplayedCall], change: Change, was: AsItWas) -> list[Bill]:
    """Return the bills of a conversation with something changed."""
    run = _Run(change, was)
    return [run.next(number, call) for number, call in enumerate(calls)]


def as_it_was(calls: Sequence[ReplayedCall], *, is_from_end: bool = False) -> AsItWas:
    """Return what the rule does not explain of a conversation as it was."""
    run = _Run(Change(is_from_end=is_from_end), None)
    for number, call in enumerate(calls):
        run.next(number, call)
    return run.was


def saved_usd(calls: Sequence[ReplayedCall], bills: Sequence[Bill]) -> float:
    """Return what the calls cost less with these bills of their prompts."""
    pairs = zip(calls, bills, strict=True)
    return sum(call.usd - call.usd_of(bill) for call, bill in pairs if bill != call.bill)


def compacted_usd(calls: Sequence[ReplayedCall], bills: Sequence[Bill], *, is_cached: bool = True) -> tuple[float, int]:
    """Return what compactions just before pauses beyond every lifetime would save of these bills, and how many there are.

    A call behind such a pause writes the whole history anew, and every later call carries it. The compaction reads the
    history while it is cached (`is_cached`; else it sends it afresh) and leaves a summary, a tail and the head, the
    least that any call of the conversation read. Of the pauses up to the next recorded compaction the one counts before
    which it saves most.
    """
    total, n, head, left = 0.0, 0, 0, 0
    tried: list[list[float]] = []
    for call, bill in zip(calls, bills, strict=True):
        if left and (call.size * 2 < left or call.cause == "compaction"):
            best = max((saved for _, saved in tried), default=0.0)
            total, n, left = total + max(best, 0.0), n + (best > 0), 0
            tried.clear()
        is_cold = bill[1] * 2 < call.size
        if left and is_cold and call.cause == "cold_start":
            removed = min(left, call.size) - head - SUMMARY_TOKENS - TAIL_TOKENS
            if removed > (tried[-1][0] * GROWTH if tried else 0):
                history = (0, left) if is_cached else (left, 0)
                summary = call.price(*history, 0, 0, SUMMARY_TOKENS)
                tried.append([removed, -summary])
        if tried:
            usd = call.usd_of(bill)
            for one in tried:
                one[1] += usd - call.usd_of(_without(bill, int(one[0]), is_cold=is_cold))
        left, head = call.size + call.output, min(head or bill[1], bill[1] or head)
    best = max((saved for _, saved in tried), default=0.0)
    return total + max(best, 0.0), n + (best > 0)


def _without(bill: Bill, removed: int, *, is_cold: bool) -> Bill:
    """Return the bill of a shorter history: less is written if it is cold, less is read otherwise."""
    fresh, read, short, long = bill
    if not is_cold:
        return fresh, max(read - removed, 0), short, long
    from_long = min(removed, long)
    from_short = min(removed - from_long, short)
    return max(fresh - (removed - from_long - from_short), 0), read, short - from_short, long - from_long
