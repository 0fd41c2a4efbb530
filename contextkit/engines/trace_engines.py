"""The engines that a trace of block ids can be replayed on, by name, with the orders of eviction each of them has.

Takes a `Setting`, gives engines that are handed whole requests; knows nothing of files. Here a block is the unit:
engines that count in tokens are given a block as one token, so every hit is in whole blocks. Assumed: requests do not
overlap, and what is generated has no ids. llama.cpp always computes the last token of a prompt again, so there the last
block of a repeated prompt is never read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Protocol

from contextkit.engines.block_runs import Order, TraceCache
from contextkit.engines.llamacpp import SlotCache
from contextkit.engines.llamacpp_server import SlotShape
from contextkit.engines.sglang_tree import POLICIES as RADIX_POLICIES
from contextkit.engines.sglang_tree import RadixTree
from contextkit.engines.tier import POLICIES as TIER_POLICIES
from contextkit.engines.tier import BlockChunks, Tier, TierStore
from contextkit.engines.tiered import TieredCache
from contextkit.engines.token_ids import BlockIds, TokenIds, pack
from contextkit.errors import UsageError

ORDERS = ("tail-first", "in-order")
"""Which block of a request counts as used last: its first one (vLLM, SGLang, LMCache), or its last."""
HOST_RATIO = 2
"""Blocks of the host tier for each of the GPU where nobody says: the default of SGLang's HiCache (`--hicache-ratio`,
0.5.23)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One cache to replay a trace on."""

    cache: str = "vllm"
    """A key of `CACHES`."""
    policy: str = "lru"
    """What is forgotten first; each cache has its own list."""
    order: str = "tail-first"
    """One of `ORDERS`; it matters to `lru` of vllm and tiered."""
    capacity: int | None = None
    """Blocks one instance holds, None for no end; for llamacpp those of its host cache."""
    instances: int = 1
    """How many of it there are."""
    n_slots: int = 1
    """llamacpp: requests served at a time."""
    host_capacity: int | None = None
    """tiered: blocks of the tier below the GPU; None for `HOST_RATIO` times as many as the GPU has."""
    is_host_shared: bool = False
    """tiered: whether all instances have one host tier together."""


class Engine(Protocol):
    """One instance."""

    def admit(self, ids: Sequence[int]) -> int:
        """Use a whole request at once: how many leading blocks were there."""
        ...

    def find(self, ids: Sequence[int]) -> int:
        """How many leading blocks are there; changes nothing."""
        ...

    @property
    def n_evicted(self) -> int | None:
        """Blocks forgotten to make room, None where the engine does not count them."""
        ...


class TraceEngine:
    """vLLM's pool over block ids, or that pool under another policy."""

    def __init__(self, capacity: int | None, order: Order) -> None:
        self._cache = TraceCache(capacity, order)
        self.admit = self._cache.admit
        """Use a whole request at once."""

    def find(self, ids: Sequence[int]) -> int:
        """How many leading blocks are there; changes nothing."""
        return self._cache.lookup(BlockIds(1, ids), 0.0).read_tokens

    @property
    def n_evicted(self) -> int:
        """Blocks forgotten to make room."""
        return self._cache.stats()["blocks_evicted"]


class QueueEngine:
    """Blocks go in the order they came, used since or not (FIFO): no engine does that, it is here to compare with."""

    def __init__(self, capacity: int | None) -> None:
        self._capacity = inf if capacity is None else capacity
        self._held: OrderedDict[int, None] = OrderedDict()
        self.n_evicted = 0

    def admit(self, ids: Sequence[int]) -> int:
        """Use a whole request at once: how many leading blocks were there."""
        n_hits = self.find(ids)
        for block in ids:
            if block not in self._held:
                if len(self._held) >= self._capacity:
                    self._held.popitem(last=False)
                    self.n_evicted += 1
                self._held[block] = None
        return n_hits

    def find(self, ids: Sequence[int]) -> int:
        """How many leading blocks are there; changes nothing."""
        return next((index for index, block in enumerate(ids) if block not in self._held), len(ids))


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
        """How many leading blocks are there; changes nothing."""
        return self._tree.measure(pack(self._numbered(ids)))


class SlotEngine:
    """llama.cpp's slots and its host cache, which does not count what it drops."""

    n_evicted = None

    def __init__(self, capacity: int | None, n_slots: int) -> None:
        self._cache, self._numbered = SlotCache(SlotShape(n_slots=n_slots, n_host_tokens=capacity)), _Numbered()

    def admit(self, ids: Sequence[int]) -> int:
        """Use a whole request at once: how many leading blocks were there."""
        lease = self._cache.begin(TokenIds(self._numbered(ids)), 0.0)
        self._cache.publish(lease, 0.0)
        self._cache.end(lease, 0, 0.0)
        return lease.hit.read_tokens

    def find(self, ids: Sequence[int]) -> int:
        """How many leading blocks are there; changes nothing."""
        return self._cache.lookup(TokenIds(self._numbered(ids)), 0.0).read_tokens


