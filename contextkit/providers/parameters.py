"""The top-level fields of one request: the provider's own, and what this call says otherwise.

Takes a provider and overrides, gives fields and headers that are sure to be sendable. Knows nothing of layouts.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.canonical import Json, canonical
from contextkit.errors import UsageError
from contextkit.providers.provider import Provider
from contextkit.providers.settings.output import lowered

OUTPUT_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Where the wires say how long a reply may get."""
_SAID: Mapping[str, frozenset[str]] = {"openai_responses": frozenset({"instructions", "previous_response_id", "conversation"})}
"""Wire → more fields that say what only the log may say."""
MODEL_FIELDS = ("model", "modelId")
"""Where they say which model is asked."""
_NESTED: Mapping[str, str] = {"inferenceConfig": "maxTokens", "generationConfig": "maxOutputTokens"}
"""Field of a wire that holds it one level down → its name there."""
_BETA = "anthropic-beta"
_CLIENTS = frozenset({"timeout", "extra_query"})
"""Arguments of the SDKs that are no fields."""


def parameters(
    provider: Provider, overrides: Mapping[str, Json], decided: Mapping[str, Json] | None = None, above: Mapping[str, str] | None = None
) -> tuple[dict[str, Json], dict[str, str]]:
    """Fields and extra headers of a request; `decided` are the fields its mask and its key say themselves in, `above` its key's header.

    None leaves a field out.

    Raises `UsageError` for a field that is not a parameter's to set, `NotSerialisable` for a value JSON cannot carry.
    """
    _, given = lowered(provider.wire, overrides, provider.params)
    headers, extra = (_mapping(name, given.pop(name, None)) for name in ("extra_headers", "extra_body"))
    params = {name: value for name, value in {**provider.params, **(decided or {}), **given, **extra}.items() if value is not None}
    said = {*provider.grammar.arrays.values(), *_SAID.get(provider.wire, ())}
    if taken := params.keys() & said:
        raise UsageError(f"{', '.join(sorted(taken))}: the log says that, no parameter; context.resystem(…), context.retool(…) change it")
    if foreign := params.keys() & _CLIENTS:
        raise UsageError(f"{', '.join(sorted(foreign))}: the client's business, not the request's; use client.with_options(…)")
    named = next(field for field in MODEL_FIELDS if field in provider.params)
    if params.get(named) != provider.params[named]:
        raise UsageError("model: each model has its own cache and prices; set context.provider to one made for it")
    for name in OUTPUT_FIELDS:
        if type(params.get(name, 0)) is not int:
            raise UsageError(f"{name} is a number of tokens, not {type(params[name]).__name__}")
    canonical(params)
    return params, _merged({**provider.headers, **(above or {})}, {str(name): str(value) for name, value in headers.items()})


def output_tokens(params: Mapping[str, Json]) -> int:
    """How long a reply may get, 0 where a request does not say.

    >>> output_tokens({"max_tokens": 9}), output_tokens({"inferenceConfig": {"maxTokens": 8}})
    (9, 8)
    """
    nested = {name: (params.get(field) or {}).get(name) for field, name in _NESTED.items()}
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
    """What turns a request of `provider` into one that only fills the cache. Raises `UsageError` where the endpoint has no such request.

    Anthropic: `max_tokens=0` (platform.claude.com/docs/en/build-with-claude/prompt-caching); Responses: an option of
    `prompt_cache_options` (responses/response_create_params.py:482).
    """
    if provider.wire == "anthropic_messages":
        return {"max_tokens": 0}
    if provider.wire == "openai_responses" and provider.model.cache == "breakpoints":
        return {"prompt_cache_options": {**(provider.params.get("prompt_cache_options") or {}), "prewarm": True}}
    raise UsageError(f"{provider.model.name} on {provider.wire} has no request that only fills the cache: send a short one instead")


def _merged(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Both; where both name beta features, all of them."""
    beta = next((name for name in given if name.lower() == _BETA and _BETA in own), None)
    kept = {name: value for name, value in own.items() if beta is None or name != _BETA}
    return {**kept, **given, **({} if beta is None else {beta: f"{own[_BETA]},{given[beta]}"})}


def _mapping(name: str, value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping | None):
        raise UsageError(f"{name} is a dict, not {type(value).__name__}")
    return value or {}
