"""Models vLLM's KV-cache manager step by step: look up, allocate, compute, free.

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

Recurrent groups keep a state instead of tokens (Mamba, "align" mode): one block at each place where a step ended, null
blocks between.

Measured on vLLM 0.33.0 (`mamba_cache_mode="align"`): a step takes one block, the first one also one for each drafted
token, which move along at the table's end; the block of the step before last is given back; the state at a prompt's
last key is cached even inside a block, and when the request goes on, it writes on in that block and a copy takes over
the key. Not modelled: states exported inside a step (`num_prefill_checkpoint_blocks`), the offer of states to a
connector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd, lcm

from contextkit.engines.token_ids import TokenIds
from contextkit.engines.vllm_groups import NULL, Group, Retention, Search, cacheable, find, n_skipped, skipped_tokens
from contextkit.engines.vllm_keys import Rules, coarser, extend
from contextkit.engines.vllm_pool import ByChain, ByKey, Pool
from contextkit.errors import UsageError

_RULES = Rules()


@dataclass(frozen=True, slots=True)
class Shape:
    """What an engine is configured with."""

    n_blocks: int
    """Blocks in the pool, the null block included (the engine's `num_gpu_blocks`)."""
    groups: tuple[Group, ...] = (Group(),)
    """One for each kind of layer."""
    rules: Rules = _RULES
    """Of which release."""
    is_caching: bool = True
    """Whether prefixes are cached at all."""
    is_eagle: bool = False
    """Whether EAGLE drafting makes every hit give up one more block."""
    retention: int | None = 0
    """Tokens between the tails that windows and recurrent states keep; 0 keeps only those a repeated prompt or a shared
    beginning is hit at, None keeps all (`--prefix-cache-retention-interval`)."""
    key_size: int | None = None
    """Tokens a key stands for, a divisor of every block; None for the largest there is (the engine's
    `prefix_match_unit`)."""
    eagle_groups: tuple[int, ...] = ()
    """Numbers of the groups that draft, which alone give up a block; none for all of them."""

    @property
    def unit(self) -> int:
        """Tokens a key stands for."""
        return self.key_size or gcd(*(group.size for group in self.groups))

    @property
    def largest(self) -> int:
        """The least common multiple of the blocks' sizes."""
        return lcm(*(group.size for group in self.groups))

    @property
    def is_partial(self) -> bool:
        """True if a hit may end inside a block: a recurrent group's blocks are longer than a key, and every group can
        look there.
        """
        states = any(group.kind == "mamba" and group.size > self.unit for group in self.groups)
        return (
            len(self.groups) > 1
            and states
            and all(group.kind in ("full", "mamba") or group.size == self.unit for group in self.groups)
        )

    @property
    def dropping(self) -> frozenset[int]:
        """Numbers of the groups that give up a block."""
        return frozenset(self.eagle_groups or range(len(self.groups))) if self.is_eagle else frozenset()


@dataclass(slots=True)
class Pending:
    """What a step leaves undone until the next one begins."""

    fresh: set[int] = field(default_factory=set)
    """Keys of states that are not written yet."""
    copied: dict[int, list[int]] = field(default_factory=dict)
    """Group → blocks held once more because one is copied to the other."""


@dataclass(slots=True)
class State:
    """What a recurrent group remembers of a running request."""

    is_allocated: bool = False
    """Whether it got blocks in an earlier step."""
    last: int | None = None
    """Index of the block the step before last wrote."""
    n_retired: int = 0
    """Leading blocks that were given back already."""


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
    """Where a prefix that others have, but a thinned group has not, ended at the last lookup; 0 for nowhere."""
    tails: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Group → index and number of a block that is cached up to somewhere inside it, and copied before it is written on.
    """
    states: dict[int, State] = field(default_factory=dict)
    """What recurrent groups remember."""

    @property
    def n_tokens(self) -> int:
        """Prompt and generated tokens."""
        return len(self.prompt.tokens) + len(self.generated)


@dataclass(frozen=True, slots=True)
class Lookup:
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


@dataclass(frozen=True, slots=True)
class Step:
    """How far a step goes, in tokens from the front."""

    local: int
    """Computed, or found here."""
    start: int
    """With what a connector brings: where computing begins."""
    end: int
    """Where it ends."""
    slots: int
    """The same, with room for drafted tokens."""


def check(shape: Shape) -> None:
    """Raises `UsageError` for a shape no engine has."""
    if shape.n_blocks < 2 or not shape.groups:
        raise UsageError(
            f"an engine with {shape.n_blocks} blocks and {len(shape.groups)} groups holds nothing: 2 and 1 are the least"
        )
    for group in shape.groups:
        if group.size < 1 or (group.kind in ("sliding_window", "chunked_local") and group.reach < 1):
            raise UsageError(
                f"a {group.kind} group of {group.size}-token blocks reaching {group.reach} tokens: pass 1 or more of each"
            )
    if any(group.size % shape.unit for group in shape.groups) or (
        len(shape.groups) == 1 and shape.unit != shape.groups[0].size
    ):
        raise UsageError(
            f"keys of {shape.unit} tokens: each group's block must be a multiple, a single group's block the same"
        )
    if shape.retention and shape.retention % shape.largest:
        raise UsageError(
            f"retention {shape.retention} is no multiple of the block size: a kept tail must end where a hit can"
        )


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where a step takes blocks from."""

    pool: Pool
    """All of them."""
    index: ByKey
    """What they are cached under."""
    pending: Pending
    """What is left to the next step."""


def needed(group: Group, table: list[int], hits: list[int], step: Step, state: State, has_tail: bool) -> int:
    """New blocks a step will take.

    The engine lets a table that is longer than it need be make up for what other groups lack, and stops with an error
    where the pool is too small for that; here nothing is made up for, and such a step does not fit.
    """
    n = -(-step.end // group.size) + group.n_drafted - len(hits) - len(table)
    if has_tail:
        n = max(n, 0) + 1
    return min(max(n, 0), 1 + has_tail + (0 if state.is_allocated else group.n_drafted))


def take(group: Group, number: int, request: Request, step: Step, blocks: Blocks) -> list[int]:
    """Take them and put them into the table; gives what the table has beyond its last end."""
    table, state = request.tables[number], request.states.setdefault(number, State())
    required, before, tail = -(-step.end // group.size) + group.n_drafted, len(table), request.tails.pop(number, None)
    was_allocated, state.is_allocated = state.is_allocated, True
    if required <= before and tail is None:
        return []
    if was_allocated:
        state.last = before - 1 - group.n_drafted
    elif before:
        state.last = before - 1
    n_skipped = required - group.n_drafted - 1
    table.extend([NULL] * (n_skipped - before))
    if was_allocated:  # drafted tokens move along
        for place in range(before - group.n_drafted, min(before, n_skipped)):
            table.append(table[place])
            table[place] = NULL
    new = blocks.pool.take(max(required - len(table), 0) + (tail is not None))
    returned = table[before:]
    if tail is not None:
        copy = new.pop(0)
        returned = [*([] if was_allocated else [copy]), *returned]
        blocks.pending.copied.setdefault(number, []).extend([tail[1], copy])
        place, source = tail
        if was_allocated:  # it is about to be written on: whose it is keeps it, another one takes the copy
            blocks.index.move(source, copy)
            blocks.pool.hold([source])
            blocks.pending.fresh.update(filter(None, [blocks.index.keys[copy]]))
        else:
            table[place] = copy
            blocks.pool.hold([copy])
    table.extend(new)
    return returned + new


def drop(group: Group, table: list[int], state: State, processed: int, pool: Pool) -> None:
    """Give back the states that no later step reads, later ones first."""
    end = min(max(processed - 1, 0) // group.size, len(table))
    places = [place for place in range(end - 1, state.n_retired - 1, -1) if table[place] != NULL]
    _give_back(table, places, pool)
    state.n_retired = max(state.n_retired, end)
    if state.last is not None and state.last < -(-processed // group.size) - 1 and table[state.last] != NULL:
        _give_back(table, [state.last], pool)


def _give_back(table: list[int], places: list[int], pool: Pool) -> None:
    if places:
        freed = [table[place] for place in places]
        for place in places:
            table[place] = NULL
        pool.release(freed)


def checkpoint(n_prompt: int, unit: int, is_last_dropped: bool) -> int:
    """Return where in a prompt its state is worth keeping: the last key that leaves a token to compute.

    >>> checkpoint(50, 16, False), checkpoint(48, 16, False), checkpoint(48, 16, True)
    (48, 32, 32)
    """
    return max((n_prompt if is_last_dropped else n_prompt - 1) // unit * unit - unit * is_last_dropped, 0)


__all__ = ["Allocation", "BlockEngine", "Lookup", "Request", "Shape"]

_COUNTERS = ("requests", "queries", "hits", "preempted_requests", "preempted_queries", "preempted_hits")


class BlockEngine:
    """The KV-cache manager of one engine.

    >>> engine = BlockEngine(Shape(11))
    >>> first, again = engine.request(TokenIds(range(48))), engine.request(TokenIds(range(48)))
    >>> engine.allocate(first, 48).new
    ([1, 2, 3],)
    >>> engine.lookup(again)
    Lookup(tokens=32, blocks=([1, 2],))
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
        """Make what the last step wrote readable: states may be hit, copies are made.

        Only recurrent groups need to be told.
        """
        copied = self.pending.copied
        self.pool.release([block for number in sorted(copied) for block in copied[number]])
        self.pending = Pending()

    def lookup(self, request: Request) -> Lookup:
        """The longest hit, counted; changes no block."""
        request.shared_end = 0
        if not self.shape.is_caching or request.prompt.is_read_skipped:
            return Lookup(0, tuple([] for _ in self.shape.groups))
        found, longest = self.longest(request)
        request.shared_end = longest if longest > found.tokens else 0
        kind = "preempted_" if request.n_preemptions else ""
        self.counters[f"{kind}requests"] += 1
        self.counters[f"{kind}queries"] += request.n_tokens
        self.counters[f"{kind}hits"] += found.tokens
        return found

    def longest(self, request: Request) -> tuple[Lookup, int]:
        """The longest hit, uncounted, and how long some group alone would have had it."""
        limit = request.n_tokens - 1
        if not self._is_single:
            return self._fixed_point(request, limit)
        group, is_dropped = self.shape.groups[0], bool(self._dropping)
        if self._chain is None:
            blocks, n = find(group, request.keys, self._map.serves, Search(limit, group.size, is_dropped))
            return Lookup(n, (blocks,)), 0
        blocks = self._chain.leading(request.keys[: limit // group.size])
        if is_dropped and blocks:
            blocks.pop()
        return Lookup(len(blocks) * group.size, (blocks,)), 0

    def allocate(
        self,
        request: Request,
        n_new: int,
        found: Lookup | None = None,
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
                drop(group, table, request.states.setdefault(number, State()), processed, self.pool)
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
                total += needed(group, table, hit, step, request.states.get(index, State()), has_tail)
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
            return take(group, index, request, step, Blocks(self.pool, self._map, self.pending))
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
        chosen = cacheable(
            group,
            start,
            end,
            Retention(self.shape.retention, self._alignment, self._boundaries(request, group), is_dropped),
        )
        chosen = [place for place in chosen if table[place] != NULL]
        self._map.register([table[place] for place in chosen], [keys[place] for place in chosen])
        request.n_cached[index] = end

    def _boundaries(self, request: Request, group: Group) -> list[int]:
        """Return where later requests may resume: at this prompt's end, or where a shared prefix ended."""
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
        if n_tokens <= 0 or n_tokens != checkpoint(len(request.prompt.tokens), self._unit, bool(self._dropping)):
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

    def _fixed_point(self, request: Request, limit: int) -> tuple[Lookup, int]:
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
        return Lookup(length, tuple(next(remaining[group]) for group in self.shape.groups)), longest

    def _bound(self, request: Request, kind: Group, current: int, is_dropped: bool) -> int:
        """Return how far a kind may look: with EAGLE past the hit, by what it gives up again."""
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
