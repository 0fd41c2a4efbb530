"""Validation of Gemini bodies: fields, parts, the order of a conversation, and fields that exclude a cached content.

Nested shapes are those of `google.genai.types`, checked where google-genai is installed. Rules that no type
expresses are written by hand; source: https://ai.google.dev/gemini-api/docs/caching.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from contextkit.canonical import Json, canonical
from contextkit.errors import NotSerialisable
from contextkit.server.endpoints.validation import (
    PromptCheck,
    ReceivedRequest,
    Refusal,
    RequestCheck,
    require_fit,
    require_key,
)

TOO_LONG = Refusal(400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens allowed.")
_PROMPT_FIELDS: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "systemInstruction": dict,
    "tools": list,
    "toolConfig": dict,
    "contents": list,
}
FIELDS: Mapping[str, type | tuple[type, ...]] = {
    **_PROMPT_FIELDS,
    "stream": bool,
    "generationConfig": dict,
    "safetySettings": list,
    "cachedContent": (str, dict),
    "serviceTier": str,
    "store": bool,
    "labels": dict,
}
"""Field of a call → its type. The server merges the segments of a named content into the body."""
CREATED: Mapping[str, type | tuple[type, ...]] = {**_PROMPT_FIELDS, "ttl": str, "displayName": str}
"""Field of a content that is created → its type."""
_JSON_TYPES: Mapping[object, str] = {
    str: "a valid string",
    bool: "a valid boolean",
    dict: "an object",
    list: "an array",
}
_DATA_FIELDS: Mapping[str, tuple[str, ...]] = {
    "text": (),
    "inlineData": ("data", "mimeType"),
    "fileData": ("fileUri",),
    "functionCall": ("name",),
    "functionResponse": ("name", "response"),
    "executableCode": (),
    "codeExecutionResult": (),
    "toolCall": (),
    "toolResponse": (),
}
"""Field of which a part has exactly one → fields that must be in it."""


def invalid(path: str, what: str) -> Refusal:
    """A 400 as Google phrases it."""
    return Refusal(400, "INVALID_ARGUMENT", f"Invalid value at '{path}': {what}")


authenticated = require_key(
    Refusal(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers. Please use an API key."),
    "x-goog-api-key",
    "authorization",
)


def request_shape(received: ReceivedRequest) -> Iterator[Refusal]:
    """The fields of a call; it has contents."""
    yield from shape(received, FIELDS)
    contents = received.body.get("contents")
    if not contents or not all(content["parts"] for content in contents):
        yield invalid("contents", "contents are not specified, or one has no parts")


def shape(received: ReceivedRequest, fields: Mapping[str, type | tuple[type, ...]]) -> Iterator[Refusal]:
    """Each field has its type, and on a strict server is known; each part has one kind of data."""
    body = received.body
    for name, value in body.items():
        if name not in fields:
            if received.is_strict:
                yield invalid(name, "no such field")
        elif not isinstance(value, fields[name]):
            yield invalid(name, f"expected {_JSON_TYPES.get(fields[name], 'the name of a content')}")
    if "model" not in body:
        yield invalid("model", "expected a value")
    yield from _mismatches(body, is_strict=received.is_strict)
    if "systemInstruction" in body:
        yield from _content(body["systemInstruction"], "systemInstruction")
    for index, content in enumerate(body.get("contents", ())):
        yield from _content(content, f"contents[{index}]")
    for index, tool in enumerate(body.get("tools", ())):
        declarations = tool.get("functionDeclarations", []) if isinstance(tool, dict) else None
        if not isinstance(declarations, list):
            yield invalid(f"tools[{index}]", "expected an object with an array of functionDeclarations")
            continue
        for place, declaration in enumerate(declarations):
            if not isinstance(declaration, dict) or not isinstance(declaration.get("name"), str):
                yield invalid(f"tools[{index}].functionDeclarations[{place}].name", "expected a value")


def _content(content: Json, path: str) -> Iterator[Refusal]:
    if not isinstance(content, dict) or not isinstance(content.get("parts"), list):
        yield invalid(path, "expected an object with parts")
    elif content.get("role", "user") not in ("user", "model"):
        yield invalid(f"{path}.role", "expected 'user' or 'model'")
    else:
        for index, part in enumerate(content["parts"]):
            yield from _part(part, f"{path}.parts[{index}]")


def _part(part: Json, path: str) -> Iterator[Refusal]:
    names = [name for name in _DATA_FIELDS if name in part] if isinstance(part, dict) else []
    if len(names) != 1:
        yield invalid(path, f"expected exactly one of {', '.join(_DATA_FIELDS)}")
        return
    (name,) = names
    expected = str if name == "text" else dict
    if not isinstance(part[name], expected):
        yield invalid(f"{path}.{name}", f"expected {_JSON_TYPES[expected]}")
        return
    for needed in _DATA_FIELDS[name]:
        if part[name].get(needed) is None:
            yield invalid(f"{path}.{name}.{needed}", "expected a value")


@lru_cache(maxsize=1)
def _validator() -> tuple[Any, frozenset[str]] | None:
    """The check of the SDK's types, and the names it puts into `generationConfig`; None without the SDK."""
    try:
        from google.genai import types
    except ImportError:
        return None
    from pydantic import create_model

    body = create_model(
        "body",
        systemInstruction=(types.Content, None),
        tools=(list[types.Tool], None),
        toolConfig=(types.ToolConfig, None),
        contents=(list[types.Content], None),
        generationConfig=(types.GenerationConfig, None),
        safetySettings=(list[types.SafetySetting], None),
    )
    names = {field.alias or name for name, field in types.GenerateContentConfig.model_fields.items()}
    return body, frozenset(names)


