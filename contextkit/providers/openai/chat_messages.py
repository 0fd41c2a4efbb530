"""Chat messages: neutral parts and log entries in OpenAI's words, and back.

Field names are those of `openai.types.chat` 3.52. What Chat has no words for is projected: a tool result is text only
(`[image]`), a failed one begins `Error: `, a plain-text document is a text part, a document behind a URL is its URL,
another wire's thinking is dropped. A message with no neutral form (a name, a developer message between others) is kept
whole, as a native part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any

from contextkit.canonical import Json
from contextkit.layout.normal_form import normal
from contextkit.providers.foreign import spoken
from contextkit.providers.neutral.parts import Parts, Tools, verbatim
from contextkit.providers.openai import spellings as spelling

WIRE = "openai_chat"


def messages_of(role: str, parts: Json) -> list[Json]:
    """Neutral parts as one message of `role`; native whole messages among them stand alone."""
    messages: list[Json] = []
    for is_whole, group in groupby(PARTS.blocks(parts), key=lambda block: "role" in block):
        blocks = list(group)
        messages += blocks if is_whole else [{"role": role, "content": blocks}]
    return messages


def whole(message: Mapping[str, Json]) -> dict[str, Json]:
    """A message in its one spelling: no nulls, and content that is one text part is a string.

    >>> whole({"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "4"}], "name": None})
    {'role': 'tool', 'tool_call_id': 'c', 'content': '4'}
    """
    is_function = (
        message.get("role") == "function"
    )  # whose content is required, null or not (chat_completion_function_message_param.py)
    said = {key: value for key, value in message.items() if value is not None or (is_function and key == "content")}
    content = normal(said.get("content"))
    if (
        isinstance(content, list)
        and len(content) == 1
        and content[0].keys() == {"type", "text"}
        and content[0]["type"] == "text"
    ):
        said["content"] = content[0]["text"]
    return said


def _tool(name: str, description: str, schema: Json) -> Json:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def _function(tool: Mapping[str, Json]) -> tuple[Json, Json, Json]:
    function = tool.get("function")
    said = function if isinstance(function, dict) else {}
    return said.get("name"), said.get("description"), said.get("parameters")


TOOLS = Tools(WIRE, _tool, _function)


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _document(part: Mapping[str, Json]) -> Json:
    if spelling.is_text(part) or "url" in part:
        return _text(spelling.text_of(part) if spelling.is_text(part) else str(part["url"]))
    return {"type": "file", "file": {"file_data": spelling.url_of(part), "filename": spelling.filename(part)}}


def _candidates(block: Mapping[str, Json]) -> list[Json]:
    if block.get("type") == "image_url":
        return [{"type": "image", **spelling.media_of(spelling.at(block, "image_url", "url"))}]
    return spelling.titled(
        spelling.media_of(spelling.at(block, "file", "file_data")), spelling.at(block, "file", "filename")
    )


PARTS = Parts(
    WIRE,
    _text,
    {
        "image": lambda part: {"type": "image_url", "image_url": {"url": spelling.url_of(part)}},
        "document": _document,
    },
    _candidates,
)
_RESULT_PARTS: dict[str, Callable[[Any], Json]] = {
    "text": lambda part: _text(part["text"]),
    "image": lambda part: _text("[image]"),
    "document": lambda part: _text(spelling.text_of(part) if spelling.is_text(part) else "[document]"),
    "native": lambda part: (
        part["block"] if part["wire"] == WIRE and part["block"].get("type") == "text" else _text(spoken(part["block"]))
    ),
}
"""A tool message takes text only (chat/chat_completion_tool_message_param.py)."""


def answered(body: Mapping[str, Json]) -> list[Json]:
    """What a tool gave."""
    kept = _kept(body["content"])
    if kept is not None:
        return [kept]
    texts = [_RESULT_PARTS[part["type"]](part) for part in body["content"]]
    content = spelling.as_error(texts, "text") if body["is_error"] else texts
    return [{"role": "tool", "tool_call_id": body["call_id"], "content": content or ""}]


def _kept(parts: Json) -> Json:
    """The whole tool message that a result keeps verbatim, or None."""
    block = parts[0].get("block") if len(parts) == 1 and parts[0].get("wire") == WIRE else None
    return block if block and block.get("role") == "tool" else None


THOUGHTS = frozenset({"reasoning_content", "reasoning", "reasoning_details"})
"""Fields in which hosts of open models show what a model thought; OpenAI knows none of them."""


def replied(body: Mapping[str, Json], kept: Mapping[str, str] | None = None) -> list[Json]:
    """What the model said: its own message, or another wire's reply in ours.

    `kept`: field of `THOUGHTS` → what it is called here, the others being left out; None leaves a message as it came.
    """
    native = body["native"]
    if native["wire"] == WIRE:
        return list(native["body"]) if kept is None else [_thinking(message, kept) for message in native["body"]]
    calls = [_call(call) for call in body["calls"]]
    said = {"content": body["text"]} if body["text"] else {}
    return [{"role": "assistant", **said, **({"tool_calls": calls} if calls else {})}] if said or calls else []


def _thinking(message: Mapping[str, Json], kept: Mapping[str, str]) -> Json:
    said = {kept.get(name, name): value for name, value in message.items() if name in kept or name not in THOUGHTS}
    return said if said.keys() - {"role"} else {**said, "content": ""}


def _call(call: Mapping[str, Json]) -> Json:
    function = {"name": call["name"], "arguments": spelling.written_arguments(call["arguments"])}
    return {"id": call["id"], "type": "function", "function": function}


def said_by(message: Mapping[str, Json], role: str) -> Iterator[Json]:
    """The neutral parts of a message that should have `role`; the whole message, kept, where it says more than content."""
    plain = whole(message)
    if plain.keys() == {"role", "content"} and plain["role"] == role:
        content = plain["content"]
        yield from PARTS.neutral(normal(content)) if isinstance(content, list) else [_text(content)]
    else:
        yield verbatim(WIRE, normal(plain))


def result_of(message: Mapping[str, Json]) -> Json:
    """A tool message as the body of a result."""
    plain = normal(whole(message))
    content = [_text(plain["content"])] if isinstance(plain["content"], str) else PARTS.neutral(plain["content"])
    body = {"call_id": plain["tool_call_id"], "name": "", "content": content, "is_error": False}
    if normal(whole(answered(body)[0])) != plain:
        body["content"] = [verbatim(WIRE, plain)]
    return body
