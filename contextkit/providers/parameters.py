"""The parameters that a caller gives to a provider or to one call: checked, put into the fields of each endpoint, and read
back (`output_tokens`, `is_prewarm`).

`extra_body` and `extra_headers` hold fields and headers without a name here. What the log or the client decides is
refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from contextkit.canonical import Json, canonical
from contextkit.errors import UsageError
from contextkit.facts.parameters import TABLES, is_listed, keying
from contextkit.prompt.prompt import Grammar
from contextkit.providers.provider import Provider
from contextkit.providers.reply_form import lowered
from contextkit.providers.sdk_endpoints import declared_fields

HEADERS, BODY = "extra_headers", "extra_body"
"""What a caller calls the two, at every provider and for one request."""


OUTPUT_FIELDS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Where the wires say how long a reply may get."""


NESTED: Mapping[str, str] = {"inferenceConfig": "maxTokens", "generationConfig": "maxOutputTokens"}
"""Field of a wire that holds it one level down → its name there."""


BETA = "anthropic-beta"
"""The header that names beta features; what several say of it is said together."""


_SAID: Mapping[str, frozenset[str]] = {
    "openai_responses": frozenset({"instructions", "previous_response_id", "conversation"})
}
"""Wire → more fields that say what only the log may say."""


_CLIENTS = frozenset({"timeout", "extra_query"})
"""Arguments of the SDKs that are no fields."""


def apart(given: Mapping[str, Json]) -> tuple[dict[str, Json], dict[str, Json], dict[str, str]]:
    """Plain parameters, the fields of `extra_body`, and `extra_headers`; the fields win over parameters of their name.

    Raises `UsageError` where one of the two is no dict.

    >>> apart({"temperature": 1, "extra_body": {"seed": 7}, "extra_headers": {"x-trace": 8}})
    ({'temperature': 1}, {'seed': 7}, {'x-trace': '8'})
    """
    plain = {name: value for name, value in given.items() if name not in (HEADERS, BODY)}
    headers, extra = ({} if given.get(name) is None else given[name] for name in (HEADERS, BODY))
    for name, value in ((HEADERS, headers), (BODY, extra)):
        if not isinstance(value, Mapping):
            raise UsageError(f"{name} is a dict, not {type(value).__name__}")
    return plain, dict(extra), {str(name): str(value) for name, value in headers.items()}


