"""Conversations in OpenAI's words and back: valid, the same for client and server, and nothing lost on the way."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses.response_create_params import ResponseCreateParams

from contextkit.canonical import canonical, parse
from contextkit.log.entry import Entry
from contextkit.prompt.prompt import PromptColumns
from contextkit.providers.endpoints import PARSERS
from contextkit.providers.openai.chat import OpenAIChat
from contextkit.providers.openai.responses import OpenAIResponses
from contextkit.providers.provider import Provider
from tests.laws.conversations import BREAKING, SAYING, Conversation, operations
from tests.laws.wires import PROVIDERS
from tests.providers.strict import faults

laws = settings.get_profile("laws")
PARAMS: dict[str, Any] = {"openai_chat": CompletionCreateParams, "openai_responses": ResponseCreateParams}


@pytest.mark.parametrize("name", ["chat", "chat-implicit", "responses", "responses-explicit"])
@given(st.data())
@laws
def test_every_request_is_one_the_sdk_would_take(name: str, data: st.DataObject) -> None:
    provider = PROVIDERS[name]()
    for sent in Conversation(provider).run(data.draw(operations(*SAYING, *BREAKING))).sent:
        assert faults(PARAMS[provider.wire], parse(sent.body)) == []


def track_of(provider: Provider, system: Any, tools: Any, entries: list[Entry]) -> PromptColumns:
    """The client's columns."""
    columns = PromptColumns(provider.grammar, strips_thinking=provider.model.strips_thinking)
    columns.extend(provider.render_static_prefix(system, tools, 0))
    for entry in entries:
        columns.extend(provider.render_entry(entry))
    return columns


def adopted(provider: Provider, body: Any) -> None:
    """`from_messages` in small: turns become entries, and their segments are those of the body."""
    seen = provider.parse(body).layout
    system, tools, turns = provider.turns(body)
    entries = [Entry(n, turn.kind, canonical(turn.body), 0.0, b"") for n, turn in enumerate(turns, 1)]  # type: ignore[arg-type]
    columns = track_of(provider, system, tools, entries)
    assert columns.wire == seen.columns.wire
    assert columns.digests == seen.columns.digests
    assert columns.level_ends == seen.columns.level_ends


