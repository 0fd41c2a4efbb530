"""Responses items: neutral parts and log entries in OpenAI's words, and back.

Field names are those of `openai.types.responses` 3.52. What the endpoint has no words for is projected: a failed tool's
output begins `Error: `, a plain-text document is a text part, another wire's thinking is dropped. An item with no
neutral form is kept whole, as a native part. A custom tool's call is answered by an item of its own kind, so its
neutral id carries the prefix `CUSTOM`; a search for tools that the model asks us to run is a call too, of
`tool_search`, and its answer the definitions found (`SEARCH`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby

from contextkit.canonical import Json
from contextkit.layout.normal_form import normal
from contextkit.providers.changes.updates import updates
from contextkit.providers.foreign import spoken
from contextkit.providers.late.searches import SEARCH, TOOL, answers_search, found
from contextkit.providers.neutral.parts import Parts, Tools, verbatim
from contextkit.providers.openai import spellings as spelling

WIRE = "openai_responses"
CUSTOM = "custom_tool_call-"
"""Stands before the id of a custom tool's call."""
TYPES = frozenset({"input_text", "input_image", "input_file", "input_audio"})
"""Types of content parts; everything else in a native part is a whole item."""
_MACHINE = frozenset({"id", "status"})
"""Fields the API adds to items it lists; on what users and tools say they are no part of a prompt."""
NULLABLE: Mapping[str, tuple[str, ...]] = {
    "code_interpreter_call": ("code", "outputs"),
    "image_generation_call": ("result",),
    "tool_search_call": ("arguments",),
    "double_click": ("keys",),
    "function": ("parameters", "strict"),
    "mcp_tool_execution_error": ("content",),
    "image_generation_call.error": ("code", "param"),
}
"""Type of an item, or of what stands inside one → fields a request must have even when they are null."""
OUTPUTS: Mapping[str, str] = {"function_call_output": "", "custom_tool_call_output": CUSTOM}
"""Type of an item that answers a call → prefix of the call's neutral id."""


def answers(item: Mapping[str, Json]) -> str | None:
    """Prefix of the neutral id of the call that an item answers, None for one that answers none.

    The API answers its own searches.
    """
    return SEARCH if answers_search(item) else OUTPUTS.get(str(item.get("type")))


def items_of(role: str, parts: Json) -> list[Json]:
    """Neutral parts as one message of `role`; native whole items among them stand alone."""
    items: list[Json] = []
    for is_part, group in groupby(PARTS.blocks(parts), key=lambda block: block.get("type") in TYPES):
        blocks = list(group)
        items += [{"role": role, "content": blocks}] if is_part else blocks
    return items


def whole(item: Mapping[str, Json]) -> dict[str, Json]:
    """An item in its one spelling: typed, without nulls, what users and tools say without ids.

    An output of one text part is a string.

    >>> whole({"type": "function_call_output", "id": "fc_1", "call_id": "c", "output": [{"type": "input_text", "text": "4"}]})
    {'type': 'function_call_output', 'call_id': 'c', 'output': '4'}
    """
    kind = item.get("type") or ("message" if "role" in item else None)
    is_said = kind in OUTPUTS or (kind == "message" and item.get("role") != "assistant")
    said = {key: value for key, value in item.items() if value is not None and not (is_said and key in _MACHINE)}
    output = normal(said.get("output")) if kind in OUTPUTS else None
    if (
        isinstance(output, list)
        and len(output) == 1
        and output[0].keys() == {"type", "text"}
        and output[0]["type"] == "input_text"
    ):
        said["output"] = output[0]["text"]
    return {
        "type": kind,
        **dict.fromkeys(NULLABLE.get(str(kind), ())),
        **{key: value for key, value in said.items() if key != "type"},
    }


def _tool(name: str, description: str, schema: Json) -> Json:
    return {"type": "function", "name": name, "description": description, "parameters": schema, "strict": False}


TOOLS = Tools(WIRE, _tool, lambda tool: (tool.get("name"), tool.get("description"), tool.get("parameters")))


