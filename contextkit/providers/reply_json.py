"""JSON of a reply as a log can hold it: an SDK's typed object without what the SDK added, values that only Python's JSON
reads as text, arguments of calls as objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import NotSerialisable, UnreadableReply
from contextkit.log.content import is_deeper
from contextkit.prompt.normal_form import VERBATIM
from contextkit.tools.definition import INVALID_ARGUMENTS

HELPERS = frozenset({"parsed", "parsed_output", "parsed_arguments", "_request_id"})
"""Fields the SDKs add for their callers (`parse()` helpers); no request type accepts them."""


def plain(value: Any) -> dict[str, Json]:
    """Return the dict of a response, event or item, nulls and helper fields left out; key order kept.

    Raises `UnreadableReply` for anything else.
    """
    dump = getattr(value, "model_dump", None)
    raw = value if dump is None else dump(mode="json", exclude_unset=True, by_alias=True, warnings=False)
    if dump is not None and isinstance(raw, Mapping) and _has_null_argument(raw):
        raw = _with_numbers(raw, dump(exclude_unset=True, by_alias=True, warnings=False))
    if not isinstance(raw, Mapping):
        raise UnreadableReply(f"a reply is the SDK's object or its dict, not {type(value).__name__}")
    cleaned: dict[str, Json] = _without_nulls(raw)
    return cleaned


def _has_null_argument(value: Json) -> bool:
    """Return whether arguments hold a null: pydantic writes NaN and the infinities so."""
    pending = [(value, False)]
    for held, is_inside in pending:
        items = held.items() if isinstance(held, Mapping) else ((None, item) for item in held)
        for key, item in items:
            is_argument = is_inside or key in _ARGUMENTS
            if item is None and is_argument:
                return True
            if isinstance(item, Mapping | list):
                pending.append((item, is_argument))
    return False


def _with_numbers(written: Json, typed: Any) -> Json:
    """Return `written` with the numbers of `typed` that JSON has no form for, where `written` has null."""
    if isinstance(written, Mapping) and isinstance(typed, Mapping):
        return {key: _with_numbers(item, typed.get(key)) for key, item in written.items()}
    if isinstance(written, list) and isinstance(typed, list | tuple) and len(written) == len(typed):
        return [_with_numbers(item, one) for item, one in zip(written, typed, strict=True)]
    return typed if written is None and isinstance(typed, float) else written


def sendable(value: Any) -> Json:
    """Return a response's JSON as JSON can carry it: surrogate pairs joined, lone surrogates escaped, NaN and the like as
    text.

    Python's JSON reader lets all of these through. Objects that a model wrote as arguments stay as they are: each wire
    decides about them.

    >>> sendable({"text": "\\ud83d\\ude00 \\ud83d", "n": float("nan"), "input": {"n": float("nan")}})
    {'text': '😀 \\\\ud83d', 'n': 'nan', 'input': {'n': nan}}
    """
    if isinstance(value, str):
        return _joined_pairs(value)
    if isinstance(value, Mapping):
        return {
            _joined_pairs(str(key)): item if key in _ARGUMENTS and isinstance(item, Mapping) else sendable(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [sendable(item) for item in value]
    if isinstance(value, bytes):
        return value  # the wire packs them
    try:
        canonical(value)
    except NotSerialisable:
        return repr(value) if isinstance(value, float) else hex(value) if isinstance(value, int) else str(value)
    return value


_ARGUMENTS = frozenset({"input", "arguments", "args"})
"""Fields that hold what a model wrote as arguments, where they hold an object."""


_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _joined_pairs(text: str) -> str:
    """Return text with surrogate pairs (halves that came in two events of a stream) as characters and lone surrogates as JSON
    escapes.
    """
    whole = _PAIR.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)
    return whole.encode("utf-8", "backslashreplace").decode()


def _without_nulls(value: Any) -> Json:
    if isinstance(value, Mapping):
        fields = {key: item for key, item in value.items() if item is not None and key not in HELPERS}
        return {
            key: _without_nulls(item) if isinstance(item, Mapping | list) and key not in VERBATIM else item
            for key, item in fields.items()
        }
    return [_without_nulls(item) if isinstance(item, Mapping | list) else item for item in value]


MAX_ARGUMENT_DEPTH = 200
"""Levels of nesting in what a model wrote as arguments; deeper values cannot be counted and spelled on every Python's
stack."""


def object_of(arguments: Json) -> Json:
    """Return arguments as an object; any other value that another endpoint's model wrote stands under one key.

    >>> object_of("{torn")
    {'arguments': '{torn'}
    """
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def written_object(written: str) -> Json:
    """Return arguments as a stream wrote them, where only objects are taken back: what is cut off or none stands under a key
    that says so.

    Source: platform.claude.com "Fine-grained tool streaming", Handling invalid JSON in tool responses.

    >>> written_object("{torn")
    {'INVALID_JSON': '{torn'}
    """
    try:
        value = parse(written)
        canonical(value)
    except NotSerialisable:
        value = written
    is_object = isinstance(value, dict) and not is_deeper(value, MAX_ARGUMENT_DEPTH)
    return value if is_object else {INVALID_ARGUMENTS: written}


def read_object(value: Json) -> Json:
    """Return the arguments of a call, where only objects are taken back: another value, or one that JSON cannot carry, as
    `written_object` has it.

    The SDKs let NaN, lone surrogates and nesting without end through.

    >>> read_object({"n": 1}), read_object({"n": float("nan")}), read_object([1])
    ({'n': 1}, {'INVALID_JSON': '{"n": NaN}'}, {'INVALID_JSON': '[1]'})
    """
    if isinstance(value, dict) and not is_deeper(value, MAX_ARGUMENT_DEPTH):
        try:
            canonical(value)
        except NotSerialisable:
            pass
        else:
            return value
    return {INVALID_ARGUMENTS: json_text(value)}


def json_text(value: Json) -> str:
    """Return the JSON text of a value with what only Python's JSON reads (NaN, lone surrogates as escapes).

    A remark where there is none.
    """
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    except (RecursionError, TypeError, ValueError):
        return "(nested too deep, or no JSON at all)"
