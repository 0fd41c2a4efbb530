"""vLLM's KV-cache manager, step by step: look up, allocate, compute, free.

Takes requests as token ids and the engine's own steps, gives block numbers; knows nothing of clocks, bills or
schedulers.

Measured on vLLM 0.33.0: a hit is at most all tokens but one, floored to whole blocks; over several groups it is the
longest length all of them accept, found by letting each shorten it until none does; hits are held before new blocks are
taken, and both must fit or nothing changes; what a step covers is cached when the step is scheduled, before it has run;
freeing goes from the last block to the first, group after group; preempting frees everything and keeps the tokens,
which are looked up again. With blocks of several sizes a hit is a multiple of the largest; a full group of the longer
blocks is also cached where the prompt ended inside one, which only a recurrent group's lookups use
(`Shape.is_partial`). Where a thinned group made the hit shorter than the others would have allowed, that place is kept
the next time. What a connector brings (`n_external`) gets blocks where a layer still looks at it, after all hits are
held.
"""

from __future__ import annotations

from collections.abc import Sequence

from contextkit.cache.block.groups import NULL, Group, Retention, Search, find, kept, n_skipped, skipped_tokens
from contextkit.cache.block.ids import TokenIds
from contextkit.cache.block.index.by_chain import ByChain
from contextkit.cache.block.index.by_key import ByKey
from contextkit.cache.block.keys import coarser, extend
from contextkit.cache.block.pool import Pool
from contextkit.cache.block.steps import recurrent
from contextkit.cache.block.steps.shapes import Allocation, Found, Pending, Request, Shape, State, Step, check

__all__ = ["Allocation", "BlockEngine", "Found", "Request", "Shape"]

