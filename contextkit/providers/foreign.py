"""Another wire's blocks and tools, and tools a model does not know, as far as any wire can say them.

Takes what one provider keeps in its own words, gives text or a function. Knows no wire of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import InvalidTool, NotSerialisable
from contextkit.log.content import is_deeper
from contextkit.models import Model
from contextkit.tools.tool import INVALID_ARGUMENTS

MAX_ARGUMENT_DEPTH = 200
"""Levels of nesting in what a model wrote as arguments; deeper values cannot be counted and spelled on every Python's
stack."""


def spoken(block: Mapping[str, Json]) -> str:
    """The text of a block of another wire, or its type in brackets where it has none; a tool's definition as JSON.

    >>> spoken({"role": "system", "content": [{"type": "text", "text": "Be brief."}]})
    'Be brief.'
    >>> spoken({"type": "thinking", "thinking": "…"}), spoken({"video": {"format": "mp4"}})
    ('[thinking]', '[video]')
    """
    if isinstance(block.get("parameters"), Mapping) and "name" in block:
        return _row(block)
    inside = next((block[key] for key in ("text", "content", "output") if block.get(key)), None)
    if isinstance(inside, list):
        inside = "".join(spoken(part) for part in inside if isinstance(part, dict))
    return inside if isinstance(inside, str) else _held(block)


def _held(block: Mapping[str, Json]) -> str:
    """The same of a block that is named by the key of what it holds, as Bedrock and Gemini name theirs."""
    name, held = next(((key, value) for key, value in block.items() if isinstance(value, Mapping)), ("item", {}))
    words = spoken(held) if "type" not in block and held else "["
    return f"[{block.get('type', name)}]" if words.startswith("[") else words


def reminder(text: str) -> str:
    """What the program says in the user's turn, so that it is not taken for the user's own words.

    >>> reminder("Phase report: call no tool."), reminder("")
    ('<system>Phase report: call no tool.</system>', '')
    """
    return f"<system>{text}</system>" if text else ""


def object_of(arguments: Json) -> Json:
    """Arguments as an object: what another wire's model wrote that was none stands under one key.

    >>> object_of("{torn")
    {'arguments': '{torn'}
    """
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def written_object(written: str) -> Json:
    """Arguments as a stream wrote them, where only objects are taken back: what is cut off or none stands under a key
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
    """The arguments of a call, where only objects are taken back: another value, or one that JSON cannot carry, as
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
    """The JSON text of a value with what only Python's JSON reads (NaN, lone surrogates as escapes).

    A remark where there is none.
    """
    try:
        return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    except (RecursionError, TypeError, ValueError):
        return "(nested too deep, or no JSON at all)"


def heard(body: Mapping[str, Json]) -> Json:
    """What somebody said between replies, where a system message cannot stand there: the program's words as reminders.

    >>> heard({"role": "system", "content": [{"type": "text", "text": "Be brief."}]})
    [{'type': 'text', 'text': '<system>Be brief.</system>'}]
    """
    if body.get("role") != "system":
        return body["content"]
    return [{"type": "text", "text": reminder(spoken(part.get("block", part)))} for part in body["content"]]


UNNAMED = "call#"
"""Begins the id of a call that its provider gave none (Gemini): no other wire takes a `#` in one."""


def call_id(name: str) -> str:
    """The id of a call as any wire takes it.

    >>> call_id("call#0"), call_id("toolu_1")
    ('call-0', 'toolu_1')
    """
    return name.replace("#", "-") if name.startswith(UNNAMED) else name


def announcement(body: Mapping[str, Json]) -> str:
    """Tools that came late, in words: a line for each, its definition as JSON.

    >>> print(announcement({"text": "New tools:", "definitions": [{"name": "ping", "description": "", "parameters": {}}]}))
    New tools:
    {"name":"ping","description":"","parameters":{}}
    """
    return "\n".join([body["text"], *map(_row, body["definitions"])])


def taken(definition: Mapping[str, Json], model: Model) -> Mapping[str, Json]:
    """The definition as `model` takes it: a function where it knows no custom tools, or cannot ask its caller for
    tools.

    >>> from contextkit.models import model_named
    >>> sql = {"name": "sql", "description": "", "parameters": {}, "format": {"type": "text"}}
    >>> [list(taken(sql, model_named(name))) for name in ("gpt-5.2", "gpt-4o")]
    [['name', 'description', 'parameters', 'format'], ['name', 'description', 'parameters']]
    """
    is_custom, is_search = "format" in definition, is_tool_search(definition) and "instead" in definition
    if (is_custom and not model.accepts_custom_tools) or (is_search and not model.accepts_tool_search):
        return dict(zip(_FUNCTION, function_of(definition), strict=True))
    return definition


def is_tool_search(definition: Mapping[str, Json]) -> bool:
    """Whether a definition is that of a search which the model asks its caller to run."""
    block = (definition.get("native") or {}).get("block") or {}
    return (block.get("type"), block.get("execution")) == ("tool_search", "client")


_FUNCTION = ("name", "description", "parameters")


def _row(definition: Mapping[str, Json]) -> str:
    return canonical(dict(zip(_FUNCTION, function_of(definition), strict=True))).decode()


def function_of(definition: Mapping[str, Json]) -> tuple[Json, Json, Json]:
    """Name, description and parameters of a definition, another wire's included.

    Raises `InvalidTool` for a tool only its own provider runs.
    """
    block = definition.get("instead") or (definition["native"]["block"] if "native" in definition else definition)
    fields = block["function"] if isinstance(block.get("function"), dict) else block
    parameters = fields.get("parameters", fields.get("input_schema"))
    if parameters is None or "name" not in fields:
        raise InvalidTool(
            f"tool of type {block.get('type')!r} runs at its own provider only: leave it out or give a function"
        )
    return fields["name"], fields.get("description", ""), parameters
