"""The top-level fields of one request: the provider's own, and what this call says otherwise.

Takes a provider and overrides, gives fields and headers that are sure to be sendable. Knows nothing of layouts.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.canonical import Json, canonical
from contextkit.errors import UsageError
from contextkit.providers.provider import Provider
from contextkit.providers.settings.given import NESTED, OUTPUT_FIELDS, apart, check_fields, merged
from contextkit.providers.settings.output import lowered

MODEL_FIELDS = ("model", "modelId")
"""Where they say which model is asked."""


def parameters(
    provider: Provider,
    overrides: Mapping[str, Json],
    decided: Mapping[str, Json] | None = None,
    above: Mapping[str, str] | None = None,
) -> tuple[dict[str, Json], dict[str, str]]:
    """Fields and extra headers of a request.

    `decided` are the fields its mask and its key say themselves in, `above` its key's header.

    None leaves a field out.

    Raises `UsageError` for a field that is not a parameter's to set, `NotSerialisable` for a value JSON cannot carry.
    """
    given, extra, headers = apart(lowered(provider.wire, overrides, provider.params)[1])
    params = {
        name: value
        for name, value in {**provider.params, **(decided or {}), **given, **extra}.items()
        if value is not None
    }
    check_fields(params, provider.wire, provider.grammar, getattr(provider, "least_output", 0))
    named = next(field for field in MODEL_FIELDS if field in provider.params)
    if params.get(named) != provider.params[named]:
        raise UsageError("model: each model has its own cache and prices; set context.provider to one made for it")
    canonical(params)
    return params, merged({**provider.headers, **(above or {})}, headers)


def output_tokens(params: Mapping[str, Json]) -> int:
    """How long a reply may get, 0 where a request does not say.

    >>> output_tokens({"max_tokens": 9}), output_tokens({"inferenceConfig": {"maxTokens": 8}})
    (9, 8)
    """
    nested = {name: (params.get(field) or {}).get(name) for field, name in NESTED.items()}
    asked = {**{name: params.get(name) for name in OUTPUT_FIELDS}, **nested}
    return next((tokens for tokens in asked.values() if tokens is not None), 0)


def is_prewarm(params: Mapping[str, Json]) -> bool:
    """Whether a request only fills the cache.

    >>> is_prewarm({"max_tokens": 0}), is_prewarm({"prompt_cache_options": {"prewarm": True}}), is_prewarm({"max_tokens": 1})
    (True, True, False)
    """
    options = params.get("prompt_cache_options")
    return params.get("max_tokens") == 0 or (isinstance(options, Mapping) and bool(options.get("prewarm")))


def prewarming(provider: Provider) -> dict[str, Json]:
    """What turns a request of `provider` into one that only fills the cache.

    Raises `UsageError` where the endpoint has no such request.

    Anthropic: `max_tokens=0` (platform.claude.com/docs/en/build-with-claude/prompt-caching); Responses: an option of
    `prompt_cache_options` (responses/response_create_params.py:482).
    """
    if provider.wire == "anthropic_messages":
        return {"max_tokens": 0}
    if provider.wire == "openai_responses" and provider.model.cache == "breakpoints":
        return {"prompt_cache_options": {**(provider.params.get("prompt_cache_options") or {}), "prewarm": True}}
    raise UsageError(
        f"{provider.model.name} on {provider.wire} has no request that only fills the cache: send a short one instead"
    )
