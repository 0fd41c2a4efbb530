"""One conversation under the reference cache, known by its bills and times alone; as it was, or with one thing changed.

A call repeats what it read; where it missed for a reason of time it repeats what was there to be read, and where the
prompt itself is known to have changed it does not. What the reference cache cannot explain is taken over from the bill:
a read it thinks expired was kept alive by somebody unseen, a miss it cannot see is a change nobody recorded, and happens
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage, is_long_ttl
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.verdict import Cause
from contextkit.models import Model
from contextkit.whatif.fix import LaneChange
from contextkit.whatif.from_end import cache_for
from contextkit.whatif.prompt_sizes import Grown

TIMELY: frozenset[Cause] = frozenset({"ttl_expired", "cold_fan_out", "aborted", "other_server", "unknown"})
"""Causes that leave the prompt what it was: it went on, and found nothing. Every other one changed the prompt or the
place it is kept."""


@dataclass(frozen=True, slots=True)
class PricedCall:
    """A call as its conversation sees it."""

    call: ModelCall
    """Times, and who is asked."""
    row: Model
    """Whose rules hold."""
    usage: Usage
    """The bill; every part of the prompt known."""
    expected: int
    """What it could have read; what it read where it missed nothing."""
    cause: Cause | None
    """Why it missed."""
    is_marked: bool
    """Whether it was written where a breakpoint stood; other caches keep prompts whole."""

    read: int = field(init=False)
    """Tokens read."""
    long: int = field(init=False)
    """Tokens written for the long lifetime."""
    short: int = field(init=False)
    """Tokens written for the short one."""
    size: int = field(init=False)
    """Tokens of its prompt."""
    repeats: int = field(init=False)
    """Tokens of the prompt before that it sends again."""

    def __post_init__(self) -> None:
        """Compute once what every run asks for."""
        usage, read = self.usage, self.usage.read or 0
        object.__setattr__(self, "read", read)
        object.__setattr__(self, "long", usage.write_1h or 0)
        object.__setattr__(self, "short", usage.write_5m or 0)
        object.__setattr__(self, "size", usage.prompt or 0)
        object.__setattr__(self, "repeats", max(self.expected, read) if self.cause in TIMELY else read)

    @property
    def ends(self) -> float:
        """Return when it ended; if that is unknown, when its response began, or else when it was sent."""
        call = self.call
        return max(call.at, call.first_byte_at or call.at, call.ended_at or call.at)

    @property
    def begins(self) -> float:
        """Return when its writes became readable; an unknown beginning is taken for the end."""
        first = self.call.first_byte_at
        return self.ends if first is None else max(self.call.at, first)


@dataclass(frozen=True, slots=True)
class AdjustedCall:
    """What the reference cache has to take over from a call's bill."""

    is_read_seeded: bool
    """What was read must be put there."""
    is_unexplained: bool
    """It would have read more: something changed, or was evicted, that nobody recorded."""


_AS_BILLED = AdjustedCall(False, False)