TEXT_MARK = {"mode": "explicit"}
FOREIGN_CHAT: list[list[Any]] = [
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    [{"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, {"role": "user", "content": "hi"}],
    [{"role": "system", "name": "boss", "content": "a"}, {"role": "user", "content": "hi"}],
    [{"role": "user", "name": "ann", "content": "hi"}, {"role": "user", "name": "bob", "content": "ho"}],
    [
        {"role": "user", "content": "hi"},
        {"role": "developer", "content": "now French"},
        {"role": "user", "content": "ok"},
    ],
    [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a", "prompt_cache_breakpoint": TEXT_MARK},
                {"type": "text", "text": "b"},
            ],
        }
    ],
    [
        {"role": "user", "content": "hi"},
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{ "b": 1 }'}},
                {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free text"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "4"},
        {
            "role": "tool",
            "tool_call_id": "c2",
            "content": [{"type": "text", "text": "a", "prompt_cache_breakpoint": TEXT_MARK}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "done"}]},
    ],
    [{"role": "user", "content": "hi"}, {"role": "assistant", "refusal": "no"}],
    [{"role": "user", "content": "hi"}, {"role": "function", "name": "f", "content": "4"}],
]
FOREIGN_RESPONSES: list[Any] = [
    "hi",
    [{"role": "system", "content": "a"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}],
    [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "a"}]},
        {
            "type": "message",
            "role": "user",
            "id": "msg_1",
            "status": "completed",
            "content": [{"type": "input_text", "text": "hi"}],
        },
    ],
    [{"role": "developer", "content": "a"}, {"role": "developer", "content": "b"}, {"role": "user", "content": "hi"}],
    [{"role": "user", "content": "hi"}, {"role": "developer", "content": "now French"}],
    [
        {"role": "user", "content": "hi"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x", "content": None, "status": None},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "wait", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "f",
            "arguments": '{"a":1}',
            "status": "completed",
        },
        {"type": "custom_tool_call", "id": "ct_1", "call_id": "c2", "name": "g", "input": "free"},
        {
            "type": "function_call_output",
            "id": "fco_1",
            "status": "completed",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "4"}],
        },
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "5"},
        {"role": "user", "content": [{"type": "input_image", "detail": "low", "image_url": "https://e.org/a.png"}]},
    ],
    [
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "caller": {"type": "direct"}, "output": "4"},
    ],
]
CHAT_TOOLS = [
    {
        "type": "function",
        "function": {"name": "f", "description": "d", "parameters": {"type": "object", "b": 1, "a": 2}},
    },
    {"type": "function", "function": {"name": "g", "strict": True, "parameters": {"type": "object"}}},
    {"type": "custom", "custom": {"name": "h", "format": {"type": "text"}}},
]
RESPONSES_TOOLS = [
    {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": False},
    {"type": "function", "name": "g", "parameters": {"type": "object"}, "strict": True, "defer_loading": True},
    {"type": "web_search"},
]


@pytest.mark.parametrize("tools", [[], CHAT_TOOLS], ids=["bare", "tools"])
def test_a_foreign_chat_body_is_adopted_as_it_is(tools: Any) -> None:
    for messages in FOREIGN_CHAT:
        adopted(OpenAIChat("gpt-6.1-sol"), {"model": "gpt-6.1-sol", "messages": messages, "tools": tools})


@pytest.mark.parametrize("more", [{}, {"tools": RESPONSES_TOOLS, "instructions": "Be brief."}], ids=["bare", "more"])
def test_a_foreign_responses_body_is_adopted_as_it_is(more: Any) -> None:
    for given_input in FOREIGN_RESPONSES:
        adopted(OpenAIResponses("gpt-6.1-sol"), {"model": "gpt-6.1-sol", "input": given_input, **more})


SPELLINGS: list[tuple[str, Any, Any]] = [
    (
        "openai_chat",
        {"messages": [{"role": "user", "content": "hi"}]},
        {"messages": [{"content": [{"text": "hi", "type": "text"}], "role": "user"}]},
    ),
    (
        "openai_chat",
        {"messages": [{"role": "assistant", "content": "hi", "refusal": None}]},
        {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "hi"}]}]},
    ),
    (
        "openai_chat",
        {"messages": [{"role": "tool", "tool_call_id": "c", "content": "hi"}]},
        {
            "messages": [
                {
                    "role": "tool",
                    "content": [{"type": "text", "text": "hi", "prompt_cache_breakpoint": TEXT_MARK}],
                    "tool_call_id": "c",
                }
            ]
        },
    ),
    (
        "openai_responses",
        {"input": "hi"},
        {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}]},
    ),
    (
        "openai_responses",
        {"input": "hi", "instructions": "a"},
        {"input": [{"role": "developer", "content": "a"}, {"role": "user", "content": "hi"}]},
    ),
    (
        "openai_responses",
        {"input": [{"type": "function_call_output", "call_id": "c", "output": "4"}]},
        {
            "input": [
                {
                    "type": "function_call_output",
                    "id": "x",
                    "call_id": "c",
                    "output": [{"type": "input_text", "text": "4"}],
                }
            ]
        },
    ),
]


def test_two_spellings_of_one_prompt_are_one_prompt() -> None:
    for wire, one, other in SPELLINGS:
        first, second = (PARSERS[wire]({"model": "gpt-6.1-sol", **body}) for body in (one, other))
        assert list(first.prompt.digests) == list(second.prompt.digests)


def test_order_inside_arguments_and_schemas_is_meaning() -> None:
    tools = [
        {"type": "function", "function": {"name": "f", "parameters": {key: {} for key in order}}}
        for order in ("ab", "ba")
    ]
    first, second = (
        PARSERS["openai_chat"]({"model": "gpt-6.1-sol", "messages": [], "tools": [tool]}) for tool in tools
    )
    assert list(first.prompt.digests) != list(second.prompt.digests)
