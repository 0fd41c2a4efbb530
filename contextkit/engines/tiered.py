"""Chunks of KV that sink from tier to tier and rise when they are read: LMCache, SGLang's HiCache.

Several caches given one `TierStore` are instances that share it.

Read in the source of LMCache 0.5.6: a lookup walks the tiers once, each going on where the one above stopped, so a
chunk that an upper tier holds behind a gap in it is not read from there; what is read is renewed tail first when the
request starts; what a tier below held is put into the tiers above; what is computed is stored front first, once, and
not renewed by being there already; generated tokens are not stored. Read in SGLang 0.5.23's: a lower tier gets a chunk
at its first use, at its second, or when the tier above evicts it; too short a find is not fetched. Documented for
CacheBlend: a chunk that stands behind another beginning is loaded and a share of it computed again; that is
`approximate_tokens`, never a hit, and billed as fresh.

Assumed: the first tier is what computes (nothing is read from it in pieces); an operation never evicts the chunks of
its own request, and nothing is held between `begin` and `publish`; behind an approximate chunk nothing is stored as
exact, only what may be re-used elsewhere; a fetch for approximate re-use promotes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Generic, TypeVar

from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.usage import Usage
from contextkit.engines.tier import RENEWING, Chunk, Chunking, Tier, TierStore
from contextkit.errors import UsageError

P = TypeVar("P")

_COUNTERS = ("requests", "hits", "read_tokens", "fresh_tokens", "approximate_tokens", "output_tokens")
"""Counters of `stats` that are always there; `miss_<reason>` joins as reasons occur."""


@dataclass(frozen=True, slots=True)
class _TierLookup:
    """What a lookup came to."""

    chunks: list[Chunk]
    """All of the prompt."""
    ends: list[int]
    """Level → index behind the last chunk read there; each level goes on where the one above stopped."""
    elsewhere: list[tuple[int, int, Chunk]]
    """Index in the prompt, level, and the chunk with the same tokens that stood at another place."""

    @property
    def n_read(self) -> int:
        """The number of leading chunks that are read."""
        return self.ends[-1]

    def at(self, level: int) -> list[Chunk]:
        """The chunks read at this level."""
        return self.chunks[self.ends[level - 1] if level else 0 : self.ends[level]]


class TieredCache(Generic[P]):
    """One instance and its tiers; satisfies `PrefixCache[P]`.

    >>> from contextkit.engines.token_ids import TokenIds
    >>> from contextkit.engines.tier import TokenChunks
    >>> tiers = Tier("gpu", capacity_tokens=512), Tier("host", capacity_tokens=4096)
    >>> cache = TieredCache(TokenChunks(), tiers)
    >>> for start in (0, 10_000):
    ...     cache.publish(cache.begin(TokenIds(range(start, start + 600)), now=0.0), now=1.0)
    >>> cache.lookup(TokenIds(range(600)), now=2.0).read_tokens
    512
    """

    def __init__(self, chunking: Chunking[P], tiers: Sequence[Tier], shared: Sequence[TierStore] = ()) -> None:
        """`tiers` are its own, the fastest first.

        Below them come `shared`; raises `UsageError` for tiers that cannot be.
        """
        self._chunking = chunking
        self._stores = [*map(TierStore, tiers), *shared]
        self._in_flight: Counter[bytes] = Counter()
        self._counters: Counter[str] = Counter()
        every = [store.tier for store in self._stores]
        names = [tier.name for tier in every]
        if not every or len(set(names)) < len(names):
            raise UsageError(f"the tiers are {names}: give one or more, each with a name of its own")
        if every[0].write != "through":
            raise UsageError(
                f"the first tier, {names[0]!r}, has write {every[0].write!r}: chunks are computed there, so make it 'through'"
            )

    def lookup(self, prompt: P, now: float) -> Hit:
        """Return what would be read now, in O(prompt); changes nothing. `segment` is the last chunk that is covered."""
        return self._hit(prompt, self._find(prompt))

    def quote(self, prompt: P, now: float) -> Usage:
        """Return what sending it now would be billed, `output` 0; changes nothing."""
        return self._bill(prompt, self.lookup(prompt, now))

    def begin(self, prompt: P, now: float) -> Lease:
        """A request starts: what it reads is renewed and rises to the tiers above."""
        found = self._find(prompt)
        hit = self._hit(prompt, found)
        self._rise(found)
        for _, level, chunk in found.elsewhere:
            self._stores[level].hit(chunk.key)
        new = self._new(found)
        self._in_flight.update(chunk.key for chunk in new)
        lease = Lease(hit, self._bill(prompt, hit), now, (found.chunks[: found.n_read], new))
        self._count(lease, found)
        return lease

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins: what it computed is stored and readable."""
        read, new = lease.writes
        self._in_flight -= Counter(chunk.key for chunk in new)
        held = {chunk.key for chunk in (*read, *new)}
        for level, store in enumerate(self._stores):
            if not level or store.tier.write == "through":
                self._put(level, new, held)
            if store.tier.policy in RENEWING:
                store.renew([*read, *new])

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: the whole bill; what was generated is not stored."""
        self._counters["output_tokens"] += output
        return replace(lease.usage, output=output)

    def stats(self) -> dict[str, int]:
        """Counters since the last reset.

        For each tier the tokens this instance read, wrote and evicted, and those that are there now.
        """
        names = [
            f"{what}_{store.tier.name}"
            for store in self._stores
            for what in ("read_tokens", "written_tokens", "evicted_tokens")
        ]
        now = {f"tokens_{store.tier.name}": store.n_tokens for store in self._stores}
        return dict.fromkeys((*_COUNTERS, *names), 0) | dict(self._counters) | now

    def reset(self) -> None:
        """Forget everything, shared tiers too."""
        for store in self._stores:
            store.reset()
        self._in_flight.clear()
        self._counters.clear()

    # Looking
    # ------------------------------------------------------------------------------------------------------------------------

    def _find(self, prompt: P) -> _TierLookup:
        chunks, ends, end = self._chunking.chunks(prompt), [0] * len(self._stores), 0
        if self._chunking.n_readable(prompt) <= 0:
            return _TierLookup(chunks, ends, [])
        for level, store in enumerate(self._stores):
            reached = next((i for i in range(end, len(chunks)) if chunks[i].key not in store), len(chunks))
            if sum(chunk.n_tokens for chunk in chunks[end:reached]) >= store.tier.min_read_tokens:
                end = reached
            ends[level] = end
        by_content = []
        for index, chunk in enumerate(chunks[end:], end):
            for level, store in enumerate(self._stores if chunk.content else ()):
                if other := store.by_content(chunk.content):
                    by_content.append((index, level, other))
                    break
        return _TierLookup(chunks, ends, by_content)

    def _hit(self, prompt: P, found: _TierLookup) -> Hit:
        read = min(sum(chunk.n_tokens for chunk in found.chunks[: found.n_read]), self._chunking.n_readable(prompt))
        approximate = 0
        if reuse := self._chunking.reuse:  # of a re-used chunk a share is computed again
            sizes = [chunk.n_tokens for _, _, chunk in found.elsewhere]
            approximate = sum(size - ceil(size * reuse.recompute_share) for size in sizes)
        if read:
            return Hit(read, approximate, found.n_read - 1, "hit", None)
        reason = "first_write" if found.chunks else "below_minimum"
        if found.chunks and self._in_flight[found.chunks[0].key] > 0:
            reason = "not_yet_visible"
        return Hit(read, approximate, None, reason, None)

    def _bill(self, prompt: P, hit: Hit) -> Usage:
        return Usage(self._chunking.n_tokens(prompt) - hit.read_tokens, hit.read_tokens, 0, 0, 0)

    # Moving
    # -------------------------------------------------------------------------------------------------------------------------

    def _rise(self, found: _TierLookup) -> None:
        """From the lowest tier up: renew what is read there, the last chunk first, and take in what was read below.

        A selective tier takes what the tier above saw used again.
        """
        held = {chunk.key for chunk in (*found.chunks, *(there for _, _, there in found.elsewhere))}
        for level in reversed(range(len(self._stores))):
            store, here = self._stores[level], found.at(level)
            for chunk in reversed(here):
                store.hit(chunk.key)
            if store.tier.is_promoted_to:
                self._put(level, found.chunks[found.ends[level] : found.n_read], held)
            if level + 1 < len(self._stores) and self._stores[level + 1].tier.write == "selective":
                self._put(level + 1, [chunk for chunk in here if store.uses(chunk.key) > 1], held)

    def _put(self, level: int, chunks: Sequence[Chunk], held: set[bytes]) -> None:
        """Store in a tier; what has to go sinks, where the tier below takes that."""
        store = self._stores[level]
        stored, evicted = store.put(chunks, held)
        self._counters[f"written_tokens_{store.tier.name}"] += sum(chunk.n_tokens for chunk in stored)
        self._counters[f"evicted_tokens_{store.tier.name}"] += sum(chunk.n_tokens for chunk in evicted)
        if level + 1 < len(self._stores) and self._stores[level + 1].tier.write == "on_eviction":
            for chunk in evicted:
                self._put(level + 1, [chunk], held)

    def _new(self, found: _TierLookup) -> list[Chunk]:
        """Return what is stored once it is computed: exact up to the first approximate chunk, known by its own tokens
        only from there on.
        """
        exact = found.elsewhere[0][0] if found.elsewhere else len(found.chunks)
        loose = (replace(chunk, key=chunk.content) for chunk in found.chunks[exact:] if chunk.content)
        return [*found.chunks[found.n_read : exact], *loose]

    def _count(self, lease: Lease, found: _TierLookup) -> None:
        hit = lease.hit
        self._counters["requests"] += 1
        self._counters["hits" if hit.reason == "hit" else f"miss_{hit.reason}"] += 1
        self._counters["read_tokens"] += hit.read_tokens
        self._counters["fresh_tokens"] += lease.usage.fresh or 0
        self._counters["approximate_tokens"] += hit.approximate_tokens
        for level, store in enumerate(self._stores):
            moved = [*found.at(level), *(chunk for _, there, chunk in found.elsewhere if there == level)]
            self._counters[f"read_tokens_{store.tier.name}"] += sum(chunk.n_tokens for chunk in moved)
