"""What OpenAI answers, kept so that it can be sent again: every field of every item, usage, streams."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage, ChatCompletionMessageParam
from openai.types.responses import Response, ResponseInputItemParam, ResponseOutputItem

from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.errors import InvalidTool, UnreadableReply
from contextkit.providers.openai.chat import OpenAIChat
from contextkit.providers.openai.responses import OUTPUTS, OpenAIResponses
from contextkit.providers.provider import Reply, ReplyCall
from tests.providers.filled import variants
from tests.providers.speech import entry
from tests.providers.strict import faults

CHAT = OpenAIChat("gpt-6.1-sol")
RESPONSES = OpenAIResponses("gpt-6.1-sol")
ITEMS = typing.get_args(typing.get_args(ResponseOutputItem)[0])
COUNTERS = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "total_tokens": 107,
    "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
}


def completion(message: Any, finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-6.1-sol",
        "choices": [choice],
        "usage": COUNTERS,
        **more,
    }


def response(output: list[Any], status: str = "completed", **more: Any) -> dict[str, Any]:
    details = {
        "cached_tokens": 60,
        "cache_write_tokens": 30,
        "cache_write_tokens_details": {"ttl_30m_tokens": 10, "ttl_12h_tokens": 20},
    }
    usage = {
        "input_tokens": 100,
        "input_tokens_details": details,
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 107,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1.0,
        "model": "gpt-6.1-sol",
        "output": output,
        "status": status,
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **more,
    }


def message(*content: Any) -> dict[str, Any]:
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": list(content)}


SAID = {"type": "output_text", "text": "hi", "annotations": []}
CALL = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "f",
    "arguments": '{"b":1,"a":2}',
    "status": "completed",
}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}


def assistant(reply: Reply) -> Any:
    """The body of the entry that keeps a reply."""
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in reply.calls]
    native = {"wire": reply.native.wire, "model": reply.native.model, "body": parse(reply.native.body)}
    return {"after": 0, "native": native, "text": reply.text, "calls": calls, "stop": reply.stop}


def every_message() -> Iterator[Any]:
    for value in variants(ChatCompletionMessage):
        yield value
        yield {**value, "content": None, "parsed": {"a": 1}, "reasoning_content": "hm"}


def test_every_field_of_a_chat_message_can_be_sent_again() -> None:
    for said in every_message():
        reply = CHAT.reply(ChatCompletion.model_validate(completion(said)))
        [kept] = parse(reply.native.body)
        assert faults(ChatCompletionMessageParam, kept) == [], said


@pytest.mark.parametrize("kind", ITEMS, ids=lambda kind: kind.__name__)
def test_every_field_of_every_output_item_can_be_sent_again(kind: Any) -> None:
    for item in variants(kind):
        if item["type"] == "additional_tools" and item["role"] != "developer":
            continue  # no request takes any other role
        typed = kind.model_validate(item)
        whole = Response.model_validate(response([]))
        whole.output = [typed]
        [kept] = parse(RESPONSES.reply(whole).native.body)
        assert faults(ResponseInputItemParam, kept) == [], item
        assert {key for key in item if item[key] is not None} - kept.keys() <= {"created_by", "status"} | (
            {"id"} if kept["type"] in OUTPUTS else set()
        )
        rendered = list(RESPONSES.render_entry(entry("assistant", assistant(RESPONSES.reply(whole)))))
        assert [parse(piece.body) for piece in rendered] == [kept]


def test_nulls_inside_schemas_and_arguments_stay() -> None:
    item = {
        "type": "mcp_list_tools",
        "id": "m",
        "server_label": "s",
        "tools": [{"name": "t", "input_schema": {"default": None}}],
    }
    assert b'"default":null' in RESPONSES.reply(response([item])).native.body


def tool_call(name: str, arguments: str, call_id: str = "c1") -> Any:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_calls_keep_order_and_what_was_not_json() -> None:
    custom = {"id": "c3", "type": "custom", "custom": {"name": "g", "input": "x = 1"}}
    reply = CHAT.reply(
        completion(
            {"tool_calls": [tool_call("f", '{"b":1,"a":2}'), tool_call("f", "{torn", "c2"), custom]}, "tool_calls"
        )
    )
    assert reply.calls == (
        ReplyCall("c1", "f", {"b": 1, "a": 2}),
        ReplyCall("c2", "f", "{torn"),
        ReplyCall("c3", "g", "x = 1"),
    )
    assert list(reply.calls[0].arguments) == ["b", "a"]


CHAT_STOPS = [
    ({"content": "x"}, "stop", "done"),
    ({"content": "x"}, "length", "truncated"),
    ({"content": "x"}, "content_filter", "refused"),
    ({"refusal": "no"}, "stop", "refused"),
    ({"tool_calls": [tool_call("f", "{}")]}, "tool_calls", "calls"),
    ({"tool_calls": [tool_call("f", "{}")]}, "stop", "calls"),
    ({"tool_calls": [tool_call("f", "{}")]}, "length", "truncated"),
    ({"content": "x"}, None, "truncated"),
]
RESPONSE_STOPS = [
    (response([message(SAID)]), "done"),
    (response([CALL]), "calls"),
    (response([message({"type": "refusal", "refusal": "no"})]), "refused"),
    (response([message(SAID)], "incomplete", incomplete_details={"reason": "max_output_tokens"}), "truncated"),
    (response([message(SAID)], "incomplete", incomplete_details={"reason": "content_filter"}), "refused"),
    (response([message(SAID)], "in_progress"), "truncated"),
]


@pytest.mark.parametrize(("said", "finish", "stop"), CHAT_STOPS)
def test_why_a_completion_ended(said: Any, finish: str | None, stop: str) -> None:
    assert CHAT.reply(completion(said, finish)).stop == stop


@pytest.mark.parametrize(("answer", "stop"), RESPONSE_STOPS)
def test_why_a_response_ended(answer: Any, stop: str) -> None:
    assert RESPONSES.reply(answer).stop == stop


@pytest.mark.parametrize("provider", [CHAT, RESPONSES])
def test_what_is_no_reply_is_said_to_be_none(provider: Any) -> None:
    failed = response([], "failed", error={"code": "server_error"})
    for answer in ({}, {"choices": []}, {"object": "response"}, message(SAID), "text", failed):
        with pytest.raises(UnreadableReply):
            provider.reply(answer)
    with pytest.raises(UnreadableReply):
        provider.joined([])


def test_a_refusal_is_kept_and_is_what_other_wires_hear() -> None:
    reply = CHAT.reply(completion({"refusal": "no"}))
    assert parse(reply.native.body) == [{"refusal": "no", "role": "assistant"}]
    assert reply.text == "no"


USAGES = [
    ({"cached_tokens": 60, "cache_write_tokens": 30}, Usage(10, 60, output=7, writes={1800: 30})),
    ({"cached_tokens": 60}, Usage(40, 60, 0, 0, 7)),
    ({"cached_tokens": None}, Usage(None, None, None, None, 7)),
    (None, Usage(None, None, None, None, 7)),
]


@pytest.mark.parametrize(("details", "usage"), USAGES)
def test_what_chat_billed(details: Any, usage: Usage) -> None:
    typed = ChatCompletion.model_validate(
        completion({"content": "x"}, usage={**COUNTERS, "prompt_tokens_details": details})
    )
    assert CHAT.reply(typed).usage == usage


def test_what_responses_billed_by_lifetime() -> None:
    typed = Response.model_validate(response([message(SAID)]))
    assert RESPONSES.reply(typed).usage == Usage(10, 60, output=7, writes={1800: 10, 43200: 20})
    assert RESPONSES.usage(response([])).prompt == 100


# Streams
# ------------------------------------------------------------------------------------------------------------------------------


def chunk(delta: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-6.1-sol",
        "choices": choices,
        "usage": None,
        **more,
    }


def called(index: int, **fields: Any) -> Any:
    return {"tool_calls": [{"index": index, **fields}]}


CHUNKS = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"content": "Let me "}),
    chunk({"content": "look."}),
    chunk(called(0, id="c1", type="function", function={"name": "f", "arguments": ""})),
    chunk(called(0, function={"arguments": '{"b":'})),
    chunk(called(1, id="c2", type="function", function={"name": "g", "arguments": "{}"})),
    chunk(called(0, function={"arguments": '1,"a":2}'})),
    chunk({}, "tool_calls"),
    {**chunk({}), "choices": [], "usage": COUNTERS},
]
WHOLE = completion(
    {"content": "Let me look.", "tool_calls": [tool_call("f", '{"b":1,"a":2}'), tool_call("g", "{}", "c2")]},
    "tool_calls",
)


@pytest.mark.parametrize("typed", [False, True])
def test_chunks_amount_to_the_completion(typed: bool) -> None:
    events = [ChatCompletionChunk.model_validate(event) for event in CHUNKS] if typed else CHUNKS
    joined = CHAT.joined(events)
    assert CHAT.reply(joined) == CHAT.reply(WHOLE) == CHAT.reply(ChatCompletion.model_validate(joined))
    assert CHAT.is_complete(joined)
    assert CHAT.usage(joined) == Usage(10, 60, output=7, writes={1800: 30})


def test_the_stream_helpers_events_hold_the_chunks() -> None:
    events = [
        event
        for piece in CHUNKS
        for event in ({"type": "chunk", "chunk": piece, "snapshot": {}}, {"type": "content.delta", "delta": "x"})
    ]
    assert CHAT.reply(CHAT.joined(events)) == CHAT.reply(WHOLE)


def test_refusals_and_custom_calls_stream_too() -> None:
    events = [
        chunk(called(0, id="c", type="custom", custom={"name": "g", "input": "x ="})),
        chunk(called(0, custom={"input": " 1"})),
        chunk({"refusal": "n"}),
    ]
    reply = CHAT.reply(CHAT.joined([*events, chunk({"refusal": "o"}, "stop")]))
    assert (reply.calls, reply.text, reply.stop) == ((ReplyCall("c", "g", "x = 1"),), "no", "refused")


def test_a_cut_chat_stream_is_not_complete() -> None:
    for n in range(1, 7):
        joined = CHAT.joined(CHUNKS[:n])
        assert not CHAT.is_complete(joined)
        assert CHAT.usage(joined) == Usage()


OUTPUT = [REASONING, message(SAID), CALL]
EVENTS = [
    {"type": "response.created", "response": response([], "in_progress", usage=None)},
    {"type": "response.in_progress", "response": response([], "in_progress", usage=None)},
    *[
        event
        for index, item in enumerate(OUTPUT)
        for event in (
            {"type": "response.output_item.added", "output_index": index, "item": {**item, "status": "in_progress"}},
            {"type": "response.output_text.delta", "output_index": index, "content_index": 0, "delta": "hi"},
            {"type": "response.output_item.done", "output_index": index, "item": item},
        )
    ],
    {"type": "response.completed", "response": response(OUTPUT)},
]


def test_events_amount_to_the_response() -> None:
    joined = RESPONSES.joined(EVENTS)
    assert RESPONSES.reply(joined) == RESPONSES.reply(Response.model_validate(response(OUTPUT)))
    assert RESPONSES.is_complete(joined)


def test_a_response_without_its_items_takes_them_from_the_events() -> None:
    bare = {"type": "response.completed", "response": response([])}
    assert RESPONSES.reply(RESPONSES.joined([*EVENTS[:-1], bare])) == RESPONSES.reply(response(OUTPUT))


def test_a_cut_stream_holds_what_was_finished() -> None:
    joined = RESPONSES.joined(EVENTS[:6])
    assert [item["type"] for item in joined["output"]] == ["reasoning"]
    assert not RESPONSES.is_complete(joined)


@pytest.mark.parametrize(
    "last",
    [
        {"type": "error", "code": "server_error", "message": "m"},
        {"type": "response.failed", "response": response([], "failed")},
    ],
)
def test_a_failed_stream_is_no_reply(last: Any) -> None:
    joined = RESPONSES.joined([*EVENTS[:6], last])
    assert not RESPONSES.is_complete(joined)
    with pytest.raises(UnreadableReply):
        RESPONSES.reply(joined)


# What the replies become


def bodies(provider: Any, kind: Any, body: Any, **options: Any) -> list[Any]:
    """The blocks of one entry as they go on the wire."""
    return [parse(piece.body) for piece in provider.render_entry(entry(kind, body), **options)]


def test_each_wire_understands_the_others_reply() -> None:
    said = assistant(RESPONSES.reply(response(OUTPUT)))
    [message] = bodies(CHAT, "assistant", said)
    assert message == {"role": "assistant", "content": "hi", "tool_calls": [tool_call("f", '{"b":1,"a":2}', "call_1")]}
    items = bodies(RESPONSES, "assistant", assistant(CHAT.reply(WHOLE)))
    assert [item.get("call_id", item.get("content")) for item in items] == ["Let me look.", "c1", "c2"]


def test_a_custom_tools_call_is_answered_by_its_own_kind_of_item() -> None:
    custom = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_9", "name": "g", "input": "x = 1"}
    [call] = RESPONSES.reply(response([custom])).calls
    [item] = bodies(
        RESPONSES,
        "result",
        {"call_id": call.id, "name": "g", "content": [{"type": "text", "text": "1"}], "is_error": False},
    )
    assert item == {"type": "custom_tool_call_output", "call_id": "call_9", "output": "1"}


RESULTS = [
    ([{"type": "text", "text": "4"}], False, "4", "4"),
    ([{"type": "text", "text": "boom"}], True, "Error: boom", "Error: boom"),
    ([{"type": "text", "text": "Error: boom"}], True, "Error: boom", "Error: boom"),
    ([], True, "Error:", "Error:"),
    ([], False, "", ""),
    (
        [{"type": "text", "text": "see"}, {"type": "image", "media_type": "image/png", "data": "AA=="}],
        False,
        [{"type": "text", "text": "see"}, {"type": "text", "text": "[image]"}],
        [
            {"type": "input_text", "text": "see"},
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AA=="},
        ],
    ),
]


@pytest.mark.parametrize(("content", "is_error", "chat", "responses"), RESULTS)
def test_what_a_tool_gave(content: Any, is_error: bool, chat: Any, responses: Any) -> None:
    body = {"call_id": "c", "name": "f", "content": content, "is_error": is_error}
    assert bodies(CHAT, "result", body)[0]["content"] == chat
    assert bodies(RESPONSES, "result", body)[0]["output"] == responses


def test_a_tool_of_another_provider_is_refused_or_translated() -> None:
    anthropic = {
        "native": {
            "wire": "anthropic_messages",
            "block": {"name": "f", "input_schema": {"type": "object"}, "strict": True},
        }
    }
    for provider in (CHAT, RESPONSES):
        [piece] = provider.render_static_prefix([], [anthropic], 0)
        assert b'"parameters":{"type":"object"}' in piece.body
        hosted = {
            "native": {"wire": "anthropic_messages", "block": {"type": "web_search_20260209", "name": "web_search"}}
        }
        with pytest.raises(InvalidTool):
            list(provider.render_static_prefix([], [hosted], 0))
