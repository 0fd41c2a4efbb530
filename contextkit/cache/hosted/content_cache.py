"""Models Gemini's explicit caching: cached contents, the client that makes them, and implicit caching beside them.

A cache of contents made by a call of their own and named by later requests: Gemini's explicit caching.

Takes prompts and the clock, gives hits, bills, lifetimes and what storing costs; knows nothing of text or models.

Documented (https://ai.google.dev/gemini-api/docs/caching; google-genai 3.4.0, types.py): a content is a prefix (system
instruction, tools, contents) with any lifetime or moment of expiry, 1 h by default; a request that names it is billed
its tokens as read; it never changes, except for its expiry; it is stored at a price per million tokens and hour until
it expires or is deleted; making it is billed as plain input. A read does not lengthen its life.

Assumed: a request names a content with a breakpoint at its last segment; storage is billed to the second.

A client of cached contents (Gemini's explicit caching), for replays: when it stores what, and what that costs.

Takes prompts, gives hits, bills, and the dollars for making and storing contents; knows nothing of ledgers.

Assumed, since a recording of another provider has no such calls: a whole prompt is made a content when the answer to it
is there, if it is large enough and less than half of it was read; it lives for the rule's lifetime, is named by every
later prompt that begins with it, and is deleted once a longer one takes its place. Making one is billed as plain input.

A cache that remembers whatever was sent, beside contents that were made by a call of their own: Gemini.

Takes prompts and the clock, gives hits and bills, as `ImplicitCache` does. A breakpoint names a content: it exists, or
the provider would have refused the request, and is read whole. Knows nothing of text, models, prices, or when a content
was made.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import orjson

from contextkit.cache.implicit_cache import ImplicitCache
from contextkit.cache.prefix_cache import Hit, Lease
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage
from contextkit.errors import StorageError, UsageError

_Key = tuple[bytes, bytes]
_COUNTERS = ("requests", "hits", "read_tokens", "fresh_tokens", "output_tokens", "contents_created", "created_tokens")
"""Counters of `stats` that are always there; `miss_<reason>` joins as reasons occur."""
_FORMAT = {"kind": "content_cache", "version": 1}
"""What a snapshot says it is."""


@dataclass(frozen=True, slots=True)
class Content:
    """One cached content."""

    key: _Key
    """What it is found under."""
    n_tokens: int
    """Its size."""
    created_at: float
    """When its storage began to cost."""
    expires_at: float
    """It is readable before this moment, and costs nothing from it on."""


class ContentCache:
    """Contents under names; satisfies `PrefixCache[Prompt]`.

    >>> from contextkit.cache.prompt import Breakpoint
    >>> cache = ContentCache(min_tokens=4096)
    >>> prompt = Prompt((b"", b"", b""), (0, 0), [b"A", b"AB"], [50_000, 50_020], [0, 1], (Breakpoint(0, 600),), 2)
    >>> content = cache.create(prompt, ttl_seconds=600, now=0.0)
    >>> cache.quote(prompt, now=599.0).read, cache.lookup(prompt, now=600.0).reason
    (50000, 'ttl_expired')
    >>> storage_usd(content, until=600.0, usd_per_mtok_hour=4.5)
    0.0375
    """

    def __init__(self, min_tokens: int = 0) -> None:
        """`min_tokens`: a smaller content is refused."""
        self._min_tokens = min_tokens
        self._contents: dict[_Key, Content] = {}
        self._counters: Counter[str] = Counter()

    def create(self, prompt: Prompt, ttl_seconds: float, now: float) -> Content:
        """Store the prompt up to its last breakpoint.

        Raises `UsageError` where that is too small, or the lifetime is not above 0.
        """
        if not prompt.breakpoints or ttl_seconds <= 0:
            raise UsageError(
                "a content ends at the prompt's last breakpoint and lives for a while: give both, the lifetime above 0"
            )
        last = prompt.breakpoints[-1].segment
        n_tokens = prompt.ends_tokens[last]
        if n_tokens < self._min_tokens:
            raise UsageError(
                f"a content of {n_tokens} tokens is below the minimum of {self._min_tokens}: send it as plain input"
            )
        content = Content(prompt.key(last), n_tokens, now, now + ttl_seconds)
        self._contents[content.key] = content
        self._counters.update({"contents_created": 1, "created_tokens": n_tokens})
        return content

    def extend(self, content: Content, ttl_seconds: float, now: float) -> Content:
        """Give a content a new lifetime from now; raises `UsageError` where it is gone."""
        if self._contents.get(content.key, content).expires_at <= now or content.key not in self._contents:
            raise UsageError("this content has expired or was deleted: create it again")
        self._contents[content.key] = replace(self._contents[content.key], expires_at=now + ttl_seconds)
        return self._contents[content.key]

    def delete(self, content: Content, now: float) -> Content:
        """End a content's life now; gives it as it was, for its bill; raises `UsageError` where it is gone."""
        ended = replace(self.extend(content, 0.0, now), expires_at=now)
        del self._contents[content.key]
        return ended

    def lookup(self, prompt: Prompt, now: float) -> Hit:
        """What would be read now; changes nothing."""
        named = [(mark.segment, self._contents.get(prompt.key(mark.segment))) for mark in reversed(prompt.breakpoints)]
        live = next(((segment, content) for segment, content in named if content and content.expires_at > now), None)
        if live:
            return Hit(live[1].n_tokens, 0, live[0], "hit", live[1].expires_at)
        dead = next((content for _, content in named if content), None)
        reason = "ttl_expired" if dead else "first_write" if named else "no_breakpoint"
        return Hit(0, 0, None, reason, dead.expires_at if dead else None)

    def quote(self, prompt: Prompt, now: float) -> Usage:
        """What sending it now would be billed, `output` 0; changes nothing."""
        read = self.lookup(prompt, now).read_tokens
        return Usage(prompt.n_tokens - read, read, 0, 0, 0)

    def begin(self, prompt: Prompt, now: float) -> Lease:
        """A request starts."""
        lease = Lease(self.lookup(prompt, now), self.quote(prompt, now), now, ())
        reason = lease.hit.reason
        self._counters.update({"requests": 1, "hits" if reason == "hit" else f"miss_{reason}": 1})
        self._counters.update({"read_tokens": lease.usage.read or 0, "fresh_tokens": lease.usage.fresh or 0})
        return lease

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins, which changes nothing: contents are made by `create`."""

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: the whole bill, storage apart."""
        self._counters["output_tokens"] += output
        return replace(lease.usage, output=output)

    def stats(self) -> dict[str, int]:
        """Counters since the last reset, and `contents` held now, the expired included."""
        return dict.fromkeys(_COUNTERS, 0) | dict(self._counters) | {"contents": len(self._contents)}

    def snapshot(self) -> bytes:
        """Everything `restore` needs, as JSON."""
        rows = [
            [key[0].hex(), key[1].hex(), c.n_tokens, c.created_at, c.expires_at] for key, c in self._contents.items()
        ]
        return orjson.dumps({**_FORMAT, "contents": rows, "counters": dict(self._counters)})

    def restore(self, state: bytes) -> None:
        """Back to a snapshot; raises `StorageError`, and changes nothing, where `state` is not one of a `ContentCache`."""
        try:
            data = orjson.loads(state)
            if {name: data[name] for name in _FORMAT} != _FORMAT:
                raise ValueError(f"it is of {data['kind']!r}, version {data['version']!r}")
            found = [
                Content((bytes.fromhex(row[0]), bytes.fromhex(row[1])), int(row[2]), row[3], row[4])
                for row in data["contents"]
            ]
            counters = Counter({str(name): int(count) for name, count in data["counters"].items()})
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise StorageError(
                f"not a snapshot of a ContentCache ({error!r}): pass what ContentCache.snapshot() gave"
            ) from error
        self._contents, self._counters = {content.key: content for content in found}, counters

    def reset(self) -> None:
        """Forget everything."""
        self._contents.clear()
        self._counters.clear()


