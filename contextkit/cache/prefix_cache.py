"""What every prefix cache answers: how much of this prompt is here, and when does what I send become readable.

Three moments matter and they differ by engine: `begin` (the request starts: billing, TTL clock, vLLM's visibility),
`publish` (the response begins: Anthropic's and SGLang's visibility) and `end` (the response is complete). Models are
pure: the clock is an argument.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from contextkit.cache.usage import Usage

P = TypeVar("P", contravariant=True)


@dataclass(frozen=True, slots=True)
class Hit:
    """What a lookup found."""

    read_tokens: int
    """Tokens that need not be computed again."""
    approximate_tokens: int
    """Tokens re-used approximately (a chunk at another position): counted apart, never a hit."""
    segment: int | None
    """Index of the last segment that is covered, None for nothing."""
    reason: str
    """`hit`, or why there is none: `first_write`, `below_minimum`, `ttl_expired`, `out_of_reach`, `not_yet_visible`,
    `no_breakpoint`."""
    expires_at: float | None
    """When the entry that was found dies unless it is read again."""


@dataclass(frozen=True, slots=True)
class Lease:
    """One call in flight: what it read, what it is billed, what it will leave behind."""

    hit: Hit
    usage: Usage
    """Billed input, `output` 0 until the end."""
    at: float
    """Start of the request: lifetimes count from here."""
    writes: tuple[Any, ...]
    """What `publish` makes readable; opaque, of the cache that made it."""


class PrefixCache(Protocol[P]):
    """One cache of one engine or provider."""

    def lookup(self, prompt: P, now: float) -> Hit:
        """Return what would be read now; changes nothing."""
        ...

    def quote(self, prompt: P, now: float) -> Usage:
        """Return what sending it now would be billed, `output` 0; changes nothing."""
        ...

    def begin(self, prompt: P, now: float) -> Lease:
        """A request starts: refresh what it reads, bill it."""
        ...

    def publish(self, lease: Lease, now: float) -> None:
        """Its response begins: what it writes becomes readable."""
        ...

    def end(self, lease: Lease, output: int, now: float) -> Usage:
        """Its response is complete: the whole bill."""
        ...

    def stats(self) -> dict[str, int]:
        """Counters since the last reset."""
        ...

    def reset(self) -> None:
        """Forget everything."""
        ...
