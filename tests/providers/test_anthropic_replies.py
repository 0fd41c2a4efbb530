"""What Anthropic answers, in every form the SDK gives it: typed, plain, streamed, cut."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.parsed_message import ParsedMessage, ParsedTextBlock
from anthropic.types.stop_reason import StopReason
from anthropic.types.text_block import TextBlock
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage, ParsedChatCompletionMessage, ParsedFunction
from openai.types.chat.chat_completion_message_function_tool_call import Function
from openai.types.responses import (
    ParsedResponseFunctionToolCall,
    ParsedResponseOutputText,
    ResponseFunctionToolCall,
    ResponseOutputText,
)
from pydantic import TypeAdapter

from contextkit import AnthropicMessages, Context
from contextkit.cache.usage import Usage
from contextkit.canonical import canonical, parse
from contextkit.errors import ContextKitError, UnreadableReply
from contextkit.providers.anthropic.response import STOPS, joined, reply
from contextkit.providers.reply_json import HELPERS
from contextkit.providers.usage import endpoint_usage

Json = Any
laws = settings.get_profile("laws")
PROVIDER = AnthropicMessages("claude-sonnet-5-5", max_tokens=64)
USAGE = {
    "input_tokens": 3,
    "output_tokens": 9,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 20,
    "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 15},
}
BLOCKS: list[Json] = [
    {"type": "thinking", "thinking": "Let me see… 👩‍👩‍👧", "signature": "EqQBCg=="},
    {"type": "redacted_thinking", "data": "eA=="},
    {"type": "text", "text": "I look.\n", "citations": None},
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "search",
        "input": {"query": "é", "b": 1, "a": [None, 1e-7, 100000000000000000000]},
    },
    {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
]


def message(content: Json = BLOCKS, **more: Json) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": content,
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": USAGE,
        **more,
    }


def typed(value: Json) -> Message:
    return Message.model_validate(value)


# ---- typed and plain


def test_a_typed_message_and_its_dict_are_the_same_reply() -> None:
    plain = reply(message())
    assert reply(typed(message())) == plain
    assert parse(plain.native.body) == [
        {key: block[key] for key in sorted(block, key=lambda key: (key != "type", key)) if block[key] is not None}
        for block in BLOCKS
    ]
    assert [(call.id, call.name, list(call.arguments)) for call in plain.calls] == [
        ("toolu_1", "search", ["query", "b", "a"]),
        ("toolu_2", "now", []),
    ]
    assert (plain.id, plain.text, plain.stop, plain.native.wire) == (
        "msg_1",
        "I look.\n",
        "calls",
        "anthropic_messages",
    )
    assert plain.usage == Usage(fresh=3, read=100, write_5m=5, write_1h=15, output=9)


def test_arguments_keep_their_order_and_their_nulls() -> None:
    (block,) = parse(
        reply(
            message([{"type": "tool_use", "id": "a", "name": "f", "input": {"z": None, "a": {"y": None, "parsed": 1}}}])
        ).native.body
    )
    assert json.dumps(block["input"]) == '{"z": null, "a": {"y": null, "parsed": 1}}'


def test_why_it_ended() -> None:
    for reason in (*typing.get_args(StopReason), "not_known_yet", None):
        assert reply(message(stop_reason=reason)).stop == STOPS.get(reason or "", "done")
        assert reason in (None, "not_known_yet") or reason in STOPS


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        {},
        {"type": "error", "error": {"type": "overloaded_error"}},
        {"type": "message", "content": []},
        {"type": "message", "content": [{"type": "tool_use"}], "id": "a", "model": "m"},
        {"type": "message", "content": [3], "id": "a", "model": "m"},
    ],
)
def test_what_is_no_reply_is_said_to_be_none(answer: Json) -> None:
    context = Context(PROVIDER)
    context.user("hi")
    with pytest.raises(UnreadableReply):
        context.receive(answer, context.request())
    assert [entry.kind for entry in context.log] == ["opened", "user"]


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        (USAGE, Usage(3, 100, 5, 15, 9)),
        ({}, Usage(None, None, None, None, None)),
        (
            {"input_tokens": 3, "output_tokens": 9, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
            Usage(3, 0, 0, 0, 9),
        ),
        ({"input_tokens": 3, "cache_creation_input_tokens": 20}, Usage(3, None, 20, 0, None)),
        (
            {"input_tokens": 3, "cache_creation_input_tokens": 20, "cache_creation": {"ephemeral_1h_input_tokens": 15}},
            Usage(3, None, 5, 15, None),
        ),
    ],
)
def test_what_it_billed_and_what_it_left_unsaid(counters: Json, expected: Usage) -> None:
    assert endpoint_usage("anthropic_messages", counters) == expected


def test_helper_fields_of_the_sdks_are_left_out() -> None:
    """Fields that a `parse()` helper's type has and the type it extends has not."""
    pairs: list[tuple[Any, Any]] = [
        (ParsedTextBlock, TextBlock),
        (ParsedMessage, Message),
        (ParsedChatCompletionMessage, ChatCompletionMessage),
        (ParsedFunction, Function),
        (ParsedResponseOutputText, ResponseOutputText),
        (ParsedResponseFunctionToolCall, ResponseFunctionToolCall),
    ]
    added = {field for one, base in pairs for field in set(one.model_fields) - set(base.model_fields)}
    assert added and added <= HELPERS
    block: Any = ParsedTextBlock[Any].model_validate({"type": "text", "text": "4", "parsed_output": {"x": 4}})
    assert parse(reply(ParsedMessage[Any].model_construct(**{**message(), "content": [block]})).native.body) == [
        {"type": "text", "text": "4"}
    ]


