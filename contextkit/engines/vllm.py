"""vLLM's prefix cache as any other: `BlockEngine` behind `PrefixCache[TokenIds]`.

Nothing here dies of age: `now` counts for nothing.

Documented: blocks are kept until room is needed, least recently released first. Measured (vLLM 0.33.0, servers of
0.32.0): what a request writes is readable when it begins; its blocks stay out of the queue until it ends; the last
sampled token has no KV, so a request leaves floor((prompt + output - 1) / block) blocks. Assumed: a prompt is computed
in one step; a request the engine would let wait for room (`no_room`) is billed whole, holds nothing and leaves nothing;
generated tokens nobody names (`end` is given their number only) fill blocks that no prompt will ever hit; those that
find no room any more are left out, where the engine would preempt somebody.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.usage import Usage
from contextkit.engines.token_ids import TokenIds
from contextkit.engines.vllm_engine import BlockEngine, Request, Shape
from contextkit.errors import UsageError

_COUNTERS = ("requests", "hits", "read_tokens", "fresh_tokens", "output_tokens", "blocks_evicted")
"""Counters of `stats` that are always there; `miss_<reason>` joins as reasons occur."""


class BlockCache:
    """The prefix cache of one vLLM instance; satisfies `PrefixCache[TokenIds]`.

    >>> cache = BlockCache(Shape(n_blocks=100))
    >>> lease = cache.begin(TokenIds(range(50)), now=0.0)
    >>> cache.lookup(TokenIds(range(50)), now=0.0).read_tokens, cache.lookup(TokenIds(range(48)), now=0.0).read_tokens
    (48, 32)
    >>> cache.end(lease, 10, now=1.0)
    Usage(fresh=50, read=0, writes={}, output=10)
    """

    def __init__(self, shape: Shape) -> None:
        """An empty cache; raises `UsageError` for a shape no engine has."""
        self._shape = shape
        self._size = min(group.size for group in shape.groups)
        self.reset()

    def lookup(self, prompt: TokenIds, now: float) -> Hit:
        """Return what would be read now, in O(prompt); changes nothing. `segment` is the last block that is covered."""
        request = self._engine.request(prompt)
        if prompt.is_read_skipped or not self._shape.is_caching:
            return self._hit(0)
        return self._hit(self._engine.longest(request)[0].tokens)

    def quote(self, prompt: TokenIds, now: float) -> Usage:
        """Return what sending it now would be billed, `output` 0; changes nothing."""
        return _bill(prompt, self.lookup(prompt, now).read_tokens)

    def begin(self, prompt: TokenIds, now: float) -> Lease:
        """A request is scheduled: it holds its blocks from here to its end, and others can read them at once."""
        self._engine.begin_step()
        request = self._engine.request(prompt)
        found = self._engine.lookup(request)
        given = self._engine.allocate(request, request.n_tokens - found.tokens, found)
        hit = self._hit(found.tokens) if given else Hit(0, 0, None, "no_room", None)
        self._engine.advance(request, request.n_tokens)
        self._number += 1
        self._running[self._number] = request
        lease = Lease(hit, _bill(prompt, hit.read_tokens), now, (self._number,))
        self._count(lease, len(given.evicted) if given else 0)
        return lease

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins, which changes nothing here: it was readable from the start."""

    def generate(self, lease: Lease, tokens: list[int]) -> None:
        """Name tokens the request generated, so that a later prompt that goes on with them can hit.

        Raises `UsageError` after its end.
        """
        self._grow(self._of(lease), tokens)

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: free its blocks, the last one first; raises `UsageError` where it has ended before.

        `output` counts all generated tokens; those that `generate` did not name are ones nobody will ever send again.
        """
        request = self._of(lease)
        n_unnamed = output - len(request.generated)
        if n_unnamed > 0:
            self._grow(request, range(-self._n_unnamed - n_unnamed, -self._n_unnamed))
            self._n_unnamed += n_unnamed
        self._engine.free(request)
        del self._running[lease.writes[0]]
        self._counters["output_tokens"] += output
        return replace(lease.usage, output=output)

    def stats(self) -> dict[str, int]:
        """Counters since the last reset, and how the blocks stand now."""
        pool = self._engine.pool
        now = {
            "blocks_cached": len(pool.index.keys) - pool.index.keys.count(0),
            "blocks_free": pool.queue.n,
            "running": len(self._running),
        }
        return dict.fromkeys(_COUNTERS, 0) | dict(self._counters) | now

    def reset(self) -> None:
        """Forget everything, requests under way included."""
        self._engine = BlockEngine(self._shape)
        self._running: dict[int, Request] = {}
        self._counters: Counter[str] = Counter()
        self._number = 0
        self._n_unnamed = 1  # unnamed tokens count down from -2: Python gives -1 and -2 the same hash

    def _hit(self, read: int) -> Hit:
        return Hit(read, 0, read // self._size - 1, "hit", None) if read else Hit(0, 0, None, "first_write", None)

    def _of(self, lease: Lease) -> Request:
        request = self._running.get(lease.writes[0])
        if request is None:
            raise UsageError("this lease has ended, or is of another cache: begin() the prompt here, and end() it once")
        return request

    def _grow(self, request: Request, tokens: range | list[int]) -> None:
        """Generated tokens, all of which but the last sampled one get KV."""
        self._engine.append(request, tokens)
        computed = request.n_tokens - 1
        if (
            request.is_running
            and computed > request.computed
            and self._engine.allocate(request, computed - request.computed)
        ):
            self._counters["blocks_evicted"] += len(self._engine.pool.evicted)
            self._engine.advance(request, computed)

    def _count(self, lease: Lease, evicted: int) -> None:
        usage, reason = lease.usage, lease.hit.reason
        self._counters["requests"] += 1
        self._counters["hits" if reason == "hit" else f"miss_{reason}"] += 1
        self._counters["read_tokens"] += usage.read or 0
        self._counters["fresh_tokens"] += usage.fresh or 0
        self._counters["blocks_evicted"] += evicted


def _bill(prompt: TokenIds, read: int) -> Usage:
    return Usage(len(prompt.tokens) - read, read, 0, 0, 0)
