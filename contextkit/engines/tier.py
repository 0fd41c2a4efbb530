"""One tier of KV memory: a prompt's chunks and their keys, the order of eviction, and what the tier holds.

A chunk's key is chained to the key before it, so two prompts have equal keys at a place exactly when they agree up to
there. Its content is a key without that chain, for re-use at another place. A `TierStore` may be shared: several caches
given the same one see each other's chunks.

Executed on LMCache 0.5.6: chunks of 256 tokens, the last one only if it is full unless `save_unfull_chunk`; a hit on
the whole prompt reads one token less; the chunk's key holds model and tokens only, not the adapter
(`is_isolating=False`); the policies LRU, LFU, FIFO and MRU, of which LFU puts a key at frequency 1 and breaks ties by
who reached the frequency first; a held chunk is skipped, eviction is best effort, a request larger than all the room
leaves its head, a chunk that is there already is neither written nor renewed. SGLang's lower tiers chain from extra key
and salt (`is_isolating=True`). `tail_first` is LRU whose requests renew all they used when they are stored, the last
chunk first: what a radix tree that evicts leaves by age comes to (SGLang's device and host tiers). Documented for
CacheBlend in LMCache: segments end at a separator and are known by their own tokens, from 256 tokens on.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice, pairwise
from types import MappingProxyType
from typing import Literal, Protocol, TypeVar

from contextkit.engines.token_ids import N_BYTES, BlockIds, TokenIds, pack, packed_bytes
from contextkit.errors import UsageError

P = TypeVar("P", contravariant=True)
_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a prompt that is stored as one."""

    key: bytes
    """Stands for everything up to and including it; equal to `content` for one that is known by its own tokens only."""
    content: bytes
    """Stands for its own tokens wherever they are; empty where it may not be re-used elsewhere."""
    n_tokens: int
    """Its size in tokens."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """Re-use of a chunk behind another beginning (CacheBlend, arXiv 2405.16444): approximate, so never a hit."""

    recompute_share: float = 0.15
    """Share of its tokens that is computed again, rounded up."""
    min_tokens: int = 256
    """Shorter chunks are not re-used."""


class Chunking(Protocol[P]):
    """How one kind of prompt is cut."""

    @property
    def reuse(self) -> Reuse | None:
        """Return whether and how chunks are re-used at another place."""
        ...

    def chunks(self, prompt: P) -> list[Chunk]:
        """Cut the prompt into the chunks that are stored, from the front."""
        ...

    def n_tokens(self, prompt: P) -> int:
        """Its size."""
        ...

    def n_readable(self, prompt: P) -> int:
        """Count its tokens that may be read."""
        ...


@dataclass(frozen=True, slots=True)
class TokenChunks:
    """Token ids in chunks of one size, or in segments that end at a separator.

    >>> [chunk.n_tokens for chunk in TokenChunks(saves_partial=True).chunks(TokenIds(range(600)))]
    [256, 256, 88]
    >>> [chunk.n_tokens for chunk in TokenChunks(separator=(0, 0)).chunks(TokenIds([5, 6, 0, 0, 7, 0, 0, 8]))]
    [4, 3]
    """

    size: int = 256
    """Tokens in a chunk."""
    saves_partial: bool = False
    """Whether what is left at the end is a chunk too."""
    separator: tuple[int, ...] = ()
    """Tokens that end a segment; empty for chunks of one size."""
    is_isolating: bool = True
    """Whether the adapter and the salt are part of the key."""
    namespace: bytes = b""
    """What else must be equal: the model, its precision, the part of it an instance runs."""
    reuse: Reuse | None = None
    """Whether and how chunks are re-used at another place."""

    def chunks(self, prompt: TokenIds) -> list[Chunk]:
        """Cut the prompt into the chunks that are stored, from the front."""
        data = packed_bytes(prompt)
        ends = [0, *(self._separated(data) if self.separator else range(self.size, len(prompt.tokens) + 1, self.size))]
        if self.saves_partial and ends[-1] < len(prompt.tokens):
            ends.append(len(prompt.tokens))
        pieces = ((end - start, data[start * N_BYTES : end * N_BYTES]) for start, end in pairwise(ends))
        return _chained(self._root(prompt), pieces, self.reuse)

    def n_tokens(self, prompt: TokenIds) -> int:
        """Its size."""
        return len(prompt.tokens)

    def n_readable(self, prompt: TokenIds) -> int:
        """All but the last token, whose logits are wanted; nothing where the prompt reads nothing."""
        return 0 if prompt.is_read_skipped else max(0, len(prompt.tokens) - 1)

    def _separated(self, data: bytes) -> Iterator[int]:
        """Yield where segments end, the separator included."""
        mark, at = pack(self.separator), 0
        while (found := data.find(mark, at)) >= 0:
            at = found + 1
            if found % N_BYTES == 0:
                at = found + len(mark)
                yield at // N_BYTES

    def _root(self, prompt: TokenIds) -> bytes:
        adapter = (prompt.adapter.name, prompt.adapter.path) if prompt.adapter else None
        return repr((self.namespace, (adapter, prompt.salt or None) if self.is_isolating else None)).encode()


@dataclass(frozen=True, slots=True)
class BlockChunks:
    """Block ids, one to a chunk.

    >>> [chunk.n_tokens for chunk in BlockChunks().chunks(BlockIds(16, [4, 5, 6]))]
    [16, 16, 16]
    """

    @property
    def reuse(self) -> Reuse | None:
        """None: an id stands for all blocks before it, so nothing is known by its own tokens."""
        return None

    def chunks(self, prompt: BlockIds) -> list[Chunk]:
        """Cut the prompt into the chunks that are stored, from the front."""
        pieces = ((prompt.size, array("q", (block,)).tobytes()) for block in prompt.ids)
        return _chained(repr(prompt.size).encode(), pieces, None)

    def n_tokens(self, prompt: BlockIds) -> int:
        """Its size, every id a full block."""
        return prompt.size * len(prompt.ids)

    def n_readable(self, prompt: BlockIds) -> int:
        """All of it."""
        return self.n_tokens(prompt)


def _chained(root: bytes, pieces: Iterator[tuple[int, bytes]], reuse: Reuse | None) -> list[Chunk]:
    alone = _digest(b"alone", root)
    key, chunks = _digest(b"chain", root), []
    for n_tokens, data in pieces:
        key = _digest(key, data)
        content = _digest(alone, data) if reuse and n_tokens >= reuse.min_tokens else b""
        chunks.append(Chunk(key, content, n_tokens))
    return chunks


def _digest(before: bytes, data: bytes) -> bytes:
    return blake2b(before + data, digest_size=_KEY_BYTES).digest()


class Policy(Protocol):
    """The order of one tier."""

    def put(self, key: bytes) -> None:
        """A key is new."""
        ...

    def hit(self, key: bytes) -> None:
        """A key is used."""
        ...

    def drop(self, key: bytes) -> None:
        """A key is gone."""
        ...

    def order(self) -> Iterator[bytes]:
        """All keys, the next to be evicted first."""
        ...


class Recency:
    """Keys in a row: put at the end, moved there by a hit or not, evicted from the front or from the end."""

    def __init__(self, *, is_renewed_by_hit: bool = True, is_newest_first: bool = False) -> None:
        self._keys: OrderedDict[bytes, None] = OrderedDict()
        self._is_renewed_by_hit = is_renewed_by_hit
        self._is_newest_first = is_newest_first

    def put(self, key: bytes) -> None:
        """To the end."""
        self._keys[key] = None

    def hit(self, key: bytes) -> None:
        """To the end, where hits renew."""
        if self._is_renewed_by_hit:
            self._keys.move_to_end(key)

    def drop(self, key: bytes) -> None:
        """Out of the row."""
        del self._keys[key]

    def order(self) -> Iterator[bytes]:
        """From the front, or from the end."""
        return reversed(self._keys) if self._is_newest_first else iter(self._keys)


class Frequency:
    """Least often used first; among equals the one that got there first."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._buckets: dict[int, OrderedDict[bytes, None]] = {}

    def put(self, key: bytes) -> None:
        """Frequency 1."""
        self._to(key, 1)

    def hit(self, key: bytes) -> None:
        """One more."""
        count = self._counts[key]
        self.drop(key)
        self._to(key, count + 1)

    def drop(self, key: bytes) -> None:
        """Out of its bucket."""
        count = self._counts.pop(key)
        del self._buckets[count][key]
        if not self._buckets[count]:
            del self._buckets[count]

    def order(self) -> Iterator[bytes]:
        """Bucket by bucket."""
        for count in sorted(self._buckets):
            yield from self._buckets[count]

    def _to(self, key: bytes, count: int) -> None:
        self._counts[key] = count
        self._buckets.setdefault(count, OrderedDict())[key] = None


