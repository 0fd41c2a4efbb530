"""The oracle's own check: every set of at most four places at every call, tried on the reference cache.

Too slow for long sessions.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import combinations

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.prompt import Breakpoint
from tests.prompt.planned.cost import Marks, held_at, price_of, unwritten
from tests.prompt.planned.oracle import MOST_MARKS, candidates
from tests.prompt.planned.sessions import Session


def tried(session: Session, n_places: int) -> float:
    """Least dollars over every history: nothing is left out, and nothing is restated."""
    known: dict[object, float] = {}

    def least(index: int, now: float, held: BreakpointCache) -> float:
        key = (index, held_at(held, now))
        if key not in known:
            places = candidates(session, index, n_places)
            sets = (marks for size in range(MOST_MARKS + 1) for marks in combinations(places, size))
            known[key] = min(bill(index, now, held, tuple(Breakpoint(place, 300) for place in marks)) for marks in sets)
        return known[key]

    def bill(index: int, now: float, held: BreakpointCache, marks: Marks) -> float:
        cache = deepcopy(held)
        lease = cache.begin(session.prompt(index, marks), now)
        cache.publish(lease, now)
        if index + 1 == len(session.calls):
            return price_of(session)(unwritten(lease.usage)) or 0.0
        later = sum(share * least(index + 1, now + gap, cache) for share, gap in session.law.gaps)
        return (price_of(session)(lease.usage) or 0.0) + (1 - session.law.ends) * later

    return least(0, 0.0, BreakpointCache(session.model.min_tokens))