def _text(text: str) -> Json:
    return {"type": "input_text", "text": text}


def _document(part: Mapping[str, Json]) -> Json:
    if spelling.is_text(part):
        return _text(spelling.text_of(part))
    if "url" in part:
        return {
            "type": "input_file",
            "file_url": part["url"],
            **({"filename": part["title"]} if "title" in part else {}),
        }
    return {"type": "input_file", "file_data": spelling.url_of(part), "filename": spelling.filename(part)}


def _candidates(block: Mapping[str, Json]) -> list[Json]:
    if block.get("type") == "input_image":
        return [{"type": "image", **spelling.media_of(spelling.at(block, "image_url"))}]
    url = spelling.at(block, "file_data") or spelling.at(block, "file_url")
    return spelling.titled(spelling.media_of(url), spelling.at(block, "filename"))


PARTS = Parts(
    WIRE,
    _text,
    {
        "image": lambda part: {"type": "input_image", "detail": "auto", "image_url": spelling.url_of(part)},
        "document": _document,
    },
    _candidates,
)


def answered(body: Mapping[str, Json]) -> list[Json]:
    """What a tool gave."""
    blocks = PARTS.blocks(body["content"])
    if len(blocks) == 1 and answers(blocks[0]) is not None:
        return blocks
    if body["call_id"].startswith(SEARCH):
        return [found(body, blocks)]
    blocks = [block if block.get("type") in TYPES else _text(spoken(block)) for block in blocks]
    output = spelling.as_error(blocks, "input_text") if body["is_error"] else blocks
    kind = "custom_tool_call_output" if body["call_id"].startswith(CUSTOM) else "function_call_output"
    return [{"type": kind, "call_id": body["call_id"].removeprefix(CUSTOM), "output": output or ""}]


def replied(body: Mapping[str, Json]) -> list[Json]:
    """What the model said: its own items, or another wire's reply in ours."""
    native = body["native"]
    if native["wire"] == WIRE:
        return list(native["body"])
    text: list[Json] = [{"type": "message", "role": "assistant", "content": body["text"]}] if body["text"] else []
    return text + [_call(call) for call in body["calls"]]


def _call(call: Mapping[str, Json]) -> Json:
    written = spelling.written_arguments(call["arguments"])
    return {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": written}


WAYS: Mapping[str, Callable[[Mapping[str, Json]], list[Json]]] = {
    "configuration_update": lambda body: (
        updates(body["event"]) or items_of("developer", [{"type": "text", "text": body["text"]}])
    ),
    "additional_tools": lambda body: [
        {
            "type": "additional_tools",
            "role": "developer",
            "tools": [TOOLS.sent(definition) for definition in body["definitions"]],
        }
    ],
}
"""How an event or a tool that comes late is told here and on no other endpoint → items."""


def said_by(item: Mapping[str, Json], role: str) -> Iterator[Json]:
    """The neutral parts of a message that should have `role`; the whole item, kept, where it is anything else."""
    plain = whole(item)
    content = plain.get("content")
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content or []
    is_plain = plain.keys() == {"type", "role", "content"} and all(part["type"] in TYPES for part in parts)
    if is_plain and (plain["type"], plain["role"]) == ("message", role):
        yield from PARTS.neutral(normal(parts))
    else:
        yield verbatim(WIRE, normal(plain))


def result_of(item: Mapping[str, Json]) -> Json:
    """An item that answers a call as the body of a result."""
    plain = normal(whole(item))
    output = plain.get("output", plain.get("tools"))
    content = [{"type": "text", "text": output}] if isinstance(output, str) else PARTS.neutral(output)
    prefix = answers(plain)
    body = {
        "call_id": f"{prefix}{plain['call_id']}",
        "name": TOOL if prefix == SEARCH else "",
        "content": content,
        "is_error": False,
    }
    if normal(whole(answered(body)[0])) != plain:
        body["content"] = [verbatim(WIRE, plain)]
    return body