POLICIES: Mapping[str, Callable[[], Policy]] = MappingProxyType(
    {
        "lru": Recency,
        "lfu": Frequency,
        "fifo": lambda: Recency(is_renewed_by_hit=False),
        "mru": lambda: Recency(is_newest_first=True),
        "tail_first": Recency,
    }
)
"""Name → an empty order."""
RENEWING = frozenset({"tail_first"})
"""Policies under which storing a request renews all it used, its last chunk first."""


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
    policy: str = "lru"
    """What goes first: a key of `POLICIES`."""
    write: Write = "through"
    """When it gets a chunk; the first tier gets each when it is computed."""
    is_promoted_to: bool = True
    """Whether what is read from a tier below is put here too."""
    min_read_tokens: int = 1
    """Fewer tokens are not worth reading from here."""


def tiers_of(gpu: int | None, host: int | None, disk: int | None, policy: str) -> tuple[Tier, ...]:
    """Return the tiers of an instance by their sizes, without a disk if that is None or 0; each gets what is computed."""
    sizes = {"gpu": gpu, "host": host, **({"disk": disk} if disk else {})}
    return tuple(Tier(name, size, policy) for name, size in sizes.items())


@dataclass(slots=True)
class _Entry:
    """A chunk in a tier."""

    chunk: Chunk
    """What it is."""
    uses: int = 1
    """How often it was put or read here."""


