"""The parameters that a caller gives to a provider or to one call: checked, put into the fields of each endpoint, and read
back (`output_tokens`, `is_prewarm`); and the output limit of a request body, lowered in its bytes.

`extra_body` and `extra_headers` hold fields and headers without a name here. What the log or the client decides is
refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import chain

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import NotSerialisable, UsageError
from contextkit.facts.parameters import TABLES, is_listed, keying
from contextkit.prompt.prompt import Grammar
from contextkit.providers.body_spans import members
from contextkit.providers.provider import Provider
from contextkit.providers.reply_form import lowered
from contextkit.providers.sdk_endpoints import declared_fields

HEADERS, BODY = "extra_headers", "extra_body"
"""What a caller calls the two, at every provider and for one request."""


Path = tuple[str, ...]
"""Names of a field and of the fields it stands in."""
OUTPUT_LIMITS: Mapping[str, tuple[Path, ...]] = {
    "anthropic_messages": (("max_tokens",),),
    "openai_chat": (("max_completion_tokens",), ("max_tokens",)),
    "openai_completions": (("max_tokens",),),
    "openai_responses": (("max_output_tokens",),),
    "bedrock_converse": (("inferenceConfig", "maxTokens"),),
    "gemini": (
        ("generationConfig", "maxOutputTokens"),
        ("generation_config", "max_output_tokens"),
        ("generationConfig", "max_output_tokens"),
        ("generation_config", "maxOutputTokens"),
    ),
}
"""Wire → where it may say how long a reply may get."""
_EVERY_LIMIT = tuple(dict.fromkeys(chain.from_iterable(OUTPUT_LIMITS.values())))
"""Where the body of a vendor may say it whose endpoint is not known."""


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
    lengths = [(path[-1], value_at(params, path)) for path in _EVERY_LIMIT]
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


def value_at(params: Mapping[str, Json], path: Path) -> Json:
    """The value of a field, None where it is not there."""
    value: Json = params
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def output_tokens(params: Mapping[str, Json], wire: str = "") -> int:
    """Return how long a reply may get, 0 where a request does not say, or says it in a form that no provider reads.

    Of several fields the largest counts, of `wire` only its own. Text is read as lenient servers read it.

    >>> output_tokens({"max_tokens": 9}), output_tokens({"inferenceConfig": {"maxTokens": "8"}}), output_tokens({"max_tokens": []})
    (9, 8, 0)
    """
    asked = [value_at(params, path) for path in OUTPUT_LIMITS.get(wire, _EVERY_LIMIT)]
    numbers = [whole_number(value) for value in asked if value is not None]
    return 0 if None in numbers else max((number or 0 for number in numbers), default=0)


def limit_paths(wire: str, params: Mapping[str, Json], chat_field: str) -> list[Path]:
    """The fields that limit the reply of a request: those that it has, or else the one of its endpoint.

    `chat_field` is the field of a host of Chat Completions. None for an endpoint whose field is not known, and for a
    legacy completion without a limit: its hosts generate 16 tokens then, which a limit would raise.
    """
    given = [path for path in OUTPUT_LIMITS.get(wire, _EVERY_LIMIT) if value_at(params, path) is not None]
    if given or wire not in OUTPUT_LIMITS or wire == "openai_completions":
        return given
    if wire == "openai_chat":
        return [(chat_field,)]
    return [next((path for path in OUTPUT_LIMITS[wire] if path[0] in params), OUTPUT_LIMITS[wire][0])]


def with_output_limit(wire: str, params: Mapping[str, Json], n_tokens: int, chat_field: str) -> dict[str, Json]:
    """Parameters that limit a reply to so many tokens, in the fields that they say it in already, or in the endpoint's.

    A lower limit stays. `chat_field` as in `limit_paths`.

    >>> with_output_limit("gemini", {}, 9, ""), with_output_limit("openai_chat", {"max_tokens": 20}, 9, "max_completion_tokens")
    ({'generationConfig': {'maxOutputTokens': 9}}, {'max_tokens': 9})
    """
    limited = dict(params)
    for path in limit_paths(wire, params, chat_field):
        if _exceeds(value_at(params, path), n_tokens):
            inner = {**(limited.get(path[0]) or {}), path[1]: n_tokens} if path[1:] else n_tokens
            limited[path[0]] = inner
    return limited


def _exceeds(limit: Json, n_tokens: int) -> bool:
    """Return whether a field allows more than so many tokens; one that cannot be read may, and 0 is no limit."""
    return not 0 < (whole_number(limit) or 0) <= n_tokens


Splice = tuple[int, int, bytes]
"""Start and end of a piece of a body, and what stands there instead."""


def limit_splices(
    wire: str, body: bytes, fields: Mapping[str, Json], n_tokens: int, chat_field: str
) -> tuple[Splice, ...]:
    """Return the pieces of a JSON body, parsed as `fields`, that `with_output_limit` changes; none where it changes
    nothing, or where the bytes cannot be changed so that they say just that.

    >>> limit_splices("openai_responses", b'{"input": "hi"}', {"input": "hi"}, 9, "")
    ((14, 14, b',"max_output_tokens":9'),)
    """
    try:
        limited = with_output_limit(wire, fields, n_tokens, chat_field)
        paths = [path for path in limit_paths(wire, fields, chat_field) if value_at(limited, path) == n_tokens]
        changes = [_splice(body, 0, path, b"%d" % n_tokens) for path in paths if value_at(fields, path) != n_tokens]
        splices = tuple(sorted(changes))
        return splices if parse(spliced(body, splices)) == limited else ()
    except (AttributeError, IndexError, NotSerialisable, TypeError, ValueError):
        return ()


def _splice(body: bytes, start: int, path: Path, number: bytes) -> Splice:
    """Put the number into the field that `path` names, in the object that begins at or behind `start`."""
    spans = {parse(b'"%b"' % key): span for key, span in members(body, start).items()}
    name = path[0]
    if name in spans and path[1:] and body[spans[name][0]] == ord("{"):
        return _splice(body, spans[name][0], path[1:], number)
    value = b'{"%b":%b}' % (path[1].encode(), number) if path[1:] else number
    if name in spans:
        return *spans[name], value
    place = max((end for _, end in spans.values()), default=body.index(b"{", start) + 1)
    return place, place, b'%b"%b":%b' % (b"," if spans else b"", name.encode(), value)


def spliced(body: bytes, splices: Iterable[Splice]) -> bytes:
    """A body with other text at some places, given in order."""
    parts, at = list[bytes](), 0
    for start, end, text in splices:
        parts += [body[at:start], text]
        at = end
    return b"".join([*parts, body[at:]])


_MOST = 1 << 40
"""No provider generates more: a larger number would leave what a price can be computed of."""


def whole_number(value: Json) -> int | None:
    """The number that a field asks for, as lenient servers read it; None where none would.

    >>> whole_number(900), whole_number(" 900 "), whole_number(900.0), whole_number("nine"), whole_number(-1)
    (900, 900, 900, None, None)
    """
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(min(number, _MOST)) if number >= 0 and number % 1 == 0 else None


_ZERO_MEANS_NONE = ("anthropic_messages", "openai_completions")
"""Wires at which a limit of 0 tokens is one: elsewhere it is refused, or read as no limit."""


def is_prewarm(params: Mapping[str, Json], wire: str = "") -> bool:
    """Return whether a request only fills the cache: by a field of `wire`, or of any.

    `generate` is a field of frames on a web socket (`response.create`) alone.

    >>> is_prewarm({"max_tokens": 0}), is_prewarm({"prompt_cache_options": {"prewarm": True}}), is_prewarm({"max_tokens": 1})
    (True, True, False)
    >>> is_prewarm({"type": "response.create", "generate": False})
    True
    """
    if (wire or "anthropic_messages") in _ZERO_MEANS_NONE and whole_number(params.get("max_tokens")) == 0:
        return True
    is_frame = params.get("type") == "response.create" and params.get("generate") is False
    is_asked = value_at(params, ("prompt_cache_options", "prewarm")) is True
    return (wire or "openai_responses") == "openai_responses" and (is_asked or is_frame)


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
