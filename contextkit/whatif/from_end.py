"""A cache whose lifetimes count from the end of a response: the other reading of a rule that not every provider
publishes.

Takes any cache of prompts, gives one that differs in nothing else.
"""

from __future__ import annotations

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.reference import reference_cache
from contextkit.cache.usage import Usage
from contextkit.models import Model


class FromEnd:
    """Satisfies `PrefixCache[Prompt]`; what a call wrote is written once more, to the same end, when it ends."""

    def __init__(self, cache: PrefixCache[Prompt]) -> None:
        self.cache = cache
        self.lookup, self.quote = cache.lookup, cache.quote
        self.begin, self.publish = cache.begin, cache.publish
        self.stats, self.reset = cache.stats, cache.reset

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: what it left behind lives from here on."""
        self.cache.publish(Lease(lease.hit, lease.usage, max(now, lease.at), lease.writes), now)
        return self.cache.end(lease, output, now)


def cache_for(model: Model, lifetime: str) -> PrefixCache[Prompt]:
    """The reference cache of a model under one reading of `lifetime`."""
    return read_as(reference_cache(model), lifetime)


def read_as(cache: PrefixCache[Prompt], lifetime: str) -> PrefixCache[Prompt]:
    """The same cache, with all that it holds, under one reading of `lifetime`."""
    inner = cache.cache if isinstance(cache, FromEnd) else cache
    return FromEnd(inner) if lifetime == "from end" else inner
