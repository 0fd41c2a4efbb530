"""What a caller gives as it is, to a provider or to one call: fields and headers beside those that have a name here.

Takes keyword arguments, gives fields and headers; refuses what the log or the client says. Knows no provider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from contextkit.canonical import Json
from contextkit.errors import UsageError
from contextkit.layout.track import Grammar

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
    headers, extra = (_mapping(name, given.get(name)) for name in (HEADERS, BODY))
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
    for name, asked in _lengths(params):
        if type(asked) is not int:
            raise UsageError(f"{name} is a number of tokens, not {type(asked).__name__}")
        if asked < least:
            raise UsageError(f"{name}={asked}: how many tokens a reply may have, {least} or more")


def _lengths(params: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    """What is said of how long a reply may get, by name."""
    found = [(name, params.get(name)) for name in OUTPUT_FIELDS]
    found += [
        (name, held.get(name)) for field, name in NESTED.items() if isinstance(held := params.get(field), Mapping)
    ]
    return ((name, asked) for name, asked in found if asked is not None)


def _mapping(name: str, value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping | None):
        raise UsageError(f"{name} is a dict, not {type(value).__name__}")
    return value or {}