class TieredEngine:
    """GPU blocks above host blocks, as with LMCache; gone is what the host tier forgot."""

    def __init__(self, tiers: Sequence[Tier], shared: Sequence[TierStore]) -> None:
        self._cache = TieredCache(BlockChunks(bytes_per_token=1), tiers, shared)
        self._lowest = (shared[-1].tier if shared else tiers[-1]).name

    def admit(self, ids: Sequence[int]) -> int:
        """Use a whole request at once: how many leading blocks were there."""
        lease = self._cache.begin(BlockIds(1, ids), 0.0)
        self._cache.publish(lease, 0.0)
        self._cache.end(lease, 0, 0.0)
        return lease.hit.read_tokens

    def find(self, ids: Sequence[int]) -> int:
        """How many leading blocks are there; changes nothing."""
        return self._cache.lookup(BlockIds(1, ids), 0.0).read_tokens

    @property
    def n_evicted(self) -> int:
        """Blocks the lowest tier forgot to make room for this instance."""
        return self._cache.stats()[f"evicted_tokens_{self._lowest}"]


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be asked of one cache."""

    policies: tuple[str, ...]
    """Its orders of eviction; the first is its own."""
    build: Callable[[Setting], list[Engine]]
    """Empty instances."""


_POOLS: Mapping[tuple[str, str], Callable[[int | None], Engine]] = MappingProxyType(
    {
        ("lru", "tail-first"): lambda capacity: TraceEngine(capacity, "tail_first"),
        ("lru", "in-order"): lambda capacity: TraceEngine(capacity, "in_order"),
        **{("lfu", order): lambda capacity: TraceEngine(capacity, "lfu") for order in ORDERS},
        **{("length-aware", order): lambda capacity: TraceEngine(capacity, "length_aware") for order in ORDERS},
        **{("fifo", order): QueueEngine for order in ORDERS},
    }
)


def _pools(setting: Setting) -> list[Engine]:
    build = _POOLS[setting.policy, setting.order]
    return [build(setting.capacity) for _ in range(setting.instances)]


def _trees(setting: Setting) -> list[Engine]:
    return [RadixEngine(setting.capacity, setting.policy) for _ in range(setting.instances)]


def _slots(setting: Setting) -> list[Engine]:
    return [SlotEngine(setting.capacity, setting.n_slots) for _ in range(setting.instances)]


def _tiered(setting: Setting) -> list[Engine]:
    policy = "tail_first" if (setting.policy, setting.order) == ("lru", "tail-first") else setting.policy
    room = setting.host_capacity
    if room is None and setting.capacity is not None:
        room = HOST_RATIO * setting.capacity
    gpu, host = Tier("gpu", setting.capacity, policy=policy), Tier("host", room, policy=policy)
    if setting.is_host_shared:
        store = TierStore(host)
        return [TieredEngine((gpu,), (store,)) for _ in range(setting.instances)]
    return [TieredEngine((gpu, host), ()) for _ in range(setting.instances)]


CACHES: Mapping[str, Kind] = MappingProxyType(
    {
        "vllm": Kind(("lru", "lfu", "length-aware", "fifo"), _pools),
        "sglang": Kind(tuple(name for name in RADIX_POLICIES if name != "priority"), _trees),
        "llamacpp": Kind(("lru",), _slots),
        "tiered": Kind(tuple(name for name in TIER_POLICIES if name != "tail_first"), _tiered),
    }
)
"""Name → what it is. A trace holds no priorities, so that policy of SGLang's is left out; `tail_first` is an order
here."""


def build(setting: Setting) -> list[Engine]:
    """Empty instances of a cache.

    Raises `UsageError` for a name, a policy, an order or a size there is not, naming those there are.
    """
    if setting.cache not in CACHES:
        raise UsageError(f"{setting.cache!r} is no engine for block ids: use one of {', '.join(CACHES)}")
    kind = CACHES[setting.cache]
    if setting.policy not in kind.policies:
        raise UsageError(f"{setting.cache} has no policy {setting.policy!r}: use one of {', '.join(kind.policies)}")
    if setting.order not in ORDERS:
        raise UsageError(f"{setting.order!r} is no order: use one of {', '.join(ORDERS)}")
    if setting.instances < 1 or (setting.capacity is not None and setting.capacity < 1):
        raise UsageError(
            f"{setting.instances} instances of {setting.capacity} blocks hold nothing: pass 1 or more of each"
        )
    return kind.build(setting)
