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
        """End a call; lifetimes of what it wrote count from here on."""
        self.cache.publish(Lease(lease.hit, lease.usage, max(now, lease.at), lease.writes), now)
        return self.cache.end(lease, output, now)


def cache_for(model: Model, lifetime: str) -> PrefixCache[Prompt]:
    """Return the reference cache of a model under one of `LIFETIMES`."""
    cache = reference_cache(model)
    return FromEnd(cache) if lifetime == "from end" else cache
