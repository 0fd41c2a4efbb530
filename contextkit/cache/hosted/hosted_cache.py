"""The cache a row of rules describes.

Takes a `Rule`, gives a `PrefixCache[Prompt]`; the behaviour lies in the classes it chooses from, the numbers in the
row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.hosted.content_cache import ContentCache
from contextkit.cache.hosted.routed import Routed, head_of, tell
from contextkit.cache.hosted.rules import Kind, Rule
from contextkit.cache.hosted.unit_cache import UnitCache
from contextkit.cache.implicit_cache import ImplicitCache
from contextkit.cache.prefix_cache import Hit, Lease, PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.errors import UsageError


def hosted_cache(rule: Rule, key_of: Callable[[Prompt], bytes | None] = head_of) -> PrefixCache[Prompt]:
    """An empty cache that follows `rule`.

    `key_of` gives what the rule's `routing` field holds for a prompt, None for none.

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
    return Asked(cache, rule) if rule.is_opt_in or rule.max_marks or rule.lookback or rule.ttls_seconds else cache


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
    "contents": lambda rule: ContentCache(rule.min_tokens),
}


@dataclass(slots=True)
class Asked:
    """A cache that sees a prompt as its provider reads it: the marks that count, or nothing where nobody asked."""

    cache: PrefixCache[Prompt]
    """What keeps the prefixes."""
    rule: Rule
    """What is asked for, and how many marks count."""

    def lookup(self, prompt: Prompt, now: float) -> Hit:
        """What would be read now.

        Changes nothing. This and the next two raise `UsageError` for a lifetime the provider does not offer.
        """
        return (
            self.cache.lookup(self._read(prompt), now)
            if self._is_asked(prompt)
            else Hit(0, 0, None, "no_breakpoint", None)
        )

    def quote(self, prompt: Prompt, now: float) -> Usage:
        """What sending it now would be billed, `output` 0; changes nothing."""
        return (
            self.cache.quote(self._read(prompt), now) if self._is_asked(prompt) else Usage(prompt.n_tokens, 0, 0, 0, 0)
        )

    def begin(self, prompt: Prompt, now: float) -> Lease:
        """A request starts."""
        if not self._is_asked(prompt):
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
        for inner in lease.writes if lease else ((None,) if self._is_asked(prompt) else ()):
            tell(self.cache, self._read(prompt), now, inner)

    def stats(self) -> dict[str, int]:
        """Counters of the requests that asked."""
        return self.cache.stats()

    def snapshot(self) -> bytes:
        """Everything `restore` needs, as JSON."""
        return self.cache.snapshot()

    def restore(self, state: bytes) -> None:
        """Back to a snapshot; raises `StorageError` where `state` is not one."""
        self.cache.restore(state)

    def reset(self) -> None:
        """Forget everything."""
        self.cache.reset()

    def _is_asked(self, prompt: Prompt) -> bool:
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
