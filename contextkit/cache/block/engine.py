"""vLLM's KV-cache manager, step by step: look up, allocate, compute, free.

Takes requests as token ids and the engine's own steps, gives block numbers; knows nothing of clocks, bills or schedulers.

Measured on vLLM 0.33.0: a hit is at most all tokens but one, floored to whole blocks; over several groups it is the longest length all
of them accept, found by letting each shorten it until none does; hits are held before new blocks are taken, and both must fit or
nothing changes; what a step covers is cached when the step is scheduled, before it has run; freeing goes from the last block to the
first, group after group; preempting frees everything and keeps the tokens, which are looked up again. Read in its source: with blocks
of several sizes a hit is a multiple of the largest, and where a thinned window made the hit shorter than the others would have
allowed, that place is kept the next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, lcm

from contextkit.cache.block.groups import Group, Retention, Search, find, kept, n_skipped
from contextkit.cache.block.ids import TokenIds
from contextkit.cache.block.keys import Rules, coarser, extend
from contextkit.cache.block.pool import NULL, Pool
from contextkit.errors import UsageError

_RULES = Rules()


@dataclass(frozen=True, slots=True)
class Shape:
    """What an engine is configured with."""

    n_blocks: int
    """Blocks in the pool, the null block included."""
    groups: tuple[Group, ...] = (Group(),)
    """One for each kind of layer."""
    rules: Rules = _RULES
    """Of which release."""
    is_caching: bool = True
    """Whether prefixes are cached at all."""
    is_eagle: bool = False
    """Whether EAGLE drafting makes every hit give up one more block."""
    retention: int | None = None
    """Tokens between the tails a sliding window keeps; None keeps all (the engine's own default is 0)."""


@dataclass(slots=True, eq=False)
class Request:
    """One request: its tokens so far, their keys, its block tables."""

    prompt: TokenIds
    """What was asked."""
    generated: list[int]
    """Tokens after the prompt."""
    tables: list[list[int]]
    """Blocks of each group, null where none is needed any more."""
    n_cached: list[int]
    """How many leading blocks of each table have been offered to the cache."""
    keys: list[int] = field(default_factory=list)
    """Chained keys of the full blocks."""
    computed: int = 0
    """Tokens whose KV is there."""
    is_running: bool = False
    """Whether it holds blocks."""
    n_preemptions: int = 0
    """How often it lost them again."""
    shared_end: int = 0
    """Where a prefix that others have, but a thinned window has not, ended at the last lookup; 0 for nowhere."""

    @property
    def n_tokens(self) -> int:
        """Prompt and generated tokens."""
        return len(self.prompt.tokens) + len(self.generated)


@dataclass(frozen=True, slots=True)
class Found:
    """What a lookup found; changes nothing until it is allocated with."""

    tokens: int
    """Tokens that need not be computed."""
    blocks: tuple[list[int], ...]
    """Their blocks in each group, null where none is needed."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a step was given."""

    new: tuple[list[int], ...]
    """New blocks in each group."""
    evicted: list[int]
    """Those of them that were cached until now."""


class BlockEngine:
    """The KV-cache manager of one engine.

    >>> engine = BlockEngine(Shape(11))
    >>> first, again = engine.request(TokenIds(range(48))), engine.request(TokenIds(range(48)))
    >>> engine.allocate(first, 48).new
    ([1, 2, 3],)
    >>> engine.lookup(again)
    Found(tokens=32, blocks=([1, 2],))
    """

    def __init__(self, shape: Shape) -> None:
        """An empty pool; raises `UsageError` for a shape no engine has."""
        _check(shape)
        self.shape = shape
        self.pool = Pool(shape.n_blocks, are_unhashed_first=shape.rules.is_unhashed_first and shape.is_caching)
        self.counters = dict.fromkeys(_COUNTERS, 0)
        self._key_size = gcd(*(group.size for group in shape.groups))
        self._alignment = lcm(*(group.size for group in shape.groups))
        self._kinds = sorted(dict.fromkeys(shape.groups), key=lambda group: group.kind != "full")

    def request(self, prompt: TokenIds) -> Request:
        """A request that holds nothing yet, its keys computed."""
        n = len(self.shape.groups)
        request = Request(prompt, [], [[] for _ in range(n)], [0] * n)
        self._extend_keys(request)
        return request

    def append(self, request: Request, tokens: Sequence[int]) -> None:
        """Generated tokens join the request; a block they fill has its key from now on, and is cached once it is scheduled."""
        request.generated.extend(tokens)
        self._extend_keys(request)

    def advance(self, request: Request, computed: int) -> None:
        """So many of its tokens are computed now."""
        request.computed = computed

    def lookup(self, request: Request) -> Found:
        """The longest hit, counted; changes no block."""
        if not self.shape.is_caching or request.prompt.is_read_skipped:
            return Found(0, tuple([] for _ in self.shape.groups))
        found, longest = self.longest(request)
        request.shared_end = longest if longest > found.tokens else 0
        kind = "preempted_" if request.n_preemptions else ""
        self.counters[f"{kind}requests"] += 1
        self.counters[f"{kind}queries"] += request.n_tokens
        self.counters[f"{kind}hits"] += found.tokens
        return found

    def longest(self, request: Request) -> tuple[Found, int]:
        """The longest hit, uncounted, and how long some group alone would have had it."""
        limit = request.n_tokens - 1
        if len(self._kinds) > 1 or self._alignment > self._key_size or len(self.shape.groups) > 1:
            return self._fixed_point(request, limit)
        group = self.shape.groups[0]
        blocks = find(group, request.keys, self.pool.cached, Search(limit, self._alignment, self.shape.is_eagle))
        return Found(len(blocks) * group.size, (blocks,)), 0

    def allocate(self, request: Request, n_new: int, found: Found | None = None) -> Allocation | None:
        """Blocks for `n_new` more tokens after those computed and those found, or None, and nothing changed, where they do not fit.

        What the step covers can be hit from now on.
        """
        start = request.computed + (found.tokens if found else 0)
        self.remove_skipped(request, start)
        hits = self._in_reach(request, found)
        total = start + n_new
        needed = [
            max(-(-total // group.size) - len(table) - len(hit), 0)
            for group, table, hit in zip(self.shape.groups, request.tables, hits, strict=True)
        ]
        n_revived = sum(block in self.pool.queue for hit in hits for block in hit)
        if sum(needed) + n_revived > self.pool.queue.n:
            return None
        self.pool.evicted.clear()
        new = self._take(request, hits, needed)
        if self.shape.is_caching:
            self._cache(request, min(total, request.n_tokens))
        return Allocation(new, self.pool.evicted[:])

    def remove_skipped(self, request: Request, processed: int) -> None:
        """Free what no token after the `processed` first ones attends to, later blocks first."""
        if not request.is_running:
            return
        for group, table in zip(self.shape.groups, request.tables, strict=True):
            freed = []
            for index in range(min(n_skipped(group, processed), len(table)) - 1, -1, -1):
                if table[index] == NULL:
                    break
                freed.append(table[index])
                table[index] = NULL
            self.pool.release(freed)

    def free(self, request: Request) -> None:
        """It is done: its blocks are queued, the last one first."""
        for index, table in enumerate(request.tables):
            self.pool.release(table[::-1])
            request.tables[index] = []
            request.n_cached[index] = 0
        request.is_running = False

    def preempt(self, request: Request) -> None:
        """It loses its blocks and keeps its tokens; it starts over with a lookup."""
        self.free(request)
        request.computed = 0
        request.n_preemptions += 1

    def evict_blocks(self, blocks: Sequence[int]) -> None:
        """Take these blocks out of the cache where they are in it; whoever uses them keeps them."""
        for block in blocks:
            self.pool.forget(block)

    def reset(self) -> bool:
        """Forget every prefix, or give False where a request still holds a block."""
        return self.pool.reset()

    def group_keys(self, request: Request, index: int) -> Sequence[int]:
        """The keys group `index` caches the request's blocks under: groups never share an entry."""
        ratio = self.shape.groups[index].size // self._key_size
        keys = coarser(request.keys, ratio)
        return keys if not index else [hash((key, index)) for key in keys]

    def _extend_keys(self, request: Request) -> None:
        if self.shape.is_caching:
            first, tokens = len(request.keys) * self._key_size, request.prompt.tokens
            rest = [*tokens[first:], *request.generated[max(0, first - len(tokens)) :]] if first or request.generated else tokens
            extend(request.keys, rest, self._key_size, request.prompt, self.shape.rules)

    def _in_reach(self, request: Request, found: Found | None) -> list[list[int]]:
        """What of a hit joins the tables: null blocks for what is behind the window, whatever the lookup showed there."""
        if found is None or request.is_running:
            return [[] for _ in self.shape.groups]
        skipped = [n_skipped(group, request.computed + found.tokens) for group in self.shape.groups]
        return [[NULL] * n + blocks[n:] for n, blocks in zip(skipped, found.blocks, strict=True)]

    def _take(self, request: Request, hits: list[list[int]], needed: list[int]) -> tuple[list[int], ...]:
        for hit in hits:
            self.pool.hold(hit)
        new = tuple(self.pool.take(n) for n in needed)
        for index, table in enumerate(request.tables):
            if not request.is_running:
                request.n_cached[index] = len(hits[index])
            table.extend(hits[index])
            table.extend(new[index])
        request.is_running = True
        return new

    def _cache(self, request: Request, n_tokens: int) -> None:
        """Register what the first `n_tokens` tokens fill; with several groups, only what a hit can end at."""
        is_single = len(self.shape.groups) == 1
        aligned = n_tokens if is_single else n_tokens // self._alignment * self._alignment
        for index, group in enumerate(self.shape.groups):
            n = min(n_tokens, aligned + group.size) if self.shape.is_eagle and aligned else aligned
            start, end = request.n_cached[index], n // group.size
            if start < end:
                self._register(request, index, start, end)
                request.n_cached[index] = end

    def _register(self, request: Request, index: int, start: int, end: int) -> None:
        group, table, keys = self.shape.groups[index], request.tables[index], self.group_keys(request, index)
        if group.kind == "full":
            self.pool.register(table[start:end], keys[start:end])
            return
        boundaries = [len(request.prompt.tokens) - 1, *([request.shared_end] if request.shared_end else [])]
        chosen = kept(group, start, end, Retention(self.shape.retention, self._alignment, boundaries, self.shape.is_eagle))
        chosen = [i for i in chosen if table[i] != NULL]
        self.pool.register([table[i] for i in chosen], [keys[i] for i in chosen])

    def _fixed_point(self, request: Request, limit: int) -> tuple[Found, int]:
        """Let each kind of group shorten the hit until none does; groups of one kind are looked up together."""
        hits: dict[Group, list[list[int]]] = {}
        length, longest, verified = limit, 0, set[Group]()
        while True:
            current = length
            for kind in self._kinds:
                if kind.kind == "full" and kind in hits:
                    current = min(current, len(hits[kind][0]) * kind.size)
                    continue
                is_dropped = self.shape.is_eagle and kind not in verified
                bound = min(current + kind.size, limit) if is_dropped else current
                hits[kind] = self._joint(request, kind, Search(bound, self._alignment, is_dropped))
                reached = len(hits[kind][0]) * kind.size
                verified = verified | {kind} if is_dropped else set() if reached < current else verified
                current = reached
                longest = max(longest, current)
            if current >= length or (len(self._kinds) == 2 and self._kinds[0].kind == "full"):
                break
            length = current
        return self._found(hits, min(current, length)), longest

    def _found(self, hits: dict[Group, list[list[int]]], length: int) -> Found:
        remaining = {kind: iter(blocks) for kind, blocks in hits.items()}
        return Found(length, tuple(next(remaining[group])[: length // group.size] for group in self.shape.groups))

    def _joint(self, request: Request, kind: Group, search: Search) -> list[list[int]]:
        """The hit of all groups of one kind: a block counts where every one of them has it."""
        own = [index for index, group in enumerate(self.shape.groups) if group == kind]
        cached, keys = self.pool.cached, [self.group_keys(request, index) for index in own]
        first = find(kind, keys[0], cached if len(own) == 1 else _common(cached, keys), search)
        return [[other and cached[key] for other, key in zip(first, of_group, strict=False)] for of_group in keys]


_COUNTERS = ("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits")


def _common(cached: dict[int, int], keys: list[Sequence[int]]) -> dict[int, int]:
    return {row[0]: cached[row[0]] for row in zip(*keys, strict=True) if all(key in cached for key in row)}


def _check(shape: Shape) -> None:
    if shape.n_blocks < 2 or not shape.groups:
        raise UsageError(f"an engine with {shape.n_blocks} blocks and {len(shape.groups)} groups holds nothing: 2 and 1 are the least")
    for group in shape.groups:
        if group.size < 1 or (group.kind != "full" and group.reach < 1):
            raise UsageError(f"a {group.kind} group of {group.size}-token blocks reaching {group.reach} tokens: pass 1 or more of each")
    if shape.retention and shape.retention % lcm(*(group.size for group in shape.groups)):
        raise UsageError(f"retention {shape.retention} is no multiple of the block size: a kept tail must end where a hit can")
