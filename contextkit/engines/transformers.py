"""transformers' continuous batching as any other cache: shared pages behind `PrefixCache[TokenIds]`.

Nothing here dies of age, and nothing has an order: `now` counts for nothing.

Measured (transformers 5.19.0): full pages have keys that chain their parent's; a hit is at most floor((n - 1) / page)
pages; a page gets its key after the forward pass that fills it, and one that is there already is adopted, its copy
freed at once; what the last forward pass of a request fills never gets a key, so an answer of one token leaves nothing
but what earlier passes over a long prompt filled; where pages are short, or where fewer than the safety margin are free
before a pass, every page that no request holds goes at once; the margin is 15 % of all pages, and a pass takes 8,192
tokens at most. Source (transformers 5.19.0, `generation/continuous_batching/`): a model with a sliding window in any
layer shares nothing.

Assumed: a request is admitted at once and its prompt is not batched with others, where the engine lets it wait below
the margin, and looks at the margin once before a pass over several prompts; its response begins (`publish`) when the
pass over its prompt was not its last, which an end with one token takes back; one that ends without any (`output` 0)
was cancelled and keeps its pages; one that finds no room (`no_room`) is billed whole, holds nothing and leaves nothing,
where the engine lets it wait, or fails if nothing else runs; generated tokens that find no room are left out, where the
engine would take some request back; generated tokens nobody names fill pages that no prompt will ever hit; adapters,
images and salts, which the engine does not know here, separate as in vLLM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.usage import Usage
from contextkit.engines.token_ids import TokenIds
from contextkit.engines.vllm_keys import Rules, extend
from contextkit.errors import UsageError

_COUNTERS = ("requests", "hits", "read_tokens", "fresh_tokens", "output_tokens", "blocks_evicted")
"""Counters of `stats` that are always there; `miss_<reason>` joins as reasons occur."""
_KEY_RULES = Rules()


@dataclass(frozen=True, slots=True)
class PageShape:
    """One instance, with the engine's own defaults (`ContinuousBatchingConfig`)."""

    n_pages: int | None = None
    """Pages of the cache (`num_blocks`); None for as many as are asked for."""
    page: int = 256
    """Tokens in a page (`page_size`)."""
    safety_margin: float = 0.15
    """Share of all pages; where fewer are free before a forward pass, the cached ones go (`safety_margin`)."""
    n_batch_tokens: int = 8192
    """Tokens of a prompt that one forward pass computes (`max_batch_tokens`)."""


@dataclass(slots=True)
class _Request:
    """One request under way."""

    prompt: TokenIds
    """Its prompt."""
    tokens: list[int]
    """All its tokens so far."""
    keys: list[int]
    """Keys of its full pages, from the front."""
    n_pages: int = 0
    """Pages it holds."""
    n_keyed: int = 0
    """Those of them that are known by their keys, from the front."""
    computed: int = 0
    """Tokens with KV."""
    newest: set[int] = field(default_factory=set)
    """Keys that its latest pass brought in."""
    has_room: bool = True
    """False once it found none."""


