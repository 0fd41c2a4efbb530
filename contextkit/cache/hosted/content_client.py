"""A client of cached contents (Gemini's explicit caching), for replays: when it stores what, and what that costs.

Takes prompts, gives hits, bills, and the dollars for making and storing contents; knows nothing of ledgers.

Assumed, since a recording of another provider has no such calls: a whole prompt is made a content when the answer to it
is there, if it is large enough and less than half of it was read; it lives for the rule's lifetime, is named by every
later prompt that begins with it, and is deleted once a longer one takes its place. Making one is billed as plain input.
"""

from __future__ import annotations

from contextkit.cache.hosted.content_cache import Content, ContentCache, storage_usd
from contextkit.cache.prefix_cache import Lease
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage

_Key = tuple[bytes, bytes]
_WORTH_IT = 2
"""A prompt is stored when it is longer than what was read by more than this factor."""


class Contents:
    """One client; a cache as `simulate` uses one.

    >>> client = Contents(min_tokens=4096, ttl_seconds=3600)
    >>> first = Prompt((b"", b"", b""), (0, 0), [b"a"], [50_000], [0], (), 1)
    >>> client.end(client.begin(first, now=0.0), 10, now=5.0).read
    0
    >>> later = Prompt((b"", b"", b""), (0, 0), [b"a", b"ab"], [50_000, 50_700], [0, 1], (), 2)
    >>> client.begin(later, now=10.0).usage.read, client.created_tokens
    (50000, 50000)
    """

    def __init__(self, min_tokens: int, ttl_seconds: float) -> None:
        """Nothing is stored yet."""
        self._cache, self._min_tokens, self._ttl_seconds = ContentCache(min_tokens), min_tokens, ttl_seconds
        self._live: dict[_Key, Content] = {}
        self._ended: list[Content] = []
        self.created_tokens = 0
        """Tokens of all contents that were made."""

    def begin(self, prompt: Prompt, now: float) -> Lease:
        """A request starts, naming the longest content it begins with."""
        named = next(
            (segment for segment in range(prompt.n - 1, -1, -1) if self._is_live(prompt.key(segment), now)), None
        )
        marks = () if named is None else (Breakpoint(named, 0),)
        asked = Prompt(
            prompt.namespaces, prompt.level_ends, prompt.digests, prompt.ends_tokens, prompt.positions, marks, prompt.n
        )
        lease = self._cache.begin(asked, now)
        read = None if named is None else prompt.key(named)
        whole = (prompt.key(prompt.n - 1), prompt.n_tokens) if prompt.n else None
        return Lease(lease.hit, lease.usage, now, (lease, read, whole))

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins, which changes nothing."""

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: the prompt is stored where that is worth it."""
        inner, read, whole = lease.writes
        usage = self._cache.end(inner, output, now)
        if (
            whole
            and whole[1] >= max(1, self._min_tokens)
            and whole[1] > _WORTH_IT * (usage.read or 0)
            and not self._is_live(whole[0], now)
        ):
            self._store(whole[0], whole[1], now)
            if read in self._live:
                self._ended.append(self._cache.delete(self._live.pop(read), now))
        return usage

    def storage_usd(self, until: float, usd_per_mtok_hour: float) -> float:
        """Dollars for storing everything up to `until`."""
        return sum(storage_usd(content, until, usd_per_mtok_hour) for content in (*self._ended, *self._live.values()))

    def _is_live(self, key: _Key, now: float) -> bool:
        content = self._live.get(key)
        if content is not None and content.expires_at <= now:
            self._ended.append(self._live.pop(key))
            return False
        return content is not None

    def _store(self, key: _Key, n_tokens: int, now: float) -> None:
        """Make a content of a whole prompt, which is all its key stands for."""
        alone = Prompt((b"", b"", key[0]), (0, 0), [key[1]], [n_tokens], [0], (Breakpoint(0, 0),), 1)
        self._live[key] = self._cache.create(alone, self._ttl_seconds, now)
        self.created_tokens += n_tokens
