"""The engines that a trace of block ids can be replayed on, by name; several instances, and which one a request goes to.

Here a block is the unit: engines that count in tokens are given a block as one token, so every hit is in whole blocks.
Assumed: requests do not overlap, and what is generated has no ids. llama.cpp and transformers always compute the last
token of a prompt again, so there the last block of a repeated prompt is never read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any, Protocol
from zlib import crc32

from contextkit.cache.prefix_cache import PrefixCache
from contextkit.engines.block_runs import Runs
from contextkit.engines.block_trace import BlockRequest
from contextkit.engines.llamacpp import SlotCache
from contextkit.engines.llamacpp_server import HostShape, slot_shape
from contextkit.engines.sglang_tree import POLICIES as RADIX_POLICIES
from contextkit.engines.sglang_tree import RadixTree
from contextkit.engines.tier import POLICIES as TIER_POLICIES
from contextkit.engines.tier import BlockChunks, tiers_of
from contextkit.engines.tiered import TieredCache
from contextkit.engines.token_ids import BlockIds, TokenIds, pack
from contextkit.engines.transformers import PageCache, PageShape
from contextkit.errors import UsageError

HOST_RATIO = 2
"""Blocks of the host tier for each of the GPU where nobody says: the default of SGLang's HiCache (`--hicache-ratio`,
0.5.23)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One cache to replay a trace on."""

    cache: str = "vllm"
    """A key of `POLICIES`, or a hosted provider."""
    policy: str = "lru"
    """What is forgotten first; each cache has its own list."""
    capacity: int | None = None
    """Blocks one instance holds, None for no end; for llamacpp those of its host cache."""
    instances: int = 1
    """How many of it there are."""
    n_slots: int | None = None
    """llamacpp: requests served at a time; None for four that share one memory."""
    host_capacity: int | None = None
    """tiered: blocks of the tier below the GPU; None for `HOST_RATIO` times as many as the GPU has."""
    disk_capacity: int | None = None
    """tiered: blocks of a disk below the host; None for no disk."""


class Engine(Protocol):
    """One instance."""

    def admit(self, ids: Sequence[int]) -> int:
        """Use a whole request at once: how many leading blocks were there."""
        ...

    def find(self, ids: Sequence[int]) -> int:
        """Count the leading blocks that are held; changes nothing."""
        ...

    @property
    def n_evicted(self) -> int | None:
        """Blocks forgotten to make room, None where the engine does not count them."""
        ...


class _Numbered:
    """Any ids as numbers that fit into 32 bits."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def __call__(self, ids: Sequence[int]) -> list[int]:
        numbers = self._numbers
        return [numbers.setdefault(block, len(numbers)) for block in ids]


class RadixEngine:
    """SGLang's tree: whole leaves are forgotten before a request comes in, but nothing of what it reads.

    A request longer than all the room is computed without leaving anything.
    """

    def __init__(self, capacity: int | None, policy: str) -> None:
        self._capacity = inf if capacity is None else capacity
        self._tree, self._numbered = RadixTree(page=1, policy=policy), _Numbered()
        self.n_evicted = 0

    def admit(self, ids: Sequence[int]) -> int:
        """Use a whole request at once: how many leading blocks were there."""
        tokens = pack(self._numbered(ids))
        match = self._tree.match(tokens)
        self._tree.lock(match.node)
        short = self._tree.total + len(ids) - match.length - self._capacity
        if short <= self._tree.evictable:
            self.n_evicted += sum(map(len, self._tree.evict(int(short)))) if short > 0 else 0
            self._tree.insert(tokens)
        self._tree.unlock(match.node)
        return match.length

    def find(self, ids: Sequence[int]) -> int:
        """Count the leading blocks that are held; changes nothing."""
        return self._tree.measure(pack(self._numbered(ids)))


class CacheEngine:
    """A cache over prompts: llama.cpp's slots and host cache, transformers' pages, or GPU blocks above host blocks as
    with LMCache.
    """

    def __init__(
        self,
        cache: PrefixCache[Any],
        prompt_of: Callable[[Sequence[int]], Any],
        evicted: str = "",
        n_output: int = 0,
    ) -> None:
        """`prompt_of` makes a prompt of block ids; `evicted` is the counter of blocks that are gone, "" where nothing
        counts them; a reply is `n_output` tokens that no prompt holds.
        """
        self._cache, self._prompt_of, self._evicted, self._n_output = cache, prompt_of, evicted, n_output

    def admit(self, ids: Sequence[int]) -> int:
        """Use a whole request at once: how many leading blocks were there."""
        lease = self._cache.begin(self._prompt_of(ids), 0.0)
        self._cache.publish(lease, 0.0)
        self._cache.end(lease, self._n_output, 0.0)
        return lease.hit.read_tokens

    def find(self, ids: Sequence[int]) -> int:
        """Count the leading blocks that are held; changes nothing."""
        return self._cache.lookup(self._prompt_of(ids), 0.0).read_tokens

    @property
    def n_evicted(self) -> int | None:
        """Blocks this instance forgot to make room; of tiers, those of the lowest."""
        return self._cache.stats()[self._evicted] if self._evicted else None


POLICIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "vllm": ("lru",),
        "sglang": tuple(name for name in RADIX_POLICIES if name != "priority"),
        "llamacpp": ("lru",),
        "transformers": ("all",),
        "tiered": tuple(name for name in TIER_POLICIES if name != "tail_first"),
    }
)
"""Engine → its orders of eviction, its own first. A trace holds no priorities, so that policy of SGLang's is left out;
`lru` of a tier is its `tail_first`; `all` is everything that no request holds, at once."""


def build(setting: Setting) -> list[Engine]:
    """Empty instances of a cache.

    Raises `UsageError` for a name, a policy or a size there is not, naming those there are.
    """
    if setting.cache not in POLICIES:
        raise UsageError(f"{setting.cache!r} is no engine for block ids: use one of {', '.join(POLICIES)}")
    if setting.policy not in POLICIES[setting.cache]:
        names = ", ".join(POLICIES[setting.cache])
        raise UsageError(f"{setting.cache} has no policy {setting.policy!r}: use one of {names}")
    if setting.instances < 1 or (setting.capacity is not None and setting.capacity < 1):
        raise UsageError(
            f"{setting.instances} instances of {setting.capacity} blocks hold nothing: pass 1 or more of each"
        )
    return [_instance(setting) for _ in range(setting.instances)]


def _instance(setting: Setting) -> Engine:
    capacity = setting.capacity
    if setting.cache == "vllm":
        return Runs(inf if capacity is None else capacity)
    if setting.cache == "sglang":
        return RadixEngine(capacity, setting.policy)
    if setting.cache == "llamacpp":
        host = HostShape(capacity, token_bytes=1)
        numbered, shape = _Numbered(), slot_shape(setting.n_slots, host=host)
        return CacheEngine(SlotCache(shape), lambda ids: TokenIds(numbered(ids)))
    if setting.cache == "transformers":
        numbered, pages = _Numbered(), PageCache(PageShape(capacity, page=1))
        # with a second token there is a pass after the prompt's, before which room is made as for any real reply
        return CacheEngine(pages, lambda ids: TokenIds(numbered(ids)), "blocks_evicted", n_output=2)
    room = setting.host_capacity
    if room is None and capacity is not None:
        room = HOST_RATIO * capacity
    policy = "tail_first" if setting.policy == "lru" else setting.policy
    tiers = tiers_of(capacity, room, setting.disk_capacity, policy)
    return CacheEngine(
        TieredCache(BlockChunks(), tiers), lambda ids: BlockIds(1, ids), f"evicted_tokens_{tiers[-1].name}"
    )


class Fleet:
    """Instances behind a router."""

    def __init__(self, setting: Setting, routing: str) -> None:
        """Empty instances; raises `UsageError` for a setting or a routing there is not."""
        if routing not in ROUTINGS:
            raise UsageError(f"{routing!r} is no routing: use one of {', '.join(ROUTINGS)}")
        self.engines = engines = build(setting)
        self.served = [0] * len(engines)
        """Blocks each instance was asked for."""
        self.n_requests = 0
        self._route = ROUTINGS[routing]
        self._is_single = len(engines) == 1

    def admit(self, request: BlockRequest) -> int:
        """Send a request to its instance: how many leading blocks were there."""
        chosen = 0 if self._is_single else self._route(self, request)
        self.served[chosen] += len(request.ids)
        self.n_requests += 1
        return self.engines[chosen].admit(request.ids)

    @property
    def n_evicted(self) -> int | None:
        """Blocks all of them forgot to make room, None where they do not count."""
        counts = [engine.n_evicted for engine in self.engines]
        return None if None in counts else sum(count or 0 for count in counts)


def _prefix(fleet: Fleet, request: BlockRequest) -> int:
    """Choose the instance that holds most of the request; of several that hold as much, the one that served least."""
    hits = [engine.find(request.ids) for engine in fleet.engines]
    return max(range(len(hits)), key=lambda index: (hits[index], -fleet.served[index]))


ROUTINGS: Mapping[str, Callable[[Fleet, BlockRequest], int]] = MappingProxyType(
    {
        "round-robin": lambda fleet, request: fleet.n_requests % len(fleet.engines),
        "session": lambda fleet, request: crc32(request.session.encode()) % len(fleet.engines),
        "prefix": _prefix,
    }
)
"""Name → index of the instance: in turn; by a hash of the session; where the longest prefix is."""
