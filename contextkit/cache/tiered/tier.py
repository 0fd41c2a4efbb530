"""One tier of memory: what it is, and what it holds.

Takes chunks, the keys nobody may evict now, and the clock; gives what had to go. Knows nothing of other tiers or of
prompts. A `TierStore` may be shared: several caches given the same one see each other's chunks.

Executed on LMCache 0.5.6: a held chunk is skipped, eviction is best effort, a request larger than all the room leaves
its head, a chunk that is there already is neither written nor renewed. Documented for Mooncake's store: room is made
above 90 % usage, 5 % at once, and not from objects read within the last 10 s.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Any, Literal

from contextkit.cache.tiered.chunking import Chunk
from contextkit.cache.tiered.policies import POLICIES
from contextkit.errors import UsageError

Write = Literal["through", "on_eviction", "selective"]
"""When a tier below the first gets a chunk: when it is computed; when the tier above evicts it; when the tier above
sees it used again."""
_WRITES = ("through", "on_eviction", "selective")


@dataclass(frozen=True, slots=True)
class Tier:
    """What one tier is."""

    name: str
    """As the counters call it."""
    capacity_tokens: int | None = None
    """Tokens it holds, None for no end."""
    capacity_bytes: int | None = None
    """Bytes it holds, None for no end."""
    bytes_per_second: float = inf
    """How fast it is read and written."""
    policy: str = "lru"
    """What goes first: a key of `POLICIES`."""
    write: Write = "through"
    """When it gets a chunk; the first tier gets each when it is computed."""
    is_promoted_to: bool = True
    """Whether what is read from a tier below is put here too."""
    min_read_tokens: int = 1
    """Fewer tokens are not worth reading from here."""
    full_at: float = 1.0
    """Share of the capacity above which room is made."""
    freed_share: float = 0.0
    """Share of the capacity that is freed beyond the need once room is made."""
    lease_seconds: float = 0.0
    """How long what was read is safe from eviction."""


@dataclass(slots=True)
class _Entry:
    """A chunk in a tier."""

    chunk: Chunk
    """What it is."""
    uses: int = 1
    """How often it was put or read here."""
    leased_until: float = -inf
    """Safe from eviction until then."""


class TierStore:
    """What one tier holds now.

    >>> store = TierStore(Tier("host", capacity_tokens=2))
    >>> one, two, three = (Chunk(key, b"", 1, 8) for key in (b"1", b"2", b"3"))
    >>> stored, evicted = store.put([one, two], held=(), now=0.0)
    >>> store.hit(b"1", now=1.0)
    >>> [gone.key for gone in store.put([three], held=(), now=2.0)[1]]
    [b'2']
    """

    def __init__(self, tier: Tier) -> None:
        """An empty one; raises `UsageError` for a tier that cannot be."""
        _check(tier)
        self.tier = tier
        self.reset()

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def reset(self) -> None:
        """Forget everything."""
        self._policy = POLICIES[self.tier.policy]()
        self._entries: dict[bytes, _Entry] = {}
        self._contents: dict[bytes, dict[bytes, None]] = {}
        self.n_tokens = 0
        self.n_bytes = 0

    def elsewhere(self, content: bytes) -> Chunk | None:
        """A chunk with these very tokens, wherever it stood."""
        keys = self._contents.get(content)
        return self._entries[next(iter(keys))].chunk if keys else None

    def uses(self, key: bytes) -> int:
        """How often a chunk was put or read here, 0 for one that is not there."""
        entry = self._entries.get(key)
        return entry.uses if entry else 0

    def evictable(self, n: int, held: Collection[bytes], now: float) -> list[bytes]:
        """The next `n` keys to go, fewer where the rest is held or leased."""
        free = (key for key in self._policy.order() if key not in held and self._entries[key].leased_until <= now)
        return list(islice(free, n))

    def hit(self, key: bytes, now: float) -> None:
        """A chunk is read."""
        entry = self._entries[key]
        entry.uses += 1
        entry.leased_until = now + self.tier.lease_seconds
        self._policy.hit(key)

    def renew(self, chunks: Sequence[Chunk]) -> None:
        """These are the newest now, the first of them the newest of all; what is not there is left out."""
        for chunk in reversed(chunks):
            if chunk.key in self._entries:
                self._policy.hit(chunk.key)

    def put(self, chunks: Sequence[Chunk], held: Collection[bytes], now: float) -> tuple[list[Chunk], list[Chunk]]:
        """Store what is not there, from the front as far as there is room; gives what was stored and what had to go."""
        new = self._lacking(chunks)
        evicted = (
            self._make_room(sum(chunk.n_tokens for chunk in new), sum(chunk.n_bytes for chunk in new), held, now)
            if new
            else []
        )
        stored = []
        for chunk in new:
            if not self._fits(chunk.n_tokens, chunk.n_bytes, self.tier.full_at):
                break
            self._add(chunk)
            stored.append(chunk)
        return stored, evicted

    def drop(self, keys: Collection[bytes]) -> None:
        """Forget these, where they are: somebody outside said so, or took them for eviction."""
        for entry in [self._entries[key] for key in keys if key in self._entries]:
            self._drop(entry.chunk)

    def to_rows(self) -> list[list[Any]]:
        """Everything `from_rows` needs, as JSON: chunks in the order they came, each with its frequency and place in
        the policy's order.
        """
        places = {key: (count, place) for place, (key, count) in enumerate(self._policy.to_rows())}
        return [
            [
                key.hex(),
                *places[key],
                entry.chunk.content.hex(),
                entry.chunk.n_tokens,
                entry.chunk.n_bytes,
                entry.uses,
                entry.leased_until,
            ]
            for key, entry in self._entries.items()
        ]

    def from_rows(self, rows: Sequence[Sequence[Any]]) -> None:
        """Hold this and nothing else."""
        self.reset()
        order = []
        for key, count, place, content, n_tokens, n_bytes, uses, leased_until in rows:
            chunk = Chunk(bytes.fromhex(key), bytes.fromhex(content), n_tokens, n_bytes)
            self._index(chunk, _Entry(chunk, uses, -inf if leased_until is None else leased_until))
            order.append((place, chunk.key, int(count)))
        self._policy.from_rows([(key, count) for _, key, count in sorted(order)])

    def _lacking(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Those that are not there; one that is known by its own tokens only is there as soon as those are."""
        new: list[Chunk] = []
        contents: set[bytes] = set()
        for chunk in chunks:
            is_alone = chunk.key == chunk.content
            is_there = (
                chunk.content in self._contents or chunk.content in contents if is_alone else chunk.key in self._entries
            )
            if not is_there:
                new.append(chunk)
                contents.add(chunk.content)
        return new

    def _fits(self, n_tokens: int, n_bytes: int, share: float) -> bool:
        tier = self.tier
        has_tokens = tier.capacity_tokens is None or self.n_tokens + n_tokens <= tier.capacity_tokens * share
        return has_tokens and (tier.capacity_bytes is None or self.n_bytes + n_bytes <= tier.capacity_bytes * share)

    def _make_room(self, n_tokens: int, n_bytes: int, held: Collection[bytes], now: float) -> list[Chunk]:
        tier = self.tier
        evicted: list[Chunk] = []
        if self._fits(n_tokens, n_bytes, tier.full_at):
            return evicted
        n_before = self.n_tokens, self.n_bytes
        for key in self._policy.order():
            entry = self._entries[key]
            if key in held or entry.leased_until > now:
                continue
            evicted.append(entry.chunk)
            self.n_tokens, self.n_bytes = self.n_tokens - entry.chunk.n_tokens, self.n_bytes - entry.chunk.n_bytes
            if self._fits(n_tokens, n_bytes, tier.full_at - tier.freed_share):
                break
        self.n_tokens, self.n_bytes = n_before
        for chunk in evicted:
            self._drop(chunk)
        return evicted

    def _add(self, chunk: Chunk) -> None:
        self._index(chunk, _Entry(chunk))
        self._policy.put(chunk.key)

    def _index(self, chunk: Chunk, entry: _Entry) -> None:
        self._entries[chunk.key] = entry
        if chunk.content:
            self._contents.setdefault(chunk.content, {})[chunk.key] = None
        self.n_tokens += chunk.n_tokens
        self.n_bytes += chunk.n_bytes

    def _drop(self, chunk: Chunk) -> None:
        del self._entries[chunk.key]
        self._policy.drop(chunk.key)
        if chunk.content:
            del self._contents[chunk.content][chunk.key]
            if not self._contents[chunk.content]:
                del self._contents[chunk.content]
        self.n_tokens -= chunk.n_tokens
        self.n_bytes -= chunk.n_bytes


def _check(tier: Tier) -> None:
    if tier.policy not in POLICIES:
        raise UsageError(f"tier {tier.name!r} has policy {tier.policy!r}: use one of {', '.join(POLICIES)}")
    if tier.write not in _WRITES:
        raise UsageError(f"tier {tier.name!r} has write {tier.write!r}: use one of {', '.join(_WRITES)}")
    for name in ("capacity_tokens", "capacity_bytes", "bytes_per_second"):
        value = getattr(tier, name)
        if value is not None and value <= 0:
            raise UsageError(f"tier {tier.name!r} has {name} {value}: it must be above 0, or None for no end")
    if not 0 <= tier.freed_share < tier.full_at <= 1:
        raise UsageError(
            f"tier {tier.name!r} frees {tier.freed_share} above {tier.full_at}: shares of the whole, the first the smaller"
        )
