"""A stretch of a recorded session whose bodies may be changed, and hands that find their way in a body of any of three
wires.

Knows nothing of hazards or rules. A mutation changes a tape in place; every tape is parsed anew from the recording.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from contextkit.ledger.calls import Bodies, ModelCall

Json = Any
ARRAY = {"anthropic_messages": "messages", "openai_chat": "messages", "openai_responses": "input"}
SCHEMA = {"anthropic_messages": "input_schema", "openai_chat": "parameters", "openai_responses": "parameters"}
TEXT = {"anthropic_messages": "text", "openai_chat": "text", "openai_responses": "input_text"}
_HEAD = ("system", "developer")


@dataclass(slots=True)
class Call:
    """One call of a tape."""

    wire: str
    call: ModelCall
    body: dict[str, Json]

    @property
    def said(self) -> list[Json]:
        """Its messages or items, those of the system left out where they stand among them."""
        array: list[Json] = self.body[ARRAY[self.wire]]
        return array

    @property
    def first(self) -> int:
        """Index of the first message that is no system text."""
        return next((i for i, one in enumerate(self.said) if one.get("role") not in _HEAD), len(self.said))


@dataclass(slots=True)
class Tape:
    """Calls of one session in order."""

    wire: str
    calls: list[Call]
    news: dict[str, Json] = field(default_factory=dict)
    """What a mutation wants to remember between calls."""

    def recorded(self) -> list[ModelCall]:
        """As a recording."""
        return [replace(call.call, prompt=Bodies(orjson.dumps(call.body))) for call in self.calls]

    def shift(self, turn: int, seconds: float) -> None:
        """Everything from `turn` on happens later."""
        for call in self.calls[turn:]:
            move(call, seconds)


@dataclass(slots=True)
class Slot:
    """A place that holds a text, or the arguments of a call."""

    holder: Json
    key: Any

    @property
    def text(self) -> str:
        return str(self.holder[self.key])

    @text.setter
    def text(self, value: str) -> None:
        self.holder[self.key] = value


def tape_of(wire: str, calls: Sequence[ModelCall]) -> Tape:
    """A tape of recorded calls, without their bills: those are of what was sent really."""
    bodies = ((one, one.prompt.request) for one in calls if isinstance(one.prompt, Bodies))
    return Tape(wire, [Call(wire, replace(one, usage=None), orjson.loads(body)) for one, body in bodies])


def move(taped: Call, seconds: float) -> None:
    """The call happens later."""
    one = taped.call
    first, end = (None if at is None else at + seconds for at in (one.first_byte_at, one.ended_at))
    taped.call = replace(one, at=one.at + seconds, first_byte_at=first, ended_at=end)


def texts(call: Call, role: str) -> list[Slot]:
    """What a role said in words, oldest first."""
    return [slot for message in call.said if message.get("role") == role for slot in in_content(message)]


def in_content(message: Json) -> Iterator[Slot]:
    """The texts of one message."""
    content = message.get("content")
    if isinstance(content, str):
        yield Slot(message, "content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part.get("text"), str):
            yield Slot(part, "text")


def results(call: Call) -> list[Slot]:
    """Outputs of tools, oldest first."""
    found = []
    for holder, key in _result_places(call):
        inner = holder[key]
        if isinstance(inner, str):
            found.append(Slot(holder, key))
        elif isinstance(inner, list) and len(inner) == 1 and "text" in inner[0]:
            found.append(Slot(inner[0], "text"))
    return found


def _result_places(call: Call) -> Iterator[tuple[Json, str]]:
    for message in call.said:
        if message.get("role") == "tool":
            yield message, "content"
        elif message.get("type") == "function_call_output":
            yield message, "output"
        elif isinstance(message.get("content"), list):
            yield from ((part, "content") for part in message["content"] if part.get("type") == "tool_result")


def requests(call: Call) -> list[Json]:
    """Calls of tools: what holds name and arguments, oldest first."""
    found: list[Json] = []
    for message in call.said:
        if message.get("type") == "function_call":
            found.append(message)
        found += [one["function"] for one in message.get("tool_calls") or ()]
        content = message.get("content")
        found += [part for part in content if part.get("type") == "tool_use"] if isinstance(content, list) else []
    return found


def arguments(request: Json) -> Slot:
    """A JSON text on OpenAI's wires, an object on Anthropic's."""
    return Slot(request, "input" if "input" in request else "arguments")


def edit_arguments(request: Json, change: Callable[[Json], Json]) -> None:
    """Arguments parsed, changed and spelled as they were."""
    slot = arguments(request)
    given = slot.holder[slot.key]
    if not isinstance(given, str):
        slot.holder[slot.key] = change(given)
        return
    is_wide = '": ' in given
    slot.text = json.dumps(
        change(json.loads(given)), ensure_ascii=False, separators=(", ", ": ") if is_wide else (",", ":")
    )


def system(call: Call) -> Slot:
    """The first system text."""
    body = call.body
    if call.wire == "anthropic_messages":
        return Slot(body["system"][0], "text")
    if "instructions" in body:
        return Slot(body, "instructions")
    return next(in_content(call.said[0]))


def inner(tool: Json) -> Json:
    """What of a definition holds its name, description and schema."""
    return tool.get("function", tool)


def new_tool(call: Call, name: str, description: str, properties: Json) -> Json:
    """A definition as the wire spells it."""
    schema = {"type": "object", "properties": properties, "required": sorted(properties)[:2]}
    made = {"name": name, "description": description, SCHEMA[call.wire]: schema}
    if call.wire == "openai_chat":
        return {"type": "function", "function": made}
    return {"type": "function", **made} if call.wire == "openai_responses" else made


def part(call: Call, text: str) -> Json:
    """A text block of a user."""
    return {"type": TEXT[call.wire], "text": text}


def picture(call: Call, data: str) -> Json:
    """An image block of a user."""
    url = f"data:image/png;base64,{data}"
    return {
        "anthropic_messages": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}},
        "openai_chat": {"type": "image_url", "image_url": {"url": url}},
        "openai_responses": {"type": "input_image", "image_url": url},
    }[call.wire]


def say(call: Call, *parts: Json) -> None:
    """Put blocks of a user behind everything else; a marker on the last block moves with the end."""
    last = call.said[-1]
    if call.wire == "anthropic_messages" and last["role"] == "user":
        marker = last["content"][-1].pop("cache_control", None)
        last["content"] += [dict(one) for one in parts]
        if marker:
            last["content"][-1]["cache_control"] = marker
        return
    call.said.append({"role": "user", "content": [dict(one) for one in parts]})


def put(call: Call, index: int, *made: Json) -> None:
    """Insert messages in front of message number `index`, counted from the first that is no system text."""
    at = call.first + index
    call.said[at:at] = json.loads(json.dumps(made))


def user_turns(tape: Tape) -> list[int]:
    """Calls whose newest words are a user's and no tool's."""
    return [i for i, call in enumerate(tape.calls) if i and _is_spoken(call)]


def _is_spoken(call: Call) -> bool:
    last = call.said[-1]
    content = last.get("content")
    is_result = isinstance(content, list) and any(one.get("type") == "tool_result" for one in content)
    return last.get("role") == "user" and not is_result