def _mismatches(body: Mapping[str, Json], *, is_strict: bool) -> Iterator[Refusal]:
    """Mismatches with the SDK's types; a field of `generationConfig` that they lack is refused by a strict server."""
    validator = _validator()
    if validator is None:
        return
    from pydantic_core import ValidationError

    model, generation_fields = validator
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a word that a later version of an enumeration has
            model.model_validate_json(canonical(body))
    except (
        NotSerialisable,
        TypeError,
        AttributeError,
    ):  # the last two of the SDK's enumerations, which take anything for text
        yield invalid("body", "expected texts for enumerations")
    except ValidationError as error:
        for row in error.errors(include_url=False, include_input=False):
            field, *inside = row["loc"]
            is_open = field == "generationConfig" and len(inside) == 1
            is_accepted = is_open and (inside[0] in generation_fields or not is_strict)
            if row["type"] == "extra_forbidden" and is_accepted:
                continue
            path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in row["loc"])
            words = row["msg"].removeprefix("Input should be ")
            yield invalid(path[1:], "no such field" if row["type"] == "extra_forbidden" else f"expected {words}")


def conversation(received: ReceivedRequest) -> Iterator[Refusal]:
    """The user has the first and the last turn, with as many function responses as there were calls."""
    turns: list[tuple[str, list[Json]]] = []
    for content in received.body["contents"]:
        role = content.get("role", "user")
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(content["parts"])
        else:
            turns.append((role, list(content["parts"])))
    if turns[-1][0] != "user":
        yield invalid("contents", "Please ensure that multiturn requests end with a user role.")
    for (_, before), (role, after) in zip([("", []), *turns], turns, strict=False):
        calls = [part["functionCall"]["name"] for part in before if "functionCall" in part]
        answers = [part["functionResponse"]["name"] for part in after if "functionResponse" in part]
        if role == "user" and len(calls) != len(answers):
            yield invalid(
                "contents",
                "the number of function response parts must equal that of the function call parts of the turn before",
            )
        if not all(answers):
            yield invalid("contents", "function_response.name: Name cannot be empty.")


REQUEST_CHECKS: tuple[RequestCheck, ...] = (authenticated, request_shape, conversation)
PROMPT_CHECKS: tuple[PromptCheck, ...] = (require_fit(TOO_LONG),)
