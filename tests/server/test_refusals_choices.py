"""What is refused of `tool_choice`, and of tools withdrawn between turns: each body differs from an accepted one in one
thing."""

from __future__ import annotations

from typing import Any

import pytest

from contextkit.canonical import canonical, parse
from contextkit.server.answer import answer
from contextkit.server.endpoints.table import CHAT, MESSAGES, RESPONSES
from contextkit.server.state import Clock, State

BETA = "mid-conversation-tool-changes-2026-07-01"
SCHEMA = {"type": "object", "properties": {}}
CLAUDE = {
    "model": "claude-opus-5",
    "max_tokens": 9,
    "tools": [{"name": "f", "description": "", "input_schema": SCHEMA}],
    "messages": [{"role": "user", "content": "Go."}],
}
CHATS = {
    "model": "gpt-6.1-sol",
    "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
    "messages": [{"role": "user", "content": "Go."}],
}
ITEMS = {
    "model": "gpt-6.1-sol",
    "tools": [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}],
    "input": "Go.",
}


def told(wire: Any, body: Any, **headers: str) -> tuple[int, str]:
    state = State(Clock(0.0, is_frozen=True), None, None)
    sent = {
        "authorization": "any",
        "anthropic-version": "2026-10-21",
        **{key.replace("_", "-"): value for key, value in headers.items()},
    }
    outcome = answer(state, wire, sent, canonical(body))
    return outcome.status, str((parse(outcome.chunks[0]).get("error") or {}).get("message", ""))


def changing(*blocks: Any) -> Any:
    return {**CLAUDE, "messages": [*CLAUDE["messages"], {"role": "system", "content": list(blocks)}]}  # type: ignore[misc]


REMOVAL = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "f"}}


@pytest.mark.parametrize(
    ("body", "headers", "message"),
    [
        (changing({"type": "image", "source": {}}), {}, "not permitted in `system`"),
        (
            {**CLAUDE, "messages": [{"role": "user", "content": [REMOVAL]}]},
            {"anthropic_beta": BETA},
            "can only be in `system`",
        ),
        ({**changing(REMOVAL), "model": "claude-sonnet-5"}, {"anthropic_beta": BETA}, "not supported by this model"),
        ({**CLAUDE, "tool_choice": {"type": "tool", "name": "f"}}, {}, ""),
        ({**CLAUDE, "tool_choice": {"type": "tool", "name": "g"}}, {}, "not found in provided tools"),
        ({**CLAUDE, "tool_choice": {"type": "tool"}}, {}, "name: Field required"),
        ({**CLAUDE, "tool_choice": {"type": "any", "name": "f"}}, {}, "Extra inputs"),
        ({**CLAUDE, "tool_choice": {"type": "allowed_tools"}}, {}, "Input should be"),
        ({**CLAUDE, "model": "claude-opus-5-5", "tool_choice": {"type": "any"}}, {}, "not supported by this model"),
        ({**CLAUDE, "model": "claude-opus-5-5", "tool_choice": {"type": "none"}}, {}, ""),
    ],
)
def test_claude(body: Any, headers: dict[str, str], message: str) -> None:
    status, said = told(MESSAGES, body, **headers)
    assert status == (400 if message else 200) and message in said, said


def chat(mode: str = "auto", name: str = "f", **more: Any) -> Any:
    inside = {"mode": mode, "tools": [{"type": "function", "function": {"name": name}}], **more}
    return {"type": "allowed_tools", "allowed_tools": inside}


def flat(mode: str = "auto", name: str = "f", **more: Any) -> Any:
    return {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": name}], **more}


@pytest.mark.parametrize(
    ("wire", "body", "good", "bad"),
    [
        (
            CHAT,
            CHATS,
            [chat(), chat("required"), "none", "required"],
            [flat(), chat("none"), chat(name="g"), chat(tools=[]), chat(more=1), "any"],
        ),
        (
            RESPONSES,
            ITEMS,
            [flat(), flat("required"), "none", "required"],
            [chat(), flat("any"), flat(name="g"), flat(tools=[]), flat(more=1), "any"],
        ),
    ],
    ids=["chat", "responses"],
)
def test_openai(wire: Any, body: Any, good: list[Any], bad: list[Any]) -> None:
    named = {"type": "function", "function": {"name": "f"}} if wire is CHAT else {"type": "function", "name": "f"}
    for choice in (*good, named):
        assert told(wire, {**body, "tool_choice": choice})[0] == 200, choice
    for choice in (*bad, {"type": "function", "name": "g", "function": {"name": "g"}}, {"type": "tool", "name": "f"}):
        status, said = told(wire, {**body, "tool_choice": choice})
        assert status == 400 and "tool_choice" in said, choice
    without = {key: value for key, value in body.items() if key != "tools"}
    assert told(wire, {**without, "tool_choice": good[0]})[0] == 400
