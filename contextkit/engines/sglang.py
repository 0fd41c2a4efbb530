"""SGLang's radix cache as any other: `RadixTree` and a pool of KV slots behind `PrefixCache[TokenIds]`.

Takes prompts as token ids, names of generated tokens and priorities, gives hits and bills; knows nothing of text,
models or prices, and no clock: nothing here dies of age, and what is older is what was called earlier.

Measured (SGLang 0.5.23): an identical n-token prompt reads floor((n-1)/page) pages; the last sampled token has no KV,
so a request leaves its prompt and output less one, in whole pages; where another inserted the same meanwhile, the
newcomer's copy is freed; leaves are forgotten when slots are asked for that are not there, and with pages of more than
one token more are asked for than taken: for a prompt its uncached tokens and a page, for a generated token a page, even
where none begins. Read in its source: a prompt becomes readable after its forward pass (`publish`), what was generated
at the end; a request holds the path it reads, and the slots of its own tokens, cut pages included, from its start to
its end; a generated token asks for a page for each request under way. Documented: an extra key and a cache salt each
separate a namespace, and so does having none. Assumed: a prompt is computed in one chunk, and alone; the adapter's name
is the extra key; a request that finds no room (`no_room`), which the engine would let wait, is billed whole, holds
nothing and leaves nothing; generated tokens that find no room, which would make the engine take some request back, are
left out; generated tokens nobody names are ones no prompt will ever hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.usage import Usage
from contextkit.engines.sglang_tree import Match, Node, RadixTree, Space, rules_of
from contextkit.engines.token_ids import N_BYTES, TokenIds, pack, packed_view
from contextkit.errors import UsageError

_COUNTERS = ("requests", "hits", "read_tokens", "fresh_tokens", "output_tokens", "tokens_evicted")
"""Counters of `stats` that are always there; `miss_<reason>` joins as reasons occur."""


@dataclass(frozen=True, slots=True)
class RadixShape:
    """One SGLang instance."""

    n_tokens: int | None = None
    """KV slots of the pool, one a token; None for as many as are asked for."""
    page: int = 1
    """Tokens in a page (`--page-size`; some attention backends force 16, 64 or 128)."""
    policy: str = "lru"
    """What is forgotten first (`--radix-eviction-policy`)."""
    engine_version: str = "0.5.23"
    """Whose rules hold; up to 0.5.9 they differ."""
    is_caching: bool = True
    """False for `--disable-radix-cache`."""


@dataclass(slots=True)
class _Request:
    """One request under way."""

    rest: bytes
    """Its tokens that are not on the way to `node`: of the prompt, then what `generate` named."""
    n_tokens: int
    """All its tokens so far."""
    n_prompt: int
    """Tokens of the prompt."""
    space: Space
    """Its namespace."""
    priority: int
    """Its priority."""
    node: Node
    """The node it holds; the root for nothing."""
    depth: int
    """Tokens on the way there."""
    held: int
    """KV slots that are its own, outside the tree."""
    n_computed: int
    """Tokens from the front that have KV slots."""
    n_kept: int = 0
    """Tokens of it that were inserted."""
    has_room: bool = True
    """False where it was turned away."""


class RadixCache:
    """The prefix cache of one SGLang instance; satisfies `PrefixCache[TokenIds]`.

    >>> cache = RadixCache(RadixShape(page=16))
    >>> lease = cache.begin(TokenIds(range(50)), now=0.0)
    >>> cache.lookup(TokenIds(range(50)), now=0.5).reason
    'not_yet_visible'
    >>> cache.publish(lease, now=1.0)
    >>> cache.lookup(TokenIds(range(50)), now=1.0).read_tokens, cache.lookup(TokenIds(range(48)), now=1.0).read_tokens
    (48, 32)
    >>> cache.end(lease, 10, now=2.0)
    Usage(fresh=50, read=0, writes={}, output=10)
    """

    def __init__(self, shape: RadixShape | None = None) -> None:
        """An empty cache; raises `UsageError` for a shape no engine has."""
        self._shape = shape or RadixShape()
        self.reset()

    def reset(self) -> None:
        """Forget everything, requests under way included."""
        self._tree = RadixTree(self._shape.page, self._shape.policy, rules_of(self._shape.engine_version))
        self._running: dict[int, _Request] = {}
        self._counters: Counter[str] = Counter()
        self._number = self._held = 0
        self._n_unnamed = 0

    def lookup(self, prompt: TokenIds, now: float) -> Hit:
        """Return what would be read now, one comparison of memory for a node.

        Changes nothing. `segment` is the last page that is covered.
        """
        tokens, space = packed_view(prompt), _space(prompt)
        return self._hit(self._tree.measure(tokens, space, self._readable(prompt)), tokens, space)

    def quote(self, prompt: TokenIds, now: float) -> Usage:
        """Return what sending it now would be billed, `output` 0; changes nothing."""
        return _bill(len(prompt.tokens), self.lookup(prompt, now).read_tokens)

    def begin(self, prompt: TokenIds, now: float, priority: int = 0) -> Lease:
        """A request starts: it refreshes and holds what it reads, and takes slots for the rest.

        `priority` matters to that policy only.
        """
        tokens, space, n_prompt = packed_view(prompt), _space(prompt), len(prompt.tokens)
        match = self._tree.match(tokens, space, self._readable(prompt))
        rest = tokens[match.length * N_BYTES :].tobytes()  # a copy: the caller may write over its own
        request = _Request(rest, n_prompt, n_prompt, space, priority, match.node, match.length, 0, n_prompt)
        hit = self._hit(match.length, tokens, space)
        self._tree.lock(match.node)
        page, new = self._shape.page, n_prompt - match.length
        if not self._take(request, self._pages(n_prompt) - match.length, new + page if page > 1 else new):
            hit = Hit(0, 0, None, "no_room", None)
            self._tree.unlock(match.node)
            request.node, request.depth, request.rest, request.has_room = self._tree.root, 0, tokens.tobytes(), False
        self._number += 1
        self._running[self._number] = request
        lease = Lease(hit, _bill(request.n_prompt, hit.read_tokens), now, (self._number,))
        self._count(lease)
        return lease

    def publish(self, lease: Lease, now: float) -> None:
        """The forward pass over its prompt is done, and others can read it; raises `UsageError` after its end."""
        request = self._of(lease)
        if request.has_room and self._shape.is_caching:
            held = request.node
            self._keep(request, request.n_prompt)
            self._tree.lock(request.node, held)

    def generate(self, lease: Lease, tokens: Sequence[int]) -> None:
        """Name tokens the request generated, so that a later prompt that goes on with them can hit.

        All of them but the last one take slots. Raises `UsageError` after its end.
        """
        request = self._of(lease)
        request.rest += pack(tokens)
        request.n_tokens += len(tokens)
        if request.has_room:
            self._decode(request)

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: keep its prompt and output less one; raises `UsageError` where it has ended before.

        `output` counts all generated tokens; those that `generate` did not name are ones nobody will ever send again.
        """
        request = self._of(lease)
        n_unnamed = output - (request.n_tokens - request.n_prompt)
        if n_unnamed > 0:
            self.generate(lease, range(-self._n_unnamed - n_unnamed, -self._n_unnamed))
            self._n_unnamed += n_unnamed
        if request.has_room:
            self._finish(request)
        del self._running[lease.writes[0]]
        self._counters["output_tokens"] += output
        return _bill(request.n_prompt, lease.hit.read_tokens, output)

    def stats(self) -> dict[str, int]:
        """Counters since the last reset, and how the slots stand now."""
        tree = self._tree
        now = {
            "tokens_cached": tree.total,
            "tokens_locked": tree.protected,
            "tokens_held": self._held,
            "running": len(self._running),
        }
        return dict.fromkeys(_COUNTERS, 0) | dict(self._counters) | now | {"nodes": tree.n_nodes}

    def _readable(self, prompt: TokenIds) -> int:
        """All but the last token: its logits are wanted, so it is computed in any case."""
        return max(0, len(prompt.tokens) - 1) if self._shape.is_caching and not prompt.is_read_skipped else 0

    def _hit(self, read: int, tokens: memoryview, space: Space) -> Hit:
        if read:
            return Hit(read, 0, read // self._shape.page - 1, "hit", None)
        first = tokens[: self._shape.page * N_BYTES]
        if len(tokens) == len(first):
            return Hit(0, 0, None, "below_minimum", None)
        coming = (
            request
            for request in self._running.values()
            if request.has_room and not request.n_kept and request.space == space
        )
        is_coming = self._shape.is_caching and any(self._front(other).startswith(first) for other in coming)
        return Hit(0, 0, None, "not_yet_visible" if is_coming else "first_write", None)

    def _front(self, request: _Request) -> bytes:
        """A page of its tokens or more, from the front."""
        return next(iter(self._tree.edges(request.node)), request.rest)

    def _pages(self, n_tokens: int) -> int:
        """Slots that so many tokens take: pages are given whole."""
        return -(-n_tokens // self._shape.page) * self._shape.page

    def _whole(self, n_tokens: int) -> int:
        """Those of so many tokens that fill pages."""
        return n_tokens // self._shape.page * self._shape.page

    def _take(self, request: _Request, n_slots: int, n_free: int) -> bool:
        """Give the request more slots; False where there are too few even without all leaves nobody holds.

        Leaves are forgotten until `n_free` slots are free, which may be more than it takes.
        """
        if self._shape.n_tokens is not None:
            free = self._shape.n_tokens - self._tree.total - self._held
            if n_slots > free + self._tree.evictable:
                return False
            if n_free > free:
                self._counters["tokens_evicted"] += sum(map(len, self._tree.evict(n_free - free)))
        request.held += n_slots
        self._held += n_slots
        return True

    def _decode(self, request: _Request) -> None:
        """Its tokens but the last one get slots, one step after the other.

        A step makes a page free for every request that is under way, and takes one only where a page begins.
        """
        page, before, after = self._shape.page, request.n_computed, request.n_tokens - 1
        if after <= before:
            return
        if page == 1:
            taken = n_free = after - before
        else:
            held = self._pages(before)
            n_asked = sum(other.has_room for other in self._running.values())
            taken, n_free = self._pages(after) - held, self._pages(after - 1) - held + page * n_asked
        if self._take(request, taken, n_free):
            request.n_computed = after

    def _keep(self, request: _Request, n_tokens: int, bonus: int = 0) -> None:
        """Its first tokens go from its own slots into the tree, in whole pages.

        Of what is there already, its copy is freed.
        """
        whole = self._whole(n_tokens)
        new, after = whole - request.depth, Match(request.depth, request.node)
        request.node = self._tree.extend(
            after, request.rest, request.space, request.priority + bonus, request.n_kept, new
        ).node
        request.rest, request.depth, request.n_kept = request.rest[new * N_BYTES :], whole, whole
        self._release(request, self._pages(request.n_computed) - whole)

    def _release(self, request: _Request, left: int) -> None:
        self._held -= request.held - left
        request.held = left

    def _finish(self, request: _Request) -> None:
        held, n_tokens = request.node, request.n_computed
        if self._shape.is_caching:
            if self._tree.rules.is_prompt_raised and 0 < self._whole(request.n_prompt) < self._whole(n_tokens):
                self._keep(request, request.n_prompt, bonus=1)
            self._keep(request, n_tokens)
        self._release(request, 0)
        self._tree.unlock(held)

    def _of(self, lease: Lease) -> _Request:
        if lease.writes[0] not in self._running:
            raise UsageError("this lease has ended, or is of another cache: begin() the prompt here, and end() it once")
        return self._running[lease.writes[0]]

    def _count(self, lease: Lease) -> None:
        usage, reason, counters = lease.usage, lease.hit.reason, self._counters
        counters["requests"] += 1
        counters["hits" if reason == "hit" else f"miss_{reason}"] += 1
        counters["read_tokens"] += usage.read or 0
        counters["fresh_tokens"] += usage.fresh or 0


def _space(prompt: TokenIds) -> Space:
    return prompt.adapter.name if prompt.adapter else None, prompt.salt or None


def _bill(n_tokens: int, read: int, output: int = 0) -> Usage:
    return Usage(n_tokens - read, read, 0, 0, output)
