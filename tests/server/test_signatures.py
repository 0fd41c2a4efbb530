"""Thinking is bound to the conversation before it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import anthropic
import pytest

from contextkit.server import LocalServer
from tests.server.conftest import asking, saying

THINK = {"type": "thinking", "thinking": "hm"}
TOOL = {"name": "f", "description": "does", "input_schema": {"type": "object", "properties": {"a": {}, "b": {}}}}


def conversation(server: LocalServer, claude: anthropic.Anthropic, model: str = "claude-sonnet-5-5") -> dict[str, Any]:
    """Three turns that were really had, each with thinking; the second thinks twice."""
    server.script(
        [
            {
                "parts": [
                    THINK,
                    {"type": "text", "text": "one"},
                    {"type": "call", "name": "f", "arguments": {"b": 1, "a": 2}},
                ]
            },
            {"parts": [THINK, {"type": "text", "text": "two"}, THINK, {"type": "call", "name": "f"}]},
            {"parts": [THINK, {"type": "text", "text": "three"}]},
        ]
    )
    request = asking(model=model, tools=[copy.deepcopy(TOOL)])
    for _ in range(3):
        reply = claude.messages.create(**request)
        request["messages"].append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
        calls = [block.id for block in reply.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call, "content": "3"} for call in calls]
        request["messages"].append({"role": "user", "content": results or "go on"})
    return request


def drop_thinking(*places: tuple[int, int]) -> Callable[[dict[str, Any]], None]:
    def edit(request: dict[str, Any]) -> None:
        for message, block in sorted(places, reverse=True):
            assert request["messages"][message]["content"].pop(block)["type"] == "thinking"

    return edit


def put(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def edit(request: dict[str, Any]) -> None:
        place: Any = request
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return edit


FINE: dict[str, Callable[[dict[str, Any]], None]] = {
    "unchanged": lambda request: None,
    "marked elsewhere": put("messages", 2, "content", 0, "cache_control", value={"type": "ephemeral"}),
    "unmarked": put("system", 0, "cache_control", value=None),
    "other parameters": put("max_tokens", value=7),
    "keys in another order": put("messages", 1, "content", 2, "input", value={"a": 2, "b": 1}),
    "nulls": put("messages", 1, "content", 1, "citations", value=None),
    "oldest thinking left out": drop_thinking((1, 0)),
    "older thinking left out": drop_thinking((1, 0), (3, 0)),
    "all thinking left out": drop_thinking((1, 0), (3, 0), (3, 2), (5, 0)),
    "a string as a block": put("messages", 0, "content", value=[{"type": "text", "text": "hello"}]),
    "a deferred tool more": lambda request: request["tools"].append({**TOOL, "name": "g", "defer_loading": True}),
    "thinking from elsewhere": put("messages", 1, "content", 0, "signature", value="another server's"),
}
BROKEN: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "first message": (put("messages", 0, "content", value="hallo"), r"messages\.1\.content\.0"),
    "system": (put("system", value="other"), r"messages\.1\.content\.0"),
    "a tool": (put("tools", 0, "description", value="did"), r"messages\.1\.content\.0"),
    "a result": (put("messages", 2, "content", 0, "content", value="4"), r"messages\.3\.content\.0"),
    "words between two thoughts": (put("messages", 3, "content", 1, "text", value="2"), r"messages\.3\.content\.2"),
    "the last result": (put("messages", 4, "content", 0, "content", value="4"), r"messages\.5\.content\.0"),
    "thinking left out in the middle": (drop_thinking((3, 0)), r"messages\.3\.content\.1"),
}


def test_what_is_overlooked(server: LocalServer, claude: anthropic.Anthropic) -> None:
    had = conversation(server, claude)
    for edit in FINE.values():
        request = copy.deepcopy(had)
        edit(request)
        assert claude.messages.create(**request).content


def test_what_breaks_it(server: LocalServer, claude: anthropic.Anthropic) -> None:
    had = conversation(server, claude)
    for edit, place in BROKEN.values():
        request = copy.deepcopy(had)
        edit(request)
        with pytest.raises(anthropic.BadRequestError, match=rf"{place}: `thinking` blocks are bound"):
            claude.messages.create(**request)
        for message in request["messages"]:
            if message["role"] == "assistant":
                message["content"] = [block for block in message["content"] if block["type"] != "thinking"]
        assert claude.messages.create(**request).content


def test_older_models_do_not_look(server: LocalServer, claude: anthropic.Anthropic) -> None:
    request = conversation(server, claude, model="claude-opus-4-6")
    request["messages"][0]["content"] = "hallo"
    assert claude.messages.create(**request).content


def test_a_signature_may_be_scripted(server: LocalServer, claude: anthropic.Anthropic) -> None:
    server.script([{"parts": [{**THINK, "signature": "mine"}, {"type": "text", "text": "one"}]}, saying()])
    request = asking()
    reply = claude.messages.create(**request)
    assert reply.content[0].signature == "mine"  # type: ignore[union-attr]
    later = [
        {"role": "user", "content": "hallo"},
        {"role": "assistant", "content": reply.content},
        {"role": "user", "content": "go on"},
    ]
    with pytest.raises(anthropic.BadRequestError, match="bound"):
        claude.messages.create(**asking(*later))


def test_a_paused_turn_keeps_its_thinking(server: LocalServer, claude: anthropic.Anthropic) -> None:
    server.script(
        [
            {"parts": [THINK, {"type": "text", "text": "wait"}], "stop": "paused"},
            {"parts": [THINK, {"type": "text", "text": "there"}]},
            saying(),
        ]
    )
    user = {"role": "user", "content": "hello"}
    one = {"role": "assistant", "content": claude.messages.create(**asking(user)).content}
    other = {"role": "assistant", "content": claude.messages.create(**asking(user, one)).content}
    assert claude.messages.create(**asking(user, one, other, user)).content
    merged = {"role": "assistant", "content": [*one["content"], *other["content"]]}
    assert claude.messages.create(**asking(user, merged, user)).content