class LaneRun:
    """One conversation, one change, one reading of the assumptions."""

    __slots__ = ("_cache", "_change", "_grown", "_lifetime", "_marks", "_pending", "_scale")

    def __init__(self, change: LaneChange, lifetime: str, scale: float = 1.0) -> None:
        """`lifetime` as of `cache_for`; `scale`: tokens of the model that is asked for each token of the recorded one."""
        self._change, self._lifetime, self._scale = change, lifetime, scale
        self._cache: dict[str, PrefixCache[Prompt]] = {}
        self._grown = Grown()
        self._pending: list[tuple[float, float, str, Lease]] = []
        """(when it begins to answer, when it ends, name of the model, lease) of calls under way."""
        self._marks: dict[bool, int] = {}
        """Whether long → where the last breakpoint of that kind stands."""

    def adjustment(self, priced: PricedCall) -> AdjustedCall:
        """Ask the reference cache what it would read of the next call, and compare; the run stays as it was."""
        self._settle(priced.call.at)
        cache, scaled, grown, marks = self._cache_of(priced), self._scaled(priced), self._grown, self._marks
        self._grown = grown.copy()
        read = cache.lookup(self._prompt_of(scaled, _AS_BILLED), priced.call.at).read_tokens
        self._grown, self._marks = grown, marks
        return AdjustedCall(read != scaled.read, read > scaled.read)

    def add(self, priced: PricedCall, adjusted: AdjustedCall) -> Usage:
        """Replay the next call and return its bill."""
        at = priced.call.at
        self._settle(at)
        cache, scaled = self._cache_of(priced), self._scaled(priced)
        prompt = self._prompt_of(scaled, adjusted)
        if adjusted.is_read_seeded and cache.lookup(prompt, at).read_tokens < scaled.read:
            place = (scaled.read, self._ttl(scaled, is_long=bool(scaled.long)), True)
            cache.publish(cache.begin(self._grown.prompt(scaled.read, [place], scaled.row.name.encode()), at), at)
        lease = cache.begin(prompt, at)
        self._pending.append((priced.begins, priced.ends, scaled.row.name, lease))
        return lease.usage.with_output(scaled.usage.output)

    def _prompt_of(self, priced: PricedCall, adjusted: AdjustedCall) -> Prompt:
        """Build the prompt of a call on what is left of the one before."""
        is_routed = self._change.is_keyed and priced.cause == "other_server" and priced.row.takes_routing_key
        repeats = priced.read if adjusted.is_unexplained and not is_routed else priced.repeats
        if self._change.model and priced.cause == "model_changed":
            repeats = max(priced.expected, priced.read)
        n_repeated = min(repeats, priced.size, self._grown.n_tokens)
        self._grown.cut(n_repeated)
        self._marks = {is_long: place for is_long, place in self._marks.items() if place <= n_repeated}
        places = [(place, self._ttl(priced, is_long=is_long), False) for is_long, place in self._marks.items()]
        places += [(priced.read, self._ttl(priced, is_long=False), False)] if priced.read else []
        return self._grown.prompt(priced.size, [*places, *self._billed_breakpoints(priced)], priced.row.name.encode())

    def _billed_breakpoints(self, priced: PricedCall) -> Iterator[tuple[int, int, bool]]:
        """Yield breakpoints where the bill implies that they stood."""
        long, short = priced.long, priced.short
        is_unmarked = not long and not short
        place = priced.read if is_unmarked else priced.read + long
        if not priced.is_marked:  # another model's breakpoints would stand at the end
            long, short, is_unmarked, place = 0, priced.size, False, 0
        if long or (is_unmarked and place):
            is_long = bool(long) or (True in self._marks and False not in self._marks)
            self._marks[is_long] = place
            yield place, self._ttl(priced, is_long=is_long), True
        if short:
            self._marks[False] = place + short
            yield place + short, self._ttl(priced, is_long=False), True

    def _ttl(self, priced: PricedCall, *, is_long: bool) -> int:
        row = priced.row
        changed = self._change.is_long if has_lifetime_choice(row) else None
        return _requested_ttl(row.ttls_seconds, row.default_ttl_seconds, is_long if changed is None else changed)

    def _settle(self, now: float) -> None:
        """Publish what began and end what ended by now."""
        pending, self._pending = self._pending, []
        for begins, ends, name, lease in pending:
            if begins <= now:
                self._cache[name].publish(lease, begins)
            if ends <= now:
                self._cache[name].end(lease, 0, ends)
            else:
                self._pending.append((float("inf") if begins <= now else begins, ends, name, lease))

    def _cache_of(self, priced: PricedCall) -> PrefixCache[Prompt]:
        """Return the reference cache that sees the call; the bill says how much was read, so nothing of the recorded
        model's own is rounded.
        """
        model = self._change.model or priced.row
        if model.name not in self._cache:
            self._cache[model.name] = cache_for(self._change.model or _unrounded(model), self._lifetime)
        return self._cache[model.name]

    def _scaled(self, priced: PricedCall) -> PricedCall:
        """Return the call in the tokens of the model that is asked."""
        row = self._change.model or priced.row
        if self._scale == 1.0:
            return replace(priced, row=row) if self._change.model else priced
        ends = [priced.read, priced.read + priced.long, priced.size - (priced.usage.fresh or 0), priced.size]
        read, long, short, size = (round(end * self._scale) for end in ends)
        output = priced.usage.output and round(priced.usage.output * self._scale)
        usage = Usage(size - short, read, short - long, long - read, output, True)
        return replace(priced, row=row, usage=usage, expected=min(round(priced.expected * self._scale), size))


def has_lifetime_choice(row: Model) -> bool:
    """Return whether a request to a model chooses between lifetimes of its cache entries."""
    return row.cache in ("breakpoints", "billed") and len(row.ttls_seconds) > 1


@lru_cache(maxsize=256)
def _requested_ttl(ttls: tuple[int, ...], default: int, is_long: bool) -> int:
    return next((ttl for ttl in ttls if is_long_ttl(ttl) is is_long), default)


@lru_cache(maxsize=256)
def _unrounded(row: Model) -> Model:
    kind = "implicit" if row.cache == "units" else row.cache
    return replace(row, cache=kind, min_tokens=0, granularity_tokens=1)
