"""The top-level fields of one request: the provider's own, and what this call says otherwise.

Takes a provider and overrides, gives fields and headers that are sure to be sendable. Knows nothing of layouts.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.canonical import Json, canonical
from contextkit.errors import UsageError
from contextkit.providers.provider import Provider

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
    provider: Provider, overrides: Mapping[str, Json], masking: Mapping[str, Json] | None = None
) -> tuple[dict[str, Json], dict[str, str]]:
    """Fields and extra headers of a request; `masking` are the fields its mask says itself in. None leaves a field out.

    Raises `UsageError` for a field that is not a parameter's to set, `NotSerialisable` for a value JSON cannot carry.
    """
    given = dict(overrides)
    headers, extra = (_mapping(name, given.pop(name, None)) for name in ("extra_headers", "extra_body"))
    params = {name: value for name, value in {**provider.params, **(masking or {}), **given, **extra}.items() if value is not None}
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
    return params, _merged(provider.headers, {str(name): str(value) for name, value in headers.items()})


def output_tokens(params: Mapping[str, Json]) -> int:
    """How long a reply may get, 0 where a request does not say.

    >>> output_tokens({"max_tokens": 9}), output_tokens({"inferenceConfig": {"maxTokens": 8}})
    (9, 8)
    """
    nested = {name: (params.get(field) or {}).get(name) for field, name in _NESTED.items()}
    asked = {**{name: params.get(name) for name in OUTPUT_FIELDS}, **nested}
    return next((tokens for tokens in asked.values() if tokens is not None), 0)


def _merged(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Both; where both name beta features, all of them."""
    beta = next((name for name in given if name.lower() == _BETA and _BETA in own), None)
    kept = {name: value for name, value in own.items() if beta is None or name != _BETA}
    return {**kept, **given, **({} if beta is None else {beta: f"{own[_BETA]},{given[beta]}"})}


def _mapping(name: str, value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping | None):
        raise UsageError(f"{name} is a dict, not {type(value).__name__}")
    return value or {}