_COUNTERS = ("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits")


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
        check(shape)
        self.shape = shape
        self.counters = dict.fromkeys(_COUNTERS, 0)
        self._unit, self._is_single = shape.unit, len(shape.groups) == 1
        self._alignment = shape.unit if shape.is_partial else shape.largest
        self._kinds = sorted(dict.fromkeys(shape.groups), key=lambda group: group.kind != "full")
        self._dropping = {
            kind for kind in self._kinds if any(shape.groups[number] == kind for number in shape.dropping)
        }
        self._chain = ByChain(shape.n_blocks) if self._is_single and shape.groups[0].kind == "full" else None
        self._map = ByKey(0 if self._chain else shape.n_blocks)
        self.pool = Pool(shape.n_blocks, self._chain or self._map, are_unhashed_first=shape.rules.is_unhashed_first)
        self.pending = Pending()
        """What the last step left to the next one."""

    def request(self, prompt: TokenIds) -> Request:
        """A request that holds nothing yet, its keys computed."""
        n = len(self.shape.groups)
        request = Request(prompt, [], [[] for _ in range(n)], [0] * n)
        self._extend_keys(request)
        return request

    def append(self, request: Request, tokens: Sequence[int]) -> None:
        """Generated tokens join the request.

        A block they fill has its key from now on, and is cached once it is scheduled.
        """
        request.generated.extend(tokens)
        self._extend_keys(request)

    def advance(self, request: Request, computed: int) -> None:
        """So many of its tokens are computed now."""
        request.computed = computed

    def begin_step(self) -> None:
        """What the last step wrote is there now: states may be hit, copies are made.

        Only recurrent groups need to be told.
        """
        copied = self.pending.copied
        self.pool.release([block for number in sorted(copied) for block in copied[number]])
        self.pending = Pending()

    def lookup(self, request: Request) -> Found:
        """The longest hit, counted; changes no block."""
        request.shared_end = 0
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
        if not self._is_single:
            return self._fixed_point(request, limit)
        group, is_dropped = self.shape.groups[0], bool(self._dropping)
        if self._chain is None:
            blocks, n = find(group, request.keys, self._map.serves, Search(limit, group.size, is_dropped))
            return Found(n, (blocks,)), 0
        blocks = self._chain.leading(request.keys[: limit // group.size])
        if is_dropped and blocks:
            blocks.pop()
        return Found(len(blocks) * group.size, (blocks,)), 0

    def allocate(
        self,
        request: Request,
        n_new: int,
        found: Found | None = None,
        *,
        n_external: int = 0,
        n_drafted: int = 0,
        is_caching_delayed: bool = False,
    ) -> Allocation | None:
        """Blocks for `n_new` more tokens after those computed and those found, or None, and nothing changed, where they
        do not fit.

        What the step covers can be hit from now on, unless `is_caching_delayed`. `n_external` tokens after the hit come
        from elsewhere; `n_drafted` need room and are never cached.
        """
        local = request.computed + (found.tokens if found else 0)
        end = local + n_external + n_new
        step = Step(local, local + n_external, end, end + n_drafted)
        self.remove_skipped(request, step.start)
        is_joining = found is not None and not request.is_running
        hits = (
            [list(blocks) for blocks in found.blocks]
            if found is not None and is_joining
            else [[] for _ in self.shape.groups]
        )
        if self._n_needed(request, hits, step) > self.pool.queue.n:
            return None
        self.pool.evicted.clear()
        if any(hits) or n_external:
            self._join(request, hits, step)
        new = tuple([self._take(request, number, step) for number in range(len(self.shape.groups))])
        request.is_running = True
        if self.shape.is_caching and not is_caching_delayed:
            self.cache(request, min(end, request.n_tokens))
        return Allocation(new, self.pool.evicted[:])

    def remove_skipped(self, request: Request, processed: int) -> None:
        """Free what no token after the `processed` first ones attends to, later blocks first."""
        if not request.is_running:
            return
        for number, (group, table) in enumerate(zip(self.shape.groups, request.tables, strict=True)):
            if group.kind == "mamba":
                recurrent.drop(group, table, request.states.setdefault(number, State()), processed, self.pool)
                continue
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
        request.tails.clear()
        request.states.clear()
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

    def group_keys(self, request: Request, index: int, is_coarser: bool = True) -> Sequence[int]:
        """The keys group `index` caches the request's blocks under, or those of its unit: groups never share an entry."""
        keys = coarser(request.keys, self.shape.groups[index].size // self._unit) if is_coarser else request.keys
        return keys if not index else [hash((key, index)) for key in keys]

    def cache(self, request: Request, n_tokens: int) -> None:
        """Register what the first `n_tokens` tokens fill; with several groups, only what a hit can end at."""
        if self._chain is not None:
            start, end = request.n_cached[0], n_tokens // self._unit
            if start < end:
                self._chain.register(request.tables[0], request.keys, start, end)
                request.n_cached[0] = end
            return
        for index, group in enumerate(self.shape.groups):
            n = self._n_cacheable(group, n_tokens)
            before = request.n_cached[index]
            self._register(request, index, before, min(n, len(request.keys) * self._unit) // group.size)
            written = request.tables[index][before : request.n_cached[index]]
            if group.kind == "full" and group.size > self._unit and self.shape.rules.are_ends_cached:
                self._cache_end(request, index, n)
            elif group.kind == "mamba":
                self._cache_state(request, index, n)
                self.pending.fresh.update(filter(None, map(self._map.keys.__getitem__, written)))

    def _extend_keys(self, request: Request) -> None:
        if self.shape.is_caching:
            first, tokens = len(request.keys) * self._unit, request.prompt.tokens
            rest = (
                [*tokens[first:], *request.generated[max(0, first - len(tokens)) :]]
                if first or request.generated
                else tokens
            )
            extend(request.keys, rest, self._unit, request.prompt, self.shape.rules)

    def _n_needed(self, request: Request, hits: list[list[int]], step: Step) -> int:
        """Blocks the step takes from the queue: new ones, and hits nobody holds."""
        total, queue = 0, self.pool.queue
        for index, (group, table, hit) in enumerate(zip(self.shape.groups, request.tables, hits, strict=True)):
            has_tail = index in request.tails or (bool(hit) and step.local % group.size != 0)
            if group.kind == "mamba":
                if hit and self._map.keys[hit[-1]] in self.pending.fresh:
                    return self.pool.n_blocks  # a state of this very step: it is not written yet
                total += recurrent.needed(group, table, hit, step, request.states.get(index, State()), has_tail)
                total += sum(block in queue for block in hit)
                continue
            skipped = n_skipped(group, step.start) if not request.is_running else 0
            total += max(-(-step.slots // group.size) - max(skipped, len(hit) + len(table)), 0) + has_tail
            total += sum(map(queue.__contains__, hit[skipped:]))
        return total

    def _join(self, request: Request, hits: list[list[int]], step: Step) -> None:
        """Hits become the tables' beginnings, null blocks what is behind the window.

        Then what a connector brings gets blocks.
        """
        for index, (group, table) in enumerate(zip(self.shape.groups, request.tables, strict=True)):
            skipped = n_skipped(group, step.start)
            joined = hits[index][skipped:]
            self.pool.hold(joined)
            table.extend([NULL] * skipped + joined)
            request.n_cached[index] = len(table)
            if joined and step.local % group.size:
                request.n_cached[index] = step.local // group.size
                request.tails[index] = (step.local // group.size, joined[-1])
        if step.start > step.local:
            for group, table in zip(self.shape.groups, request.tables, strict=True):
                if step.start > skipped_tokens(group, step.start):
                    table.extend(self.pool.take(max(0, -(-step.start // group.size) - len(table))))

    def _take(self, request: Request, index: int, step: Step) -> list[int]:
        group, table = self.shape.groups[index], request.tables[index]
        if group.kind == "mamba":
            return recurrent.take(group, index, request, step, recurrent.Blocks(self.pool, self._map, self.pending))
        new: list[int] = []
        if index in request.tails:
            place, source = request.tails.pop(index)
            new = self.pool.take(1)
            table[place] = new[0]
            self.pool.hold(new)
            self.pending.copied.setdefault(index, []).extend([source, *new])
        taken = self.pool.take(max(0, -(-step.slots // group.size) - len(table)))
        table.extend(taken)
        return new + taken

    def _n_cacheable(self, group: Group, n_tokens: int) -> int:
        aligned = (
            n_tokens if self._is_single or self.shape.is_partial else n_tokens // self._alignment * self._alignment
        )
        is_past = not self._is_single and group in self._dropping and aligned
        return min(n_tokens, aligned + group.size) if is_past else aligned

    def _register(self, request: Request, index: int, start: int, end: int) -> None:
        if start >= end:
            return
        group, table, keys = self.shape.groups[index], request.tables[index], self.group_keys(request, index)
        is_dropped = group in self._dropping
        chosen = kept(
            group,
            start,
            end,
            Retention(self.shape.retention, self._alignment, self._boundaries(request, group), is_dropped),
        )
        chosen = [place for place in chosen if table[place] != NULL]
        self._map.register([table[place] for place in chosen], [keys[place] for place in chosen])
        request.n_cached[index] = end

    def _boundaries(self, request: Request, group: Group) -> list[int]:
        """Where later requests may resume: at this prompt's end, or where a shared prefix ended."""
        n, size, rules = len(request.prompt.tokens), self.shape.largest, self.shape.rules
        if not self._dropping or not rules.are_replays_kept:
            return [n - 1, *([request.shared_end] if request.shared_end else [])]
        replays = [max((last // size - 1) * size, 0) for last in (n - 1, n)]
        junctions = (
            [request.shared_end, request.shared_end - group.size * (group in self._dropping)]
            if request.shared_end
            else []
        )
        return replays + junctions

    def _cache_end(self, request: Request, index: int, n_tokens: int) -> None:
        """A full group's block is also cached at the prompt's last key, where that lies inside it."""
        group, n = self.shape.groups[index], len(request.prompt.tokens)
        limit = n if group in self._dropping else n - 1
        end = min(limit // self._unit, len(request.keys)) * self._unit
        place = end // group.size
        if 0 < end <= n_tokens and end % group.size and place < len(request.tables[index]):
            self._register_part(request, index, place, end)

    def _cache_state(self, request: Request, index: int, n_tokens: int) -> None:
        """A recurrent group's state at the prompt's last key is cached, even where that lies inside a block."""
        group, table = self.shape.groups[index], request.tables[index]
        if n_tokens <= 0 or n_tokens != recurrent.checkpoint(
            len(request.prompt.tokens), self._unit, bool(self._dropping)
        ):
            return
        place = -(-n_tokens // group.size) - 1
        block = table[place] if place < len(table) else NULL
        if block == NULL or self._map.n_tokens(block, (place + 1) * group.size) == n_tokens:
            return
        self.pending.fresh.add(self._register_part(request, index, place, n_tokens))
        if n_tokens % group.size:
            request.tails[index] = (place, block)
            request.n_cached[index] = place

    def _register_part(self, request: Request, index: int, place: int, n_tokens: int) -> int:
        key = self.group_keys(request, index, is_coarser=False)[n_tokens // self._unit - 1]
        if block := request.tables[index][place]:
            self._map.register_part(block, key, n_tokens, (place + 1) * self.shape.groups[index].size)
        return key

    def _fixed_point(self, request: Request, limit: int) -> tuple[Found, int]:
        """Let each kind of group shorten the hit until none does; groups of one kind are looked up together."""
        hits: dict[Group, tuple[list[list[int]], int]] = {}
        length, longest, verified = limit, 0, set[Group]()
        while True:
            current = length
            for kind in self._kinds:
                if kind.kind == "full" and kind in hits:
                    current = min(current, hits[kind][1])
                    continue
                is_dropped = kind in self._dropping and kind not in verified
                bound = self._bound(request, kind, current, is_dropped)
                hits[kind] = self._joint(request, kind, Search(bound, self._alignment, is_dropped))
                reached = hits[kind][1]
                if is_dropped:
                    verified.add(kind)
                elif reached < current:
                    verified.clear()
                current = reached
                longest = max(longest, current)
            if current >= length:
                break
            length = current
            if len(self._kinds) == 2 and self._kinds[0].kind == "full":
                break
        for kind in self._kinds:
            if kind.kind == "full":
                for blocks in hits[kind][0]:
                    del blocks[-(-length // kind.size) :]
        remaining = {kind: iter(blocks) for kind, (blocks, _) in hits.items()}
        return Found(length, tuple(next(remaining[group]) for group in self.shape.groups)), longest

    def _bound(self, request: Request, kind: Group, current: int, is_dropped: bool) -> int:
        """How far a kind may look: with EAGLE past the hit, by what it will give up again."""
        if not is_dropped or kind.kind == "mamba":
            return current
        margin = self._unit if self.shape.is_partial and kind.kind == "full" and kind.size > self._unit else kind.size
        is_all = self.shape.rules.is_last_token_matched
        return min(current + margin, len(request.keys) * self._unit if is_all else request.n_tokens - 1)

    def _joint(self, request: Request, kind: Group, search: Search) -> tuple[list[list[int]], int]:
        """The hit of all groups of one kind: a block counts where every one of them has it."""
        own = [index for index, group in enumerate(self.shape.groups) if group == kind]
        keys = [self.group_keys(request, index, not search.is_partial(kind)) for index in own]
        serves = self._map.serves
        if len(own) == 1:
            blocks, n = find(kind, keys[0], serves, search)
            return [blocks], n
        places = {
            row[0]: place for place, row in enumerate(zip(*keys, strict=True), 1) if all(key in serves for key in row)
        }
        found, n = find(kind, keys[0], places, search)
        return [[serves[of_group[place - 1]] if place else NULL for place in found] for of_group in keys], n