def merged(own: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Both, `given` first.

    A name is one name however it is spelled, and where both name beta features, all of them are.

    >>> merged({"anthropic-beta": "a", "X-Trace": "1"}, {"anthropic-beta": "b", "x-trace": "2"})
    {'anthropic-beta': 'a,b', 'x-trace': '2'}
    """
    again = {name.lower(): name for name in given}
    kept = {name: value for name, value in own.items() if name.lower() not in again}
    betas = [value for name, value in own.items() if name.lower() == BETA and BETA in again]
    told = {again[BETA]: ",".join([*betas, given[again[BETA]]])} if betas else {}
    return {**kept, **given, **told}


def check_fields(params: Mapping[str, Json], wire: str, grammar: Grammar, least: int) -> None:
    """Raises `UsageError` for a field that is not a parameter's to set, and for a length that is none.

    `least`: the shortest.
    """
    said = {name for name, value in params.items() if value is not None}
    if taken := said & {*grammar.arrays.values(), *_SAID.get(wire, ())}:
        raise UsageError(
            f"{', '.join(sorted(taken))}: the log says that, no parameter; context.resystem(…), context.retool(…) change it"
        )
    if foreign := said & _CLIENTS:
        raise UsageError(
            f"{', '.join(sorted(foreign))}: the client's business, not the request's; use client.with_options(…)"
        )
    lengths = [(name, params.get(name)) for name in OUTPUT_FIELDS]
    lengths += [
        (name, held.get(name)) for field, name in NESTED.items() if isinstance(held := params.get(field), Mapping)
    ]
    for name, asked in lengths:
        if asked is None:
            continue
        if type(asked) is not int:
            raise UsageError(f"{name} is a number of tokens, not {type(asked).__name__}")
        if asked < least:
            raise UsageError(f"{name}={asked}: how many tokens a reply may have, {least} or more")


def check_names(names: Iterable[str], wire: str) -> None:
    """Raises `UsageError` for a parameter that neither the endpoint's tables list nor its installed SDK declares.

    Without the SDK, and for an endpoint that is not ours, nothing is refused.
    """
    unlisted = [name for name in names if wire in TABLES and not is_listed(wire, name)]
    declared = declared_fields(wire) if unlisted else frozenset()
    unknown = next((name for name in unlisted if declared is not None and name not in declared), None)
    if unknown is not None:
        listed = {name for table in map(keying, TABLES[wire]) for name in (*table.levels, *table.neutral)}
        close = get_close_matches(unknown, sorted(listed.union(declared or ())), n=1)
        near = f"; did you mean {close[0]!r}?" if close else "."
        raise UsageError(
            f"{unknown}: {wire} has no parameter of this name{near} A field that its SDK does not declare goes into "
            f"extra_body={{{unknown!r}: …}}"
        )


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
    if not getattr(provider, "takes_own_fields", False):
        check_names((name for name in given if given[name] is not None), provider.wire)
    named = next(field for field in MODEL_FIELDS if field in provider.params)
    if params.get(named) != provider.params[named]:
        raise UsageError("model: each model has its own cache and prices; set context.provider to one made for it")
    all_headers = merged({**provider.headers, **(above or {})}, headers)
    canonical(params)
    return params, all_headers


def output_tokens(params: Mapping[str, Json]) -> int:
    """Return how long a reply may get, 0 where a request does not say, or says it in a form that no provider reads.

    Of several fields the largest counts. Text is read as lenient servers read it.

    >>> output_tokens({"max_tokens": 9}), output_tokens({"inferenceConfig": {"maxTokens": "8"}}), output_tokens({"max_tokens": []})
    (9, 8, 0)
    """
    nested = [held.get(name) for field, name in NESTED.items() if isinstance(held := params.get(field), Mapping)]
    asked = [value for value in (*(params.get(name) for name in OUTPUT_FIELDS), *nested) if value is not None]
    numbers = [whole_number(value) for value in asked]
    return 0 if None in numbers else max((number or 0 for number in numbers), default=0)


def with_output_limit(wire: str, params: Mapping[str, Json], n_tokens: int, chat_field: str) -> dict[str, Json]:
    """Parameters that limit a reply to so many tokens, in the fields that they say it in already, or in the endpoint's.

    `chat_field` is the field of a host of Chat Completions. Unchanged where the endpoint has none that is known.

    >>> with_output_limit("gemini", {}, 9, ""), with_output_limit("openai_chat", {"max_tokens": 20}, 9, "max_completion_tokens")
    ({'generationConfig': {'maxOutputTokens': 9}}, {'max_tokens': 9})
    """
    flat = [name for name in OUTPUT_FIELDS if params.get(name) is not None]
    nested = _NESTED_OF.get(wire)
    if nested is not None:
        return {**params, nested: {**(params.get(nested) or {}), NESTED[nested]: n_tokens}}
    own = {"anthropic_messages": "max_tokens", "openai_responses": "max_output_tokens", "openai_chat": chat_field}
    return {**params, **dict.fromkeys(flat or ([own[wire]] if wire in own else []), n_tokens)}


_NESTED_OF = {"bedrock_converse": "inferenceConfig", "gemini": "generationConfig"}


_MOST = 1 << 40
"""No provider generates more: a larger number would leave what a price can be computed of."""


def whole_number(value: Json) -> int | None:
    """The number that a field asks for, as lenient servers read it; None where none would.

    >>> whole_number(900), whole_number(" 900 "), whole_number(900.0), whole_number("nine"), whole_number(-1)
    (900, 900, 900, None, None)
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(min(number, _MOST)) if number >= 0 and number % 1 == 0 else None


def is_prewarm(params: Mapping[str, Json]) -> bool:
    """Return whether a request only fills the cache.

    >>> is_prewarm({"max_tokens": 0}), is_prewarm({"prompt_cache_options": {"prewarm": True}}), is_prewarm({"max_tokens": 1})
    (True, True, False)
    >>> is_prewarm({"type": "response.create", "generate": False})
    True
    """
    options = params.get("prompt_cache_options")
    is_filling = isinstance(options, Mapping) and bool(options.get("prewarm"))
    return params.get("max_tokens") == 0 or params.get("generate") is False or is_filling


def prewarming(provider: Provider) -> dict[str, Json]:
    """Return the fields that turn a request of `provider` into one that only fills the cache.

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
