"""Prompts for the tests of hosted caches: conversations written as words with sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from contextkit.cache.prefix_cache import Lease, PrefixCache
from contextkit.cache.prompt import Breakpoint, Prompt
from contextkit.cache.usage import Usage


def talk(*blocks: tuple[str, int], marks: Sequence[Breakpoint] = (), settings: str = "") -> Prompt:
    """Blocks as (text, tokens), each at a position of its own; `settings` is what besides the text must be equal."""
    digest, total = b"", 0
    digests, ends = [], []
    for text, tokens in blocks:
        digest = hashlib.sha256(digest + text.encode()).digest()
        total += tokens
        digests.append(digest)
        ends.append(total)
    n = len(digests)
    return Prompt((settings.encode(),) * 3, (0, 0), digests, ends, range(n), tuple(marks), n)


def marked(n: int, *at: int, ttl: int = 300, tokens: int = 100, settings: str = "") -> Prompt:
    """The first `n` blocks of one conversation, marked at these."""
    blocks = [(f"b{index}", tokens) for index in range(n)]
    return talk(*blocks, marks=[Breakpoint(index, ttl) for index in at], settings=settings)


def call(cache: PrefixCache[Prompt], prompt: Prompt, at: float = 0.0) -> Usage:
    """One whole call, over at once."""
    lease: Lease = cache.begin(prompt, at)
    cache.publish(lease, at)
    return cache.end(lease, 0, at)


def bill(usage: Usage) -> tuple[int | None, int | None, int | None, int | None]:
    """(fresh, read, written short, written long)."""
    return usage.fresh, usage.read, usage.write_5m, usage.write_1h
