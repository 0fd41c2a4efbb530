"""Prompts as an engine sees them: token ids, or the ids of blocks somebody already hashed. No text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter."""

    name: str
    """Its name."""
    path: str
    """Where its weights lie: the same name under another path is another adapter."""


@dataclass(frozen=True, slots=True)
class Item:
    """An image, a sound, a video: placeholder tokens that stand for one thing."""

    offset: int
    """Index of its first placeholder token."""
    length: int
    """How many placeholder tokens it takes."""
    digest: str
    """What the thing is known by."""


@dataclass(frozen=True, slots=True)
class TokenIds:
    """A prompt as token ids, with what else decides whether its blocks may be shared."""

    tokens: Sequence[int]
    """Token ids, from the front."""
    adapter: Adapter | None = None
    """The LoRA adapter it runs under."""
    items: tuple[Item, ...] = ()
    """In rising order of offset."""
    salt: str | None = None
    """Separates one tenant's cache from another's; empty is as good as none."""
    is_read_skipped: bool = False
    """Whether it reads nothing from the cache (it wants log probabilities of its prompt); it still writes."""


@dataclass(frozen=True, slots=True)
class BlockIds:
    """A prompt as block ids; equal ids at equal places mean equal blocks."""

    size: int
    """Tokens in a block."""
    ids: Sequence[int]
    """One id a block, from the front."""
