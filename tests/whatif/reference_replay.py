"""Replays a conversation through the reference cache, on prompts of which only sizes are known: the oracle of `whatif.replay`.

Prompts share what was not cut away between them; what stands there nobody knows. The rules of lookups, lifetimes and bills
are those of `cache/`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import is_long_ttl
from contextkit.models import Model
from contextkit.whatif.replay import Bill, ReplayedCall

Mark = tuple[int, int, bool]
"""Tokens, lifetime, whether an entry is written there."""
ANYWHERE = 1 << 40
"""A lookback without end: a place that was read was within it."""


class Sizes:
    """The prompt of a conversation, as places in a row of tokens."""

    def __init__(self) -> None:
        self._digests: list[bytes] = []
        self._ends: list[int] = []
        self._n_made = 0

    @property
    def n_tokens(self) -> int:
        """How long it is."""
        return self._ends[-1] if self._ends else 0

    def cut(self, n_tokens: int) -> None:
        """Forget what stands behind the first `n_tokens`: what comes there next is something else."""
        if n_tokens < self.n_tokens:
            index = self.place(n_tokens) + 1 if n_tokens else 0
            del self._ends[index:], self._digests[index:]

    def copy(self) -> Sizes:
        """Return another one of the same places, that grows by itself."""
        other = Sizes()
        other._digests, other._ends, other._n_made = self._digests.copy(), self._ends.copy(), self._n_made
        return other

    def place(self, n_tokens: int) -> int:
        """Return the index of the segment that ends there; it is made where there is none."""
        index = bisect_left(self._ends, n_tokens)
        if index == len(self._ends) or self._ends[index] != n_tokens:
            self._n_made += 1
            self._ends.insert(index, n_tokens)
            self._digests.insert(index, self._n_made.to_bytes(8, "big"))
        return index

    def prompt(self, n_tokens: int, marks: Iterable[Mark], model: str) -> Prompt:
        """Return the first `n_tokens`, marked; good until the next change."""
        wanted = sorted({mark[0]: mark for mark in marks}.values())
        for tokens in (*(mark[0] for mark in wanted), n_tokens):
            self.place(tokens)
        points = tuple(Breakpoint(self.place(tokens), ttl, ANYWHERE, is_written) for tokens, ttl, is_written in wanted)
        last, name = self.place(n_tokens), model.encode()
        return Prompt((name, name, name), (0, 0), self._digests, self._ends, range(ANYWHERE), points, last + 1)


class ReferenceRun:
    """One conversation, as it was or with another lifetime."""

    def __init__(self, is_long: bool | None, *, is_from_end: bool) -> None:
        self._is_long, self._is_from_end = is_long, is_from_end
        self._caches: dict[str, PrefixCache[Prompt]] = {}
        self._sizes = Sizes()
        self._under_way: list[tuple[float, float, str, Lease]] = []
        """(when it begins to answer, when it ends, name of the model, lease)."""
        self._marks: dict[bool, int] = {}
        """Whether long → where the last breakpoint of that kind stands."""

    def read_by_rule(self, call: ReplayedCall) -> int:
        """Return what the next call would read; the run stays as it was."""
        self._settle(call.at)
        sizes, marks = self._sizes, self._marks
        self._sizes = sizes.copy()
        read = self._cache(call.row).lookup(self._prompt(call, call.repeats), call.at).read_tokens
        self._sizes, self._marks = sizes, marks
        return read

    def add(self, call: ReplayedCall, by_rule: int) -> Bill:
        """Replay the next call and return its bill; `by_rule` is what it would have read, as it was."""
        self._settle(call.at)
        read, cache = call.bill[1], self._cache(call.row)
        prompt = self._prompt(call, read if by_rule > read else call.repeats)
        entries = cache._entries.copy() if isinstance(cache, BreakpointCache) else None
        if by_rule != read and cache.lookup(prompt, call.at).read_tokens < read:  # somebody unseen wrote it
            mark = (read, self._ttl(call.row, is_long=bool(call.bill[3])), True)
            lease = cache.begin(self._sizes.prompt(read, [mark], call.row.name), call.at)
            if (
                isinstance(cache, BreakpointCache) and entries is not None
            ):  # nothing is read for it, so that nothing below it is renewed
                cache._entries = entries
            cache.publish(lease, call.at)
        lease = cache.begin(prompt, call.at)
        self._under_way.append((call.begins, call.ends, call.row.name, lease))
        usage = lease.usage
        return usage.fresh or 0, usage.read or 0, usage.write_5m or 0, usage.write_1h or 0

    def _prompt(self, call: ReplayedCall, repeats: int) -> Prompt:
        n_repeated = min(repeats, call.size, self._sizes.n_tokens)
        self._sizes.cut(n_repeated)
        self._marks = {is_long: place for is_long, place in self._marks.items() if place <= n_repeated}
        marks: list[Mark] = []
        if call.bill[1]:
            self._sizes.place(call.bill[1])  # where it may be put into the cache, without another place
        if call.row.cache == "breakpoints":
            marks = [(place, self._ttl(call.row, is_long=is_long), False) for is_long, place in self._marks.items()]
            marks += [(call.bill[1], self._ttl(call.row, is_long=False), False)] if call.bill[1] else []
        return self._sizes.prompt(call.size, [*marks, *self._written(call)], call.row.name)

    def _written(self, call: ReplayedCall) -> Iterator[Mark]:
        """Yield the breakpoints that the bill implies."""
        _, read, short, long = call.bill
        place = read + long
        if call.row.cache == "billed":
            yield call.size, self._ttl(call.row, is_long=False), True
        if call.row.cache != "breakpoints":  # a breakpoint would name a content that exists
            return
        if place and (long or not short):
            is_long = bool(long) or (True in self._marks and False not in self._marks)
            self._marks[is_long] = place
            yield place, self._ttl(call.row, is_long=is_long), True
        if short:
            self._marks[False] = place + short
            yield place + short, self._ttl(call.row, is_long=False), True

    def _ttl(self, row: Model, *, is_long: bool) -> int:
        is_chosen = row.cache in ("breakpoints", "billed") and len(row.ttls_seconds) > 1
        is_long = self._is_long if self._is_long is not None and is_chosen else is_long
        return next((ttl for ttl in row.ttls_seconds if is_long_ttl(ttl) is is_long), row.default_ttl_seconds)

    def _settle(self, now: float) -> None:
        """Publish what began and end what ended by now; from the end, what a call wrote is written once more there."""
        under_way, self._under_way = self._under_way, []
        for begins, ends, name, lease in under_way:
            cache = self._caches[name]
            if begins <= now:
                cache.publish(lease, begins)
            if ends > now:
                self._under_way.append((inf if begins <= now else begins, ends, name, lease))
                continue
            if self._is_from_end:
                cache.publish(Lease(lease.hit, lease.usage, max(ends, lease.at), lease.writes), ends)
            cache.end(lease, 0, ends)

    def _cache(self, row: Model) -> PrefixCache[Prompt]:
        """Return the cache of a model; a bill says what was read, so that nothing is rounded."""
        if row.name not in self._caches:
            kind = "implicit" if row.cache == "units" else row.cache
            self._caches[row.name] = reference_cache(replace(row, cache=kind, min_tokens=0, granularity_tokens=1))
        return self._caches[row.name]


def reference_bills(calls: Sequence[ReplayedCall], is_long: bool | None, *, is_from_end: bool = False) -> list[Bill]:
    """Return the bills of a conversation with the longer lifetime, the shorter one, or (None) the recorded ones."""
    was, run = ReferenceRun(None, is_from_end=is_from_end), ReferenceRun(is_long, is_from_end=is_from_end)
    bills = []
    for call in calls:
        by_rule = was.read_by_rule(call)
        was.add(call, by_rule)
        bills.append(run.add(call, by_rule))
    return bills
