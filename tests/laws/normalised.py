"""What a request body says, whatever its spelling: the oracle that nothing was lost on the way, written apart from the
package.

Gives one JSON text for all spellings of one prompt. Left out: markers, nulls, which say nothing, and ids of what users
and tools say."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Json = Any
_MARKERS = ("cache_control", "prompt_cache_breakpoint")
_VERBATIM = ("input", "input_schema", "parameters", "schema", "arguments", "args", "response", "json", "partMetadata")
"""Keys below which null is a value."""


def said(wire: str, body: Mapping[str, Json]) -> str:
    """The tools, system prompt and messages of a body."""
    return json.dumps(
        _BODIES[wire]({name: _full(item) for name, item in body.items()}), sort_keys=True, ensure_ascii=False
    )


def _full(value: Json) -> Json:
    if isinstance(value, Mapping):
        kept = ((key, item) for key, item in value.items() if item is not None and key not in _MARKERS)
        return {key: item if key in _VERBATIM else _full(item) for key, item in kept}
    return [_full(item) for item in value] if isinstance(value, list) else value


def _listed(content: Json, kind: str = "text") -> list[Json]:
    return [{"type": kind, "text": content}] if isinstance(content, str) else list(content or [])


def _merged(messages: list[Json], key: str) -> list[Json]:
    """Neighbouring messages of one role as one, and messages that say nothing left out."""
    found: list[Json] = []
    for message in (message for message in messages if message[key]):
        plain = {name: item for name, item in message.items() if name != key}
        if found and {name: item for name, item in found[-1].items() if name != key} == plain:
            found[-1][key] += message[key]
        else:
            found.append({**plain, key: list(message[key])})
    return found


def _anthropic(body: Json) -> Json:
    messages = [
        {**message, "content": list(map(_answered, _listed(message["content"])))} for message in body["messages"]
    ]
    return [body.get("tools") or [], _listed(body.get("system")), _merged(messages, "content")]


def _answered(block: Json) -> Json:
    if block["type"] != "tool_result":
        return block
    plain = {key: item for key, item in block.items() if key != "content" and (key != "is_error" or item)}
    return {
        **plain,
        "content": [part for part in _listed(block.get("content")) if part != {"type": "text", "text": ""}],
    }


def _chat(body: Json) -> Json:
    return [body.get("tools") or [], [{**each, "content": _listed(each.get("content"))} for each in body["messages"]]]


def _responses(body: Json) -> Json:
    return [body.get("tools") or [], [_item(item) for item in body["input"]]]


def _item(item: Json) -> Json:
    kind = item.get("type", "message")
    is_said = kind in ("function_call_output", "custom_tool_call_output") or (
        kind == "message" and item["role"] != "assistant"
    )
    plain = {key: value for key, value in item.items() if not (is_said and key in ("id", "status"))}
    texts = {
        key: _listed(plain[key], "input_text" if is_said else "output_text")
        for key in ("content", "output")
        if key in plain
    }
    return {**plain, **(texts if is_said or kind == "message" else {}), "type": kind}


def _bedrock(body: Json) -> Json:
    tools = (body.get("toolConfig") or {}).get("tools") or []
    messages = [{**each, "content": [*map(_converse, each["content"])]} for each in body["messages"]]
    arrays = [tools, body.get("system") or [], *(each["content"] for each in messages)]
    for array in arrays:
        array[:] = [block for block in array if "cachePoint" not in block]
    return [tools, body.get("system") or [], _merged(messages, "content")]


def _converse(block: Json) -> Json:
    inside = block.get("toolResult", {})
    return (
        {"toolResult": {key: item for key, item in inside.items() if (key, item) != ("status", "success")}}
        if inside
        else block
    )


def _gemini(body: Json) -> Json:
    contents = [{"role": "user", **each} for each in body["contents"]]
    return [body.get("tools") or [], body.get("systemInstruction") or {}, _merged(contents, "parts")]


_BODIES: Mapping[str, Callable[[Json], Json]] = {
    "anthropic_messages": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "bedrock_converse": _bedrock,
    "gemini": _gemini,
}
