"""Where Chat Completions and Responses bodies keep their blocks. Field names: openai.types 3.52."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from contextkit.canonical import Json
from contextkit.facts.load import client
from contextkit.prompt.block import listed, mapped, type_in
from contextkit.prompt.normal_form import MARKERS
from contextkit.prompt.prompt import Level
from contextkit.providers.body import MARKER, BodyPart, BodyReader, parts_of_content, tool_parts

_OWN_FIELDS = frozenset({"role", "content", "type", "id", "status", *MARKERS})
"""Fields of a message that are no parts. Ids and states of replayed output messages are not rendered."""


def _other_parts(
    message: Mapping[str, Json], path: str, index: int, level: Level, role: str, done: frozenset[str]
) -> Iterator[BodyPart]:
    """Each other field of a message; then its marker, which stands on the last part before it."""
    for name in sorted(message.keys() - done):
        if message[name] is not None:
            yield BodyPart(level, f"{path}.{name}", index, role, name, message[name], name)
    for name in sorted(MARKERS):
        if message.get(name) is not None:
            yield BodyPart(level, f"{path}.{name}", index, role, MARKER, message[name], name)
            return


# Chat Completions
# -------------------------------------------------------------------------------------------------------------------

_CHAT_TYPES = {"text": "text", "image_url": "image", "file": "document", "refusal": "text"}
_REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
_CHAT_FIELDS = _OWN_FIELDS | {"tool_calls", *_REASONING}


def _chat_message_parts(message: Json, index: int, level: Level) -> Iterator[BodyPart]:
    """Reasoning, then content, then calls, then every other field; a tool's message is one part."""
    path = f"messages[{index}]"
    fields = mapped(message, path)
    role = str(fields.get("role", ""))
    if role == "tool":
        yield BodyPart(level, path, index, role, "result", fields)
        return
    for name in _REASONING:
        if fields.get(name) is not None:
            yield BodyPart(level, f"{path}.{name}", index, role, "thinking", fields[name], name)
    yield from parts_of_content(level, fields.get("content"), f"{path}.content", index, role, _CHAT_TYPES)
    for number, call in enumerate(listed(fields.get("tool_calls"), f"{path}.tool_calls")):
        yield BodyPart(level, f"{path}.tool_calls[{number}]", index, role, "call", call, "tool_calls")
    yield from _other_parts(fields, path, index, level, role, _CHAT_FIELDS)


CHAT_BODY = BodyReader(
    endpoint="openai_chat",
    is_body=lambda fields: "messages" in fields,
    message_field="messages",
    block_fields=frozenset({"tools", "messages"}),
    head_parts=tool_parts,
    message_parts=_chat_message_parts,
    has_system_messages=True,
)

# Responses
# -------------------------------------------------------------------------------------------------------------------

_RESPONSES_TYPES = {
    "input_text": "text",
    "output_text": "text",
    "summary_text": "text",
    "refusal": "text",
    "input_image": "image",
    "input_file": "document",
    "reasoning": "thinking",
}


def item_type(item: Mapping[str, Json]) -> Json:
    """The type of an item: one without is a message if it has a role, else a reference
    (responses/response_input_item_param.py).
    """
    return item.get("type") or ("message" if "role" in item else "item_reference")


def _responses_head_parts(fields: Mapping[str, Json]) -> Iterator[BodyPart]:
    yield from tool_parts(fields)
    yield from parts_of_content("system", fields.get("instructions"), "instructions", -1, "system", _RESPONSES_TYPES)


ITEM_METADATA = str(client("codex")["item_metadata_field"])
"""Field of an item that its client keeps for itself: no part of the prompt."""


def _item_parts(item: Json, index: int, level: Level) -> Iterator[BodyPart]:
    """A message's content, then its other fields; any other item is one part."""
    path = f"input[{index}]"
    fields = mapped(item, path)
    if ITEM_METADATA in fields:
        fields = {name: value for name, value in fields.items() if name != ITEM_METADATA}
    kind = item_type(fields)
    role = str(fields.get("role", ""))
    if kind != "message":
        yield BodyPart(level, path, index, role or "item", type_in({"type": kind}, _RESPONSES_TYPES), fields)
        return
    yield from parts_of_content(level, fields.get("content"), f"{path}.content", index, role, _RESPONSES_TYPES)
    yield from _other_parts(fields, path, index, level, role, _OWN_FIELDS)


_FOREIGN_FIELDS = frozenset({"system_instruction", "generation_config", "previous_interaction_id"})
_FOREIGN_ITEMS = ("user_input", "model_output")
"""Fields and items of Google's Interactions API."""
_GEMINI_NAME = re.compile(r"(?:models/)?gemini-")
"""Names of Gemini models at Google; gateways put a vendor before them."""


def is_interactions_body(fields: Mapping[str, Json]) -> bool:
    """Return whether a body is a request of Google's Interactions API, which has an `input` too and is not read.

    >>> is_interactions_body({"model": "gemini-3.8-flash", "input": "Hi."}), is_interactions_body({"model": "gpt-5.2", "input": "Hi."})
    (True, False)
    """
    value = fields.get("input")
    if value is None:
        return False
    if not _FOREIGN_FIELDS.isdisjoint(fields):
        return True
    if isinstance(value, list) and any(isinstance(item, dict) and item.get("type") in _FOREIGN_ITEMS for item in value):
        return True
    return "instructions" not in fields and _GEMINI_NAME.match(str(fields.get("model"))) is not None


def _is_responses_body(fields: Mapping[str, Json]) -> bool:
    if "messages" in fields or is_interactions_body(fields):
        return False
    value = fields.get("input")
    if isinstance(value, list):
        return all(isinstance(item, dict) for item in value)
    return isinstance(value, str) and "embed" not in str(fields.get("model"))


RESPONSES_BODY = BodyReader(
    endpoint="openai_responses",
    is_body=_is_responses_body,
    message_field="input",
    block_fields=frozenset({"tools", "instructions", "input"}),
    head_parts=_responses_head_parts,
    message_parts=_item_parts,
    has_system_messages=True,
)