def storage_usd(content: Content, until: float, usd_per_mtok_hour: float) -> float:
    """Dollars for storing a content up to `until`, or to its expiry if that is sooner.

    >>> storage_usd(Content((b"", b""), 1_000_000, created_at=0.0, expires_at=3600.0), until=1e9, usd_per_mtok_hour=1.0)
    1.0
    """
    seconds = max(0.0, min(until, content.expires_at) - content.created_at)
    return content.n_tokens / 1e6 * seconds / 3600 * usd_per_mtok_hour


def reads_to_pay(
    usd_per_mtok_hour: float, usd_per_mtok_input: float, usd_per_mtok_read: float, lifetime_seconds: float
) -> float:
    """How many reads in a lifetime pay for storing: each saves the difference between plain and read input.

    >>> round(reads_to_pay(4.5, 1.25, 0.125, 3600), 2)
    4.0
    """
    return usd_per_mtok_hour * lifetime_seconds / 3600 / (usd_per_mtok_input - usd_per_mtok_read)


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


class NamedContents(ImplicitCache):
    """The longer of what was sent before and what is named; satisfies `PrefixCache[Prompt]`.

    >>> from contextkit.cache.prompt import Breakpoint
    >>> prompt = Prompt((b"", b"", b""), (1, 1), [b"A", b"AB"], [5000, 5100], [0, 1], (Breakpoint(0, 3600),), 2)
    >>> NamedContents(4096, 1, 300).quote(prompt, now=0.0)
    Usage(fresh=100, read=5000, writes={}, output=0)
    """

    def _hit(self, prompt: Prompt, shared: int, now: float) -> Hit:
        found = super()._hit(prompt, shared, now)
        last = prompt.breakpoints[-1].segment if prompt.breakpoints else None
        named = 0 if last is None else prompt.ends_tokens[last]
        return found if named <= found.read_tokens else Hit(named, 0, last, "hit", None)
