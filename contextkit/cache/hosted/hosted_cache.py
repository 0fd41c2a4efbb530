"""Builds the cache that a row of rules describes, on one server or on several behind a router.

Documented: above about 15 requests a minute of one prefix and `prompt_cache_key`, OpenAI lets other servers answer
(https://developers.openai.com/api/docs/guides/prompt-caching); xAI caches by server and its `x-grok-conv-id` returns to
the same one (https://docs.x.ai/developers/advanced-api-usage/prompt-caching); OpenRouter keeps a session at its
provider while it is less than 10 minutes idle (https://openrouter.ai/docs/guides/best-practices/prompt-caching).

Assumed: a prompt without a key goes to the servers in turn; a key without stickiness always has the same home; a new or
lapsed sticky key goes to the next server in turn; each full share of requests within the last minute moves one server
on from home.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Generic, TypeVar

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.hosted.rules import Kind, Rule
from contextkit.cache.hosted.unit_cache import UnitCache
from contextkit.cache.implicit_cache import ImplicitCache
from contextkit.cache.prefix_cache import Hit, Lease, PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.errors import UsageError

P = TypeVar("P")
_MINUTE = 60.0


def head_of(prompt: Prompt) -> bytes:
    """Routes by what a prompt begins with: its namespace and first segment.

    >>> prompt = Prompt((b"n", b"", b""), (1, 1), [b"a", b"ab"], [5, 9], [0, 1], (), 2)
    >>> head_of(prompt) == head_of(Prompt((b"n", b"", b""), (1, 1), [b"a", b"ac"], [5, 9], [0, 1], (), 2))
    True
    """
    return b"\0".join(prompt.key(0)) if prompt.n else b""


def tell(cache: Any, prompt: Any, now: float, lease: Lease | None) -> None:
    """Say to a cache that keeps the ends of answers where the answer to the request of `lease` ended.

    The others do not want to know.
    """
    answered = getattr(cache, "answered", None)
    if answered is not None:
        answered(prompt, now, lease)


class Routed(Generic[P]):
    """Servers behind one name; satisfies `PrefixCache[P]`."""

    def __init__(
        self,
        make: Callable[[], PrefixCache[P]],
        key_of: Callable[[P], bytes | None],
        n_servers: int,
        *,
        per_minute: int = 0,
        sticky_seconds: float = 0,
    ) -> None:
        """`per_minute`: requests of one key before the next server helps, 0 for never.

        Raises `UsageError` for no server.
        """
        if n_servers < 1:
            raise UsageError(f"n_servers is {n_servers}: at least one server answers")
        self._servers = [make() for _ in range(n_servers)]
        self._key_of = key_of
        self._per_minute = per_minute
        self._sticky_seconds = sticky_seconds
        self._turn = 0
        self._seated: dict[bytes, tuple[int, float]] = {}
        self._lately: dict[bytes, list[float]] = {}

    def server_of(self, prompt: P, now: float) -> int:
        """Return the server that would answer now; changes nothing."""
        key = self._key_of(prompt)
        if key is None:
            return self._turn % len(self._servers)
        lately = sum(at > now - _MINUTE for at in self._lately.get(key, ()))
        moved = lately // self._per_minute if self._per_minute else 0
        return (self._home(key, now) + moved) % len(self._servers)

    def lookup(self, prompt: P, now: float) -> Hit:
        """Return what would be read now; changes nothing."""
        return self._servers[self.server_of(prompt, now)].lookup(prompt, now)

    def quote(self, prompt: P, now: float) -> Usage:
        """Return what sending it now would be billed, `output` 0; changes nothing."""
        return self._servers[self.server_of(prompt, now)].quote(prompt, now)

    def begin(self, prompt: P, now: float) -> Lease:
        """A request starts, at one server."""
        server = self.server_of(prompt, now)
        self._seat(self._key_of(prompt), now)
        lease = self._servers[server].begin(prompt, now)
        return replace(lease, writes=(server, lease))

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins, at that server."""
        server, inner = lease.writes
        self._servers[server].publish(inner, now)

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: the whole bill."""
        server, inner = lease.writes
        usage: Usage = self._servers[server].end(inner, output, now)
        return usage

    def answered(self, prompt: P, now: float, lease: Lease | None = None) -> None:
        """The prompt that the request of `lease` makes with its answer behind it, told to the server that gave the
        answer.

        Without a lease it is the server that would answer now.
        """
        server, inner = lease.writes if lease else (self.server_of(prompt, now), None)
        tell(self._servers[server], prompt, now, inner)

    def stats(self) -> dict[str, int]:
        """Counters of all servers together since the last reset, and how many `servers` there are."""
        total: Counter[str] = Counter()
        for server in self._servers:
            total.update(server.stats())
        return dict(total) | {"servers": len(self._servers)}

    def reset(self) -> None:
        """Forget everything, who sat where included."""
        for server in self._servers:
            server.reset()
        self._turn = 0
        self._seated.clear()
        self._lately.clear()

    def _home(self, key: bytes, now: float) -> int:
        if not self._sticky_seconds:
            return int.from_bytes(blake2b(key, digest_size=8).digest()) % len(self._servers)
        server, until = self._seated.get(key, (0, now))
        return server if until > now else self._turn % len(self._servers)

    def _seat(self, key: bytes | None, now: float) -> None:
        """Remember that this key came now; forget who came too long ago."""
        if key is None:
            self._turn += 1
            return
        if self._sticky_seconds:
            home = self._home(key, now)
            self._turn += self._seated.get(key, (0, now))[1] <= now
            self._seated = {other: seat for other, seat in self._seated.items() if seat[1] > now}
            self._seated[key] = home, now + self._sticky_seconds
        if self._per_minute:
            self._lately[key] = [at for at in self._lately.get(key, ()) if at > now - _MINUTE] + [now]


def hosted_cache(rule: Rule, key_of: Callable[[Prompt], bytes | None] = head_of) -> PrefixCache[Prompt]:
    """An empty cache that follows `rule`.

    `key_of` gives the key by which requests are routed, None for none.

    >>> from contextkit.cache.hosted.rules import HOSTED
    >>> prompt = Prompt((b"", b"", b""), (0, 0), [b"a"], [1000], [0], (), 1)
    >>> cache = hosted_cache(HOSTED["groq"])
    >>> cache.publish(cache.begin(prompt, now=0.0), now=1.0)
    >>> cache.lookup(prompt, now=7199.0).read_tokens, cache.lookup(prompt, now=7200.0).reason
    (1000, 'ttl_expired')
    """
    if rule.n_servers == 1 and not rule.sticky_seconds:
        return _one(rule)
    return Routed(
        lambda: _one(rule), key_of, rule.n_servers, per_minute=rule.per_minute, sticky_seconds=rule.sticky_seconds
    )


def _one(rule: Rule) -> PrefixCache[Prompt]:
    cache = _KINDS[rule.kind](rule)
    return OptInCache(cache, rule) if rule.is_opt_in or rule.max_marks or rule.lookback or rule.ttls_seconds else cache


_KINDS: dict[Kind, Callable[[Rule], PrefixCache[Prompt]]] = {
    "implicit": lambda rule: ImplicitCache(
        rule.min_tokens, rule.granularity_tokens, rule.ttl_seconds, rule.visible_at, bills_writes=rule.bills_writes
    ),
    "breakpoints": lambda rule: BreakpointCache(rule.min_tokens, visible_at=rule.visible_at, renewal=rule.renewal),
    "units": lambda rule: UnitCache(
        rule.ttl_seconds,
        min_tokens=rule.min_tokens,
        interval_tokens=rule.granularity_tokens or None,
        visible_at=rule.visible_at,
    ),
}


@dataclass(slots=True)
class OptInCache:
    """A cache that sees a prompt as its provider reads it: the marks that count, or nothing where nobody asked."""

    cache: PrefixCache[Prompt]
    """What keeps the prefixes."""
    rule: Rule
    """What is asked for, and how many marks count."""

    def lookup(self, prompt: Prompt, now: float) -> Hit:
        """Return what would be read now.

        Changes nothing. This and the next two raise `UsageError` for a lifetime the provider does not offer.
        """
        return (
            self.cache.lookup(self._read(prompt), now)
            if self._is_enabled(prompt)
            else Hit(0, 0, None, "no_breakpoint", None)
        )

    def quote(self, prompt: Prompt, now: float) -> Usage:
        """Return what sending it now would be billed, `output` 0; changes nothing."""
        return (
            self.cache.quote(self._read(prompt), now)
            if self._is_enabled(prompt)
            else Usage(prompt.n_tokens, 0, 0, 0, 0)
        )

    def begin(self, prompt: Prompt, now: float) -> Lease:
        """A request starts."""
        if not self._is_enabled(prompt):
            return Lease(self.lookup(prompt, now), self.quote(prompt, now), now, ())
        lease = self.cache.begin(self._read(prompt), now)
        return replace(lease, writes=(lease,))

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins."""
        for inner in lease.writes:
            self.cache.publish(inner, now)

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: the whole bill."""
        for inner in lease.writes:
            self.cache.end(inner, output, now)
        return replace(lease.usage, output=output)

    def answered(self, prompt: Prompt, now: float, lease: Lease | None = None) -> None:
        """The prompt that the request of `lease` makes with its answer behind it, for caches that keep the end of an
        answer.
        """
        for inner in lease.writes if lease else ((None,) if self._is_enabled(prompt) else ()):
            tell(self.cache, self._read(prompt), now, inner)

    def stats(self) -> dict[str, int]:
        """Counters of the requests that asked."""
        return self.cache.stats()

    def reset(self) -> None:
        """Forget everything."""
        self.cache.reset()

    def _is_enabled(self, prompt: Prompt) -> bool:
        return bool(prompt.breakpoints) or not self.rule.is_opt_in

    def _read(self, prompt: Prompt) -> Prompt:
        rule = self.rule
        marks = prompt.breakpoints[-rule.max_marks :] if rule.max_marks else prompt.breakpoints
        odd = next(
            (mark.ttl_seconds for mark in marks if rule.ttls_seconds and mark.ttl_seconds not in rule.ttls_seconds),
            None,
        )
        if odd is not None:
            raise UsageError(
                f"a mark asks for a lifetime of {odd} s: this provider offers {', '.join(map(str, rule.ttls_seconds))}"
            )
        return replace(
            prompt, breakpoints=tuple(replace(mark, lookback=rule.lookback or mark.lookback) for mark in marks)
        )
