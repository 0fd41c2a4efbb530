"""A content stored at Google: made by a call of its own from the beginning of a conversation, named by later requests,
paid by the hour.

Takes a google-genai client and a layout, gives a `CachedContent`, whose storage ends when it is closed. Source of every
rule: https://ai.google.dev/gemini-api/docs/caching and `google.genai.types` 3.4 (CreateCachedContentConfig).
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, parse
from contextkit.economics.lifetime import Storage, storage
from contextkit.errors import UsageError
from contextkit.layout.layout import Layout
from contextkit.models import model_named
from contextkit.prices import cost_usd
from contextkit.providers.blockwise.raw import RAW, unpacked
from contextkit.providers.gemini.parts import WIRE
from contextkit.terminal import sanitize

STORAGE_USD: Mapping[str, float] = {"gemini-3.8-flash": 0.5, "gemini-3.7-flash": 0.5, "gemini-3.6-flash": 0.5}
"""Model → dollars for a million tokens and an hour (PyPI genai-prices 0.2.3, comments of these rows)."""
MOST_USD = 4.5
"""The highest such price there is (https://ai.google.dev/gemini-api/docs/pricing): assumed where a model's own is not
at hand."""
IMPLICIT_ONLY = ("gemini-4-argon",)
"""Models that take no content (caching guide)."""


class CachedContent:
    """One stored content. Close it, or use it in a `with`: storage is paid until then, and one that is forgotten warns."""

    def __init__(self, client: Any, name: str, layout: Layout, n_segments: int, kept: Storage) -> None:
        self.name = name
        """As requests name it, `cachedContents/…`."""
        self.n_segments = n_segments
        """Segments of the conversation that it holds."""
        self.digest = layout.track.digests[n_segments - 1].hex()
        """Of all of them: a conversation that begins otherwise cannot use it."""
        self.storage = kept
        """Its size, what it costs, and how many reads pay for it."""
        self._client = client
        self._forgotten = weakref.finalize(self, _warn, name, kept.kept_usd)

    @property
    def field(self) -> Json:
        """What a provider's parameters say of it."""
        return {"name": self.name, "segments": self.n_segments, "digest": self.digest}

    def extend(self, ttl_seconds: float) -> None:
        """Give it a new lifetime from now; reading does not lengthen it."""
        self._client.caches.update(name=self.name, config={"ttl": f"{ttl_seconds:g}s"})

    def close(self) -> None:
        """Delete it.

        Closing twice is closing once. What the SDK raises is raised, and the content still counts as open then.
        """
        if self._forgotten.alive:
            self._client.caches.delete(name=self.name)
            self._forgotten.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __str__(self) -> str:
        kept, pays = self.storage, self.storage.reads_to_pay
        worth = "its price is not known" if pays is None else f"pays from {pays:.1f} reads on"
        return f"{self.name}: {kept.n_tokens:,} tokens for {kept.ttl_seconds / 3600:.3g} h, ${kept.kept_usd:.4f} of storage, {worth}"


def cached_content(
    client: Any,
    layout: Layout,
    model: str,
    *,
    ttl_seconds: float = 3600,
    n_segments: int | None = None,
    usd_per_mtok_hour: float | None = None,
) -> CachedContent:
    """Store the first `n_segments` of a conversation: tools and system, or, with a number, messages behind them too.

    Raises `UsageError` where that is too small, no whole number of messages, or a model takes none.
    """
    track, n = layout.track, layout.track.level_ends[1] if n_segments is None else n_segments
    expected = quoted(layout, model, ttl_seconds, n, usd_per_mtok_hour)
    if model in IMPLICIT_ONLY:
        raise UsageError(f"{model} takes no cached content: what it caches, it caches unasked")
    if n >= layout.n or not track.roles[n]:
        raise UsageError(f"a content ends where a message ends, before the last: {n} segments of {layout.n} do not")
    if expected.n_tokens < model_named(model).min_tokens:
        least = model_named(model).min_tokens
        raise UsageError(
            f"{expected.n_tokens} tokens are too few: {model} takes contents of {least} on; send it as it is"
        )
    held = unpacked(parse(Layout(track, n).body(b"{}")), RAW[WIRE])
    made = client.caches.create(model=model, config={**held, "ttl": f"{ttl_seconds:g}s"})
    counted = getattr(made.usage_metadata, "total_token_count", None) or expected.n_tokens
    return CachedContent(client, made.name, layout, n, _storage(model, counted, ttl_seconds, usd_per_mtok_hour))


def quoted(
    layout: Layout, model: str, ttl_seconds: float, n_segments: int, usd_per_mtok_hour: float | None = None
) -> Storage:
    """What storing the first `n_segments` would cost, by our own count of tokens."""
    return _storage(
        model, layout.track.ends_tokens[n_segments - 1] if n_segments else 0, ttl_seconds, usd_per_mtok_hour
    )


def _storage(model: str, n_tokens: int, ttl_seconds: float, usd: float | None) -> Storage:
    per_hour = STORAGE_USD.get(model, MOST_USD) if usd is None else usd

    def price(usage: Usage) -> float | None:
        return cost_usd("google", model, usage)

    return storage(n_tokens, ttl_seconds, per_hour, price)


def _warn(name: str, kept_usd: float) -> None:
    text = f"{name} was not closed: Google stores it, and bills it (${kept_usd:.4f}), until it expires"
    warnings.warn(sanitize(text), ResourceWarning, stacklevel=2)
