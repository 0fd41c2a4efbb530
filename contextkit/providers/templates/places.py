"""Where each message stands in a rendered prompt.

Takes a way to render and a body, gives an interval for each message. A character that no text holds is put into the
middle of a text of every message; where taking the marks out again gives the plain prompt, they have changed nothing
and show where the messages are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from contextkit.canonical import Json
from contextkit.errors import UsageError
from contextkit.providers.templates.seen import REASONING

Render = Callable[[Mapping[str, Json]], str]
"""A body → its prompt."""
_FIRST = 0xF0000
"""First mark, in a plane nobody writes in."""


def owner(render: Render, body: Mapping[str, Json], offset: int) -> int:
    """Index of the message that the character at `offset` of the prompt belongs to; -1 for what stands before the
    first.
    """
    prompt, found = render(body), _spans(render, body)
    known = [(index, *span) for index, span in enumerate(found) if span is not None]
    last = -1
    for index, start, end in known:
        header = prompt.rfind(str(body["messages"][index].get("role")), 0, start) if last >= 0 else start
        if offset < max(header, known[0][2] if last < 0 else 0) and not (last < 0 and offset >= start):
            return last
        if offset < end:
            return index
        last = index
    return last


def _spans(render: Render, body: Mapping[str, Json]) -> list[tuple[int, int] | None]:
    messages = body["messages"]
    marked = [_marked(message, chr(_FIRST + index)) for index, message in enumerate(messages)]
    plain = render(body)
    all_at_once = _found(render, body, plain, [row and row[0] for row in marked])
    spans: list[tuple[int, int] | None] = []
    for index, row in enumerate(marked):
        alone = [row[0] if row and other == index else None for other in range(len(messages))]
        at = (all_at_once or _found(render, body, plain, alone) or {}).get(chr(_FIRST + index)) if row else None
        spans.append(None if at is None or row is None else (at - row[1], at - row[1] + row[2]))
    return spans


def _found(render: Render, body: Mapping[str, Json], plain: str, marked: list[Any]) -> dict[str, int] | None:
    """Mark → its place in the plain prompt; None where the marks changed it, or it holds some itself."""
    messages = [row or message for row, message in zip(marked, body["messages"], strict=True)]
    try:
        said = render({**body, "messages": messages})
    except UsageError:
        return None
    places: dict[str, int] = {}
    clean: list[str] = []
    for letter in said:
        if ord(letter) >= _FIRST:
            places.setdefault(letter, len(clean))
        else:
            clean.append(letter)
    return places if "".join(clean) == plain else None


def _marked(message: Mapping[str, Json], mark: str) -> tuple[Json, int, int] | None:
    """The message with a mark in the middle of one of its texts, characters of it before the mark, and in all."""
    content, calls = message.get("content"), message.get("tool_calls")
    if isinstance(content, str) and content.strip():
        return _put(content, mark, lambda text: {**message, "content": text})
    texts = (
        [index for index, part in enumerate(content) if part.get("text", "").strip()]
        if isinstance(content, list)
        else []
    )
    if isinstance(content, list) and texts:
        at, parts = texts[-1], list(content)
        before, part, behind = parts[:at], parts[at], parts[at + 1 :]
        return _put(part["text"], mark, lambda text: {**message, "content": [*before, {**part, "text": text}, *behind]})
    if calls and isinstance(calls[-1].get("function"), Mapping):
        function = calls[-1]["function"]
        return _put(
            str(function.get("name")),
            mark,
            lambda text: {
                **message,
                "tool_calls": [*calls[:-1], {**calls[-1], "function": {**function, "name": text}}],
            },
        )
    name = next((name for name in REASONING if isinstance(message.get(name), str) and message[name].strip()), None)
    return _put(message[name], mark, lambda text: {**message, name: text}) if name else None


def _put(text: str, mark: str, made: Callable[[str], Json]) -> tuple[Json, int, int]:
    plain = text.strip()
    before, middle = len(text) - len(text.lstrip()), len(plain) // 2
    return made(text[: before + middle] + mark + text[before + middle :]), middle, len(plain)
