"""What a way of marking is expected to cost a session: every way its gaps and its end can fall, weighed.

On the reference cache.

What the last call writes could only be read by calls that are not in the session any more: its premium is not counted
either. And nobody gets an hour for nothing: below what a request reads, an hour's mark holds only what was written for
an hour."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import lru_cache

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from contextkit.economics.rhythm import Rhythm
from contextkit.prices import cost_usd
from contextkit.prompt.breakpoints import Plan
from contextkit.prompt.planner import NO_ENTRIES, CachedEntries, PlanningState, choose
from tests.prompt.planned.sessions import Session

Marks = tuple[Breakpoint, ...]
Policy = Callable[[Session, int, float, tuple[CachedEntries, ...]], Marks]
"""Session, number of the call, its time, what each call before left → marks."""
DAY = 1_790_000_000.0
"""Prices of that day."""
HOUR = 3600


def price_of(session: Session) -> Callable[[Usage], float | None]:
    return lambda usage: cost_usd(session.model.provider, session.model.name, usage, DAY)


def no_marks(session: Session, index: int, now: float, left: tuple[CachedEntries, ...]) -> Marks:
    return ()


@dataclass(frozen=True)
class Planner:
    """The planner as a session has it: told the law as its habits, what its lane left, and what is known of side calls
    and siblings."""

    is_auto: bool = False
    """Whether lifetimes are its to choose."""
    is_told: bool = False
    """Whether it knows how much of every call later ones share, as the oracle does; otherwise that of side calls and
    siblings only."""

    def __call__(self, session: Session, index: int, now: float, left: tuple[CachedEntries, ...]) -> Marks:
        return self.choice(session, index, now, left).marks

    def choice(self, session: Session, index: int, now: float, left: tuple[CachedEntries, ...]):  # type: ignore[no-untyped-def]
        call, columns, law = session.calls[index], session.prompts[index], session.law
        goes_on = (1 - law.ends) * law.gaps[0][0]
        later = session.shared_later(index) if self.is_told else call.shared
        is_last = later < len(columns) if self.is_told else call.is_last
        reuse = (goes_on if later else 0.0) if self.is_told else goes_on
        known = PlanningState(
            Rhythm(law.prior),
            price_of(session),
            now,
            _read(session, index, now, left),
            calls_to_come=0.0 if is_last else None,
            head_reuse=reuse,
        )
        rules = Plan(min_tokens=session.model.min_tokens, long_ttl_seconds=3600 if self.is_auto else 0)
        return choose(columns, len(columns), call.previous, rules, known, max(later, call.shared) % len(columns))


def _read(session: Session, index: int, now: float, left: tuple[CachedEntries, ...]) -> CachedEntries:
    """What an earlier call left that this one can read most of."""
    known = [one.within(common) for one, common in zip(left, session.commons[index], strict=True)]
    return max(known, key=lambda one: one.end(now, 0), default=NO_ENTRIES)


@dataclass(frozen=True)
class Fixed:
    """Marks that depend on the body alone, worked out beforehand by whoever places them."""

    marks: dict[tuple[str, int], Marks]

    def __call__(self, session: Session, index: int, now: float, left: tuple[CachedEntries, ...]) -> Marks:
        return self.marks[session.name, index]


def expected(session: Session, policy: Policy) -> float:
    """Dollars, over every history the law allows."""
    price = lru_cache(maxsize=None)(price_of(session))
    known: dict[object, float] = {}

    def cost(index: int, now: float, held: BreakpointCache, left: tuple[CachedEntries, ...]) -> float:
        key = (
            index,
            held_at(held, now),
            tuple((one.breakpoints, one.at - now) if one.end(now, 0) else None for one in left),
        )
        if key not in known:
            known[key] = _cost(index, now, held, left)
        return known[key]

    def _cost(index: int, now: float, held: BreakpointCache, left: tuple[CachedEntries, ...]) -> float:
        cache = deepcopy(held)
        marks = policy(session, index, now, left)
        lease = cache.begin(promised(cache, session.prompt(index, marks), now), now)
        cache.publish(lease, now)
        total = price(lease.usage if index + 1 < len(session.calls) else unwritten(lease.usage)) or 0.0
        if index + 1 < len(session.calls):
            after, others = cache, (*left, CachedEntries(marks, now, 0))
            later = sum(share * cost(index + 1, now + gap, after, others) for share, gap in session.law.gaps if share)
            total += (1 - session.law.ends) * later
        return total

    return cost(0, 0.0, BreakpointCache(session.model.min_tokens), ())


def promised(cache: BreakpointCache, prompt: Prompt, now: float) -> Prompt:
    """The same, without the hours that would be free: the bill is the same, and no document says that such an entry
    lives an hour."""
    if all(mark.ttl_seconds < HOUR for mark in prompt.breakpoints):
        return prompt
    hit = cache.lookup(prompt, now).segment
    long = {key[:2] for key, entry in cache._entries.items() if entry.ttl_seconds >= HOUR and entry.expires_at > now}

    def kept(mark: Breakpoint) -> Breakpoint:
        is_promised = hit is None or mark.segment > hit or prompt.key(mark.segment) in long
        return mark if is_promised else replace(mark, ttl_seconds=300)

    return replace(prompt, breakpoints=tuple(map(kept, prompt.breakpoints)))


def unwritten(usage: Usage) -> Usage:
    """The same without a premium for writing."""
    return Usage((usage.fresh or 0) + (usage.write_5m or 0) + (usage.write_1h or 0), usage.read, 0, 0, 0)


def held_at(held: BreakpointCache, now: float) -> frozenset[tuple[object, ...]]:
    """What lives in a cache, and how long yet."""
    return frozenset(
        (key, entry.tokens, entry.ttl_seconds, entry.expires_at - now)
        for key, entry in held._entries.items()
        if entry.expires_at > now
    )