class TierStore:
    """What one tier holds now.

    >>> store = TierStore(Tier("host", capacity_tokens=2))
    >>> one, two, three = (Chunk(key, b"", 1) for key in (b"1", b"2", b"3"))
    >>> stored, evicted = store.put([one, two], held=())
    >>> store.hit(b"1")
    >>> [gone.key for gone in store.put([three], held=())[1]]
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

    def by_content(self, content: bytes) -> Chunk | None:
        """A chunk with these very tokens, wherever it stood."""
        keys = self._contents.get(content)
        return self._entries[next(iter(keys))].chunk if keys else None

    def uses(self, key: bytes) -> int:
        """Count how often a chunk was put or read here; 0 if it is not there."""
        entry = self._entries.get(key)
        return entry.uses if entry else 0

    def evictable(self, n: int, held: Collection[bytes]) -> list[bytes]:
        """The next `n` keys to go, fewer where the rest is held."""
        return list(islice((key for key in self._policy.order() if key not in held), n))

    def hit(self, key: bytes) -> None:
        """A chunk is read."""
        self._entries[key].uses += 1
        self._policy.hit(key)

    def renew(self, chunks: Sequence[Chunk]) -> None:
        """These are the newest now, the first of them the newest of all; what is not there is left out."""
        for chunk in reversed(chunks):
            if chunk.key in self._entries:
                self._policy.hit(chunk.key)

    def put(self, chunks: Sequence[Chunk], held: Collection[bytes]) -> tuple[list[Chunk], list[Chunk]]:
        """Store what is not there, from the front as far as there is room; gives what was stored and what had to go."""
        new = self._lacking(chunks)
        evicted = self._make_room(sum(chunk.n_tokens for chunk in new), held) if new else []
        stored = []
        for chunk in new:
            if not self._fits(chunk.n_tokens):
                break
            self._add(chunk)
            stored.append(chunk)
        return stored, evicted

    def drop(self, keys: Collection[bytes]) -> None:
        """Forget these, where they are: somebody outside said so, or took them for eviction."""
        for entry in [self._entries[key] for key in keys if key in self._entries]:
            self._drop(entry.chunk)

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

    def _fits(self, n_tokens: int) -> bool:
        capacity = self.tier.capacity_tokens
        return capacity is None or self.n_tokens + n_tokens <= capacity

    def _make_room(self, n_tokens: int, held: Collection[bytes]) -> list[Chunk]:
        evicted: list[Chunk] = []
        freed = 0
        for key in self._policy.order():
            if self._fits(n_tokens - freed):
                break
            if key not in held:
                evicted.append(self._entries[key].chunk)
                freed += evicted[-1].n_tokens
        for chunk in evicted:
            self._drop(chunk)
        return evicted

    def _add(self, chunk: Chunk) -> None:
        self._policy.put(chunk.key)
        self._entries[chunk.key] = _Entry(chunk)
        if chunk.content:
            self._contents.setdefault(chunk.content, {})[chunk.key] = None
        self.n_tokens += chunk.n_tokens

    def _drop(self, chunk: Chunk) -> None:
        del self._entries[chunk.key]
        self._policy.drop(chunk.key)
        if chunk.content:
            del self._contents[chunk.content][chunk.key]
            if not self._contents[chunk.content]:
                del self._contents[chunk.content]
        self.n_tokens -= chunk.n_tokens


def _check(tier: Tier) -> None:
    if tier.policy not in POLICIES:
        raise UsageError(f"tier {tier.name!r} has policy {tier.policy!r}: use one of {', '.join(POLICIES)}")
    if tier.write not in _WRITES:
        raise UsageError(f"tier {tier.name!r} has write {tier.write!r}: use one of {', '.join(_WRITES)}")
    if tier.capacity_tokens is not None and tier.capacity_tokens <= 0:
        raise UsageError(
            f"tier {tier.name!r} has capacity_tokens {tier.capacity_tokens}: it must be above 0, or None for no end"
        )