# ---- streamed

EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def streamed(whole: Json, step: int = 3) -> Iterator[Json]:
    """The events a server sends for a message, in pieces of `step` letters."""
    first = {
        "input_tokens": 3,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "cache_creation": USAGE["cache_creation"],
        "output_tokens": 1,
    }
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None, "usage": first}}
    yield {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        yield {
            "type": "content_block_start",
            "index": index,
            "content_block": {**block, **STARTS.get(block["type"], {})},
        }
        for kind, field, text in pieces_of(block, step):
            yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: text}}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": 9},
    }
    yield {"type": "message_stop"}


STARTS: dict[str, Json] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
GROWS = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}


def pieces_of(block: Json, step: int) -> Iterator[tuple[str, str, str]]:
    if block["type"] == "tool_use":
        written = json.dumps(block["input"]) if block["input"] else ""
        yield from (
            ("input_json_delta", "partial_json", written[at : at + step]) for at in range(0, max(1, len(written)), step)
        )
    if block["type"] in GROWS:
        kind, field = GROWS[block["type"]]
        yield from ((kind, field, block[field][at : at + step]) for at in range(0, len(block[field]), step))
    if "signature" in block:
        yield "signature_delta", "signature", block["signature"]


@given(step=st.integers(1, 40), is_typed=st.booleans())
@laws
def test_a_stream_amounts_to_the_message(step: int, is_typed: bool) -> None:
    events = [
        EVENT.validate_python(event) if is_typed and event["type"] != "ping" else event
        for event in streamed(message(), step)
    ]
    assert reply(joined(events)) == reply(message())


def test_the_sdks_own_accumulation_says_the_same() -> None:
    snapshot, buffers = None, dict[int, bytes]()
    events = [event for event in streamed(message()) if event["type"] != "ping"]
    for event in events:
        snapshot = accumulate_event(event=EVENT.validate_python(event), current_snapshot=snapshot, json_bufs=buffers)
    ours, theirs = reply(joined(events)), reply(snapshot)
    assert parse(ours.native.body) == parse(theirs.native.body)
    assert (ours.stop, ours.usage) == (theirs.stop, theirs.usage)


def test_citations_stream_too() -> None:
    cited = {
        "type": "char_location",
        "cited_text": "x",
        "document_index": 0,
        "document_title": "t",
        "start_char_index": 0,
        "end_char_index": 1,
    }
    events = [*streamed(message([{"type": "text", "text": "x"}], stop_reason="end_turn"))]
    events.insert(
        3, {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": cited}}
    )
    (block,) = parse(reply(joined(events)).native.body)
    assert block["citations"] == [dict(sorted(cited.items(), key=lambda item: (item[0] != "type", item[0])))]


EVENTS = list(streamed(message()))
PARTIAL = Usage(3, 100, 5, 15, 1, qualities={"output": "partial"})
"""What `message_start` bills: its output is a lower bound."""


def test_a_cut_stream_is_billed_and_not_kept() -> None:
    for n in range(len(EVENTS) - 2):
        context = Context(PROVIDER)
        context.user("hi")
        request = context.request()
        with pytest.raises(UnreadableReply):
            list(context.stream(iter(EVENTS[:n]), request))
        assert [entry.kind for entry in context.log] == ["opened", "user"]
        (call,) = context.ledger
        assert call.error == "cut" and call.usage == (PARTIAL if n else None), n
        context.receive(message(), context.request())


def test_arguments_that_were_cut_short_are_no_reply_to_act_on() -> None:
    """`max_tokens` in the middle of a call: what was written of its arguments is no JSON."""
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {"path": "x", "text": "abcdefgh"}}
    events = list(streamed(message([call], stop_reason="max_tokens")))
    del events[-5:-3]
    context = Context(PROVIDER)
    context.user("hi")
    try:
        list(context.stream(iter(events), context.request()))
    except ContextKitError:
        assert len(context.ledger) == 1 and len(context.log) == 2
    else:
        assert context.stop == "truncated"
        assert canonical(parse(context.log[-1].body)["calls"])


def test_a_citation_without_a_title_says_so_when_it_is_sent_again() -> None:
    cited = {
        "type": "char_location",
        "cited_text": "x",
        "document_index": 0,
        "document_title": None,
        "start_char_index": 0,
        "end_char_index": 1,
        "file_id": None,
    }
    (block,) = parse(reply(message([{"type": "text", "text": "x", "citations": [cited]}])).native.body)
    assert block["citations"][0]["document_title"] is None and "file_id" not in block["citations"][0]


def test_an_empty_text_is_not_sent_again() -> None:
    """The API answers one with a 400: text content blocks must be non-empty."""
    assert parse(reply(message([{"type": "text", "text": ""}, BLOCKS[4]])).native.body) == [
        {"type": "tool_use", "id": "toolu_2", "input": {}, "name": "now"}
    ]