class PageCache:
    """The prefix cache of one instance; satisfies `PrefixCache[TokenIds]`.

    >>> cache = PageCache(PageShape(page=16))
    >>> lease = cache.begin(TokenIds(range(50)), now=0.0)
    >>> cache.lookup(TokenIds(range(50)), now=0.5).reason
    'not_yet_visible'
    >>> cache.publish(lease, now=1.0)
    >>> cache.lookup(TokenIds(range(50)), now=1.0).read_tokens, cache.lookup(TokenIds(range(48)), now=1.0).read_tokens
    (48, 32)
    >>> cache.end(lease, 10, now=2.0)
    Usage(fresh=50, read=0, writes={}, output=10)
    """

    def __init__(self, shape: PageShape | None = None) -> None:
        """An empty cache; raises `UsageError` for a shape no engine has."""
        self._shape = shape = shape or PageShape()
        if shape.page < 1 or shape.n_batch_tokens < 1 or not (shape.n_pages is None or shape.n_pages > 0):
            raise UsageError(f"{shape.n_pages} pages of {shape.page} tokens hold nothing: pass 1 or more of each")
        if not 0 <= shape.safety_margin <= 1:
            raise UsageError(f"safety_margin is {shape.safety_margin}: it is a share of all pages, 0 to 1")
        self.reset()

    def reset(self) -> None:
        """Forget everything, requests under way included."""
        self._held: dict[int, int] = {}  # key → requests that hold its page
        self._cached: set[int] = set()  # keys of pages that none holds
        self._n_taken = 0  # pages that are not free
        self._running: dict[int, _Request] = {}
        self._counters: Counter[str] = Counter()
        self._number = 0
        self._n_unnamed = 1  # unnamed tokens count down from -2: Python gives -1 and -2 the same hash

    def lookup(self, prompt: TokenIds, now: float) -> Hit:
        """Return what would be read now, in O(prompt); changes nothing. `segment` is the last page that is covered."""
        n_tokens, page = len(prompt.tokens), self._shape.page
        keys = self._keys(prompt, n_tokens - 1)
        is_spared = not self._is_below_margin()
        read = 0
        for key in () if prompt.is_read_skipped else keys:
            if not (key in self._held or (is_spared and key in self._cached)):
                break
            read += page
        if read:
            return Hit(read, 0, read // page - 1, "hit", None)
        if not keys:
            return Hit(0, 0, None, "below_minimum", None)
        is_coming = any(other.keys[:1] == keys[:1] and not other.n_keyed for other in self._running.values())
        return Hit(0, 0, None, "not_yet_visible" if is_coming else "first_write", None)

    def quote(self, prompt: TokenIds, now: float) -> Usage:
        """Return what sending it now would be billed, `output` 0; changes nothing."""
        return _bill(prompt, self.lookup(prompt, now).read_tokens)

    def begin(self, prompt: TokenIds, now: float) -> Lease:
        """A request is scheduled: it holds the pages it reads and takes those for the rest of its prompt."""
        hit, n_prompt = self.lookup(prompt, now), len(prompt.tokens)
        request = _Request(prompt, list(prompt.tokens), self._keys(prompt, n_prompt))
        request.computed = hit.read_tokens
        request.n_pages = request.n_keyed = hit.read_tokens // self._shape.page
        for key in request.keys[: request.n_keyed]:
            self._hold(key)
        while request.has_room and request.computed < n_prompt:
            self._register(request)
            self._compute(request, min(self._shape.n_batch_tokens, n_prompt - request.computed))
        if not request.has_room:
            self._release(request, is_answered=False)
            request.n_pages = request.n_keyed = request.computed = 0
            request.keys.clear()
            hit = Hit(0, 0, None, "no_room", None)
        self._number += 1
        self._running[self._number] = request
        lease = Lease(hit, _bill(prompt, hit.read_tokens), now, (self._number,))
        self._count(lease)
        return lease

    def publish(self, lease: Lease, now: float) -> None:
        """The pass over its prompt is done and its pages can be read; raises `UsageError` after its end."""
        self._register(self._of(lease))

    def generate(self, lease: Lease, tokens: Sequence[int]) -> None:
        """Name tokens the request generated, so that a later prompt that goes on with them can hit.

        Every token but the first takes a forward pass over the one before it. Raises `UsageError` after its end.
        """
        request = self._of(lease)
        self._register(request)
        for token in tokens:
            request.tokens.append(token)
            if request.has_room and request.computed < len(request.tokens) - 1:
                self._compute(request, 1)
                self._register(request)

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: let go of its pages; raises `UsageError` where it has ended before.

        `output` counts all generated tokens; those that `generate` did not name are ones nobody will ever send again.
        """
        request = self._of(lease)
        n_unnamed = output - (len(request.tokens) - len(request.prompt.tokens))
        if n_unnamed > 0:
            self.generate(lease, range(-self._n_unnamed - n_unnamed, -self._n_unnamed))
            self._n_unnamed += n_unnamed
        self._release(request, is_answered=output > 0)
        del self._running[lease.writes[0]]
        self._counters["output_tokens"] += output
        return replace(lease.usage, output=output)

    def stats(self) -> dict[str, int]:
        """Counters since the last reset, and how the pages stand now."""
        n_cached = len(self._cached)
        now = {"blocks_cached": n_cached, "blocks_held": self._n_taken - n_cached, "running": len(self._running)}
        return dict.fromkeys(_COUNTERS, 0) | dict(self._counters) | now

    def _keys(self, prompt: TokenIds, n_tokens: int) -> list[int]:
        """Keys of the pages that its first `n_tokens` tokens fill."""
        keys: list[int] = []
        extend(keys, prompt.tokens[: max(0, n_tokens)], self._shape.page, prompt, _KEY_RULES)
        return keys

    def _is_below_margin(self) -> bool:
        n_pages = self._shape.n_pages
        return n_pages is not None and (n_pages - self._n_taken) / n_pages < self._shape.safety_margin

    def _compute(self, request: _Request, n_tokens: int) -> None:
        """Run a forward pass over its next tokens, which shows that the pass before was not its last."""
        request.newest.clear()
        if self._is_below_margin():
            self._evict()
        n_more = -(-(request.computed + n_tokens) // self._shape.page) - request.n_pages
        n_pages = self._shape.n_pages
        if n_pages is not None and self._n_taken + n_more > n_pages:
            self._evict()
            if self._n_taken + n_more > n_pages:
                request.has_room = False
                return
        self._n_taken += n_more
        request.n_pages += n_more
        request.computed += n_tokens

    def _register(self, request: _Request) -> None:
        """Make the pages readable that its passes filled; of those that are there already, its copy is freed."""
        n_keyed, page = request.computed // self._shape.page, self._shape.page
        if n_keyed > len(request.keys):
            rest = request.tokens[len(request.keys) * page : n_keyed * page]
            extend(request.keys, rest, page, request.prompt, _KEY_RULES)
        for key in request.keys[request.n_keyed : n_keyed]:
            if key in self._held or key in self._cached:
                self._n_taken -= 1
            else:
                request.newest.add(key)
            self._hold(key)
        request.n_keyed = n_keyed

    def _hold(self, key: int) -> None:
        self._cached.discard(key)
        self._held[key] = self._held.get(key, 0) + 1

    def _release(self, request: _Request, *, is_answered: bool) -> None:
        """Let go of its pages; those stay cached that have keys and are not of the last pass of an answer."""
        for key in request.keys[: request.n_keyed]:
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
                if is_answered and key in request.newest:
                    self._n_taken -= 1
                else:
                    self._cached.add(key)
        self._n_taken -= request.n_pages - request.n_keyed

    def _evict(self) -> None:
        self._counters["blocks_evicted"] += len(self._cached)
        self._n_taken -= len(self._cached)
        self._cached.clear()

    def _of(self, lease: Lease) -> _Request:
        request = self._running.get(lease.writes[0])
        if request is None:
            raise UsageError("this lease has ended, or is of another cache: begin() the prompt here, and end() it once")
        return request

    def _count(self, lease: Lease) -> None:
        usage, reason = lease.usage, lease.hit.reason
        self._counters["requests"] += 1
        self._counters["hits" if reason == "hit" else f"miss_{reason}"] += 1
        self._counters["read_tokens"] += usage.read or 0
        self._counters["fresh_tokens"] += usage.fresh or 0


def _bill(prompt: TokenIds, read: int) -> Usage:
    return Usage(len(prompt.tokens) - read, read, 0, 0, 0)
