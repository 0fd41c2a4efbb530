"""Places of system text, tool results and messages in a request body, for code that edits recorded bodies in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json


@dataclass(frozen=True, slots=True)
class BodyPlaces:
    """Places in the bodies of one endpoint."""

    messages: str
    """Field that holds the messages."""
    system: Callable[[dict[str, Json]], Iterator[tuple[dict[str, Json] | list[Json], str | int]]]
    """System text as (holder, key), so that it can be replaced."""
    results: Callable[[dict[str, Json]], Iterator[tuple[str, dict[str, Json], str]]]
    """Tool results: call id, holder of the content, its key."""
    append_note: Callable[[list[Json], int, str], None]
    """Put a note behind the message of that index."""


def _objects(value: Json) -> list[dict[str, Json]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _texts(holder: dict[str, Json], key: str) -> Iterator[tuple[dict[str, Json] | list[Json], str | int]]:
    """Text under `key`: itself, or the text of its parts."""
    if isinstance(holder.get(key), str):
        yield holder, key
    yield from ((part, "text") for part in _objects(holder.get(key)) if isinstance(part.get("text"), str))


def _head(array: str) -> Callable[[dict[str, Json]], Iterator[tuple[dict[str, Json] | list[Json], str | int]]]:
    """`instructions`, then the leading system or developer messages of an array."""

    def texts(fields: dict[str, Json]) -> Iterator[tuple[dict[str, Json] | list[Json], str | int]]:
        yield from _texts(fields, "instructions")
        for message in _objects(fields.get(array)):
            if message.get("role") not in ("system", "developer"):
                return
            yield from _texts(message, "content")

    return texts


def _anthropic_results(fields: dict[str, Json]) -> Iterator[tuple[str, dict[str, Json], str]]:
    for message in _objects(fields.get("messages")):
        for block in _objects(message.get("content")):
            if block.get("type") == "tool_result":
                yield str(block.get("tool_use_id")), block, "content"


def _chat_results(fields: dict[str, Json]) -> Iterator[tuple[str, dict[str, Json], str]]:
    return (
        (str(one.get("tool_call_id")), one, "content")
        for one in _objects(fields.get("messages"))
        if one.get("role") == "tool"
    )


def _responses_results(fields: dict[str, Json]) -> Iterator[tuple[str, dict[str, Json], str]]:
    items = (one for one in _objects(fields.get("input")) if str(one.get("type")).endswith("_call_output"))
    return ((str(one.get("call_id")), one, "output") for one in items)


def _append_to_message(messages: list[Json], index: int, note: str) -> None:
    content = messages[index]["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    messages[index] = {**messages[index], "content": [*parts, {"type": "text", "text": note}]}


def _insert_message(messages: list[Json], index: int, note: str) -> None:
    messages.insert(index + 1, {"role": "user", "content": note})


BODY_PLACES: Mapping[str, BodyPlaces] = {
    "anthropic_messages": BodyPlaces(
        "messages", lambda fields: _texts(fields, "system"), _anthropic_results, _append_to_message
    ),
    "openai_chat": BodyPlaces("messages", _head("messages"), _chat_results, _insert_message),
    "openai_responses": BodyPlaces("input", _head("input"), _responses_results, _insert_message),
}
"""Endpoint → its places; bodies of other endpoints are not edited."""
