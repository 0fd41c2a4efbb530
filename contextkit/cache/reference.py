"""The cache a model's provider runs, as a local model of it.

Takes a row of the model table, gives a `PrefixCache`; the rules live in `cache/`, the numbers in `models.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from contextkit.cache.breakpoint_cache import BreakpointCache
from contextkit.cache.hosted.unit_cache import UnitCache
from contextkit.cache.implicit_cache import ImplicitCache, NamedContents
from contextkit.cache.prefix_cache import PrefixCache
from contextkit.cache.prompt import Prompt
from contextkit.facts.rules import MIXED_LIFETIMES, WRITTEN_HEAD, CacheRule, rule_at, rule_holds
from contextkit.models import Model


def _breakpoints(model: Model) -> PrefixCache[Prompt]:
    return BreakpointCache(model.min_tokens, is_ttl_interchangeable=rule_holds(MIXED_LIFETIMES, model.provider))


_IMPLICIT: dict[str, type[ImplicitCache]] = {"google": NamedContents}
"""Provider → its own kind of implicit cache."""


def _implicit(model: Model) -> PrefixCache[Prompt]:
    return _IMPLICIT.get(model.provider, ImplicitCache)(
        model.min_tokens, model.granularity_tokens, model.default_ttl_seconds
    )


def _billed(model: Model) -> PrefixCache[Prompt]:
    return ImplicitCache(model.min_tokens, model.granularity_tokens, model.default_ttl_seconds, bills_writes=True)


def _units(model: Model) -> PrefixCache[Prompt]:
    interval = model.granularity_tokens if model.granularity_tokens > 1 else None
    return UnitCache(model.default_ttl_seconds, min_tokens=model.min_tokens, interval_tokens=interval)


_KINDS: dict[str, Callable[[Model], PrefixCache[Prompt]]] = {
    "breakpoints": _breakpoints,
    "implicit": _implicit,
    "billed": _billed,
    "units": _units,
}


def reference_cache(model: Model, *, mixed_lifetimes: bool | None = None) -> PrefixCache[Prompt]:
    """Build an empty cache that follows the rules of `model`'s provider.

    `mixed_lifetimes` says whether a breakpoint reads entries of other lifetimes, None for what `facts/rules.toml` and the
    user's files say.
    """
    if mixed_lifetimes is not None and model.cache == "breakpoints":
        return BreakpointCache(model.min_tokens, is_ttl_interchangeable=mixed_lifetimes)
    return _KINDS[model.cache](model)


def rules_of(model: Model) -> list[CacheRule]:
    """The rules of `facts/rules.toml` that the reference cache of a model goes by, as the user's files leave them.

    `mixed_lifetimes` is one of a cache whose breakpoints may ask for more than one lifetime, `written_head` one of OpenAI's.
    Raises `UsageError` for a
    fault in a user's file.

    >>> from contextkit.models import model_named
    >>> [rule.name for rule in rules_of(model_named("claude-sonnet-5-5"))], rules_of(model_named("gemini-3-pro"))
    (['mixed_lifetimes'], [])
    """
    if model.cache != "breakpoints":
        return []
    names = [MIXED_LIFETIMES] if len(model.ttls_seconds) > 1 else []
    names += [WRITTEN_HEAD] if model.provider == "openai" else []
    return [rule_at(name, model.provider) for name in names]
