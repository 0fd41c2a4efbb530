from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.types import Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from contextkit.server import LocalServer
from tests.server.conftest import ALL_PARTS, GPT, HEAD, saying
from tests.server.strict import strictly

EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
TURNS: list[dict[str, Any]] = [{"role": "developer", "content": HEAD}, {"role": "user", "content": "hello"}]
CHAT: dict[str, Any] = {"model": GPT, "messages": TURNS}
RESPOND: dict[str, Any] = {"model": GPT, "input": TURNS}
TOOL: dict[str, Any] = {
    "type": "function",
    "name": "search",
    "description": "Search.",
    "parameters": {"type": "object", "properties": {}},
}


def test_chat_reads_what_it_wrote(gpt: openai.OpenAI) -> None:
    first, second = (gpt.chat.completions.create(**CHAT).usage for _ in range(2))
    assert first is not None and second is not None and first.prompt_tokens_details and second.prompt_tokens_details
    assert (
        first.prompt_tokens_details.cache_write_tokens
        == second.prompt_tokens_details.cached_tokens
        == first.prompt_tokens
    )
    assert second.total_tokens == second.prompt_tokens + second.completion_tokens


def test_assistant_messages_are_taken_as_clients_send_them_back(gpt: openai.OpenAI) -> None:
    said: Any = {"role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}  # AI SDK 7, opencode 1.18
    first, second = (gpt.responses.create(model=GPT, input=[*TURNS, said, TURNS[1]]) for _ in range(2))
    assert first.usage is not None and second.usage is not None
    assert second.usage.input_tokens_details.cached_tokens == first.usage.input_tokens > 0


def test_responses_read_what_they_wrote_and_tell_lifetimes_apart(gpt: openai.OpenAI) -> None:
    options: Any = {"ttl": "12h"}
    first, second = (gpt.responses.create(**RESPOND, prompt_cache_options=options).usage for _ in range(2))
    assert first is not None and second is not None
    details = first.input_tokens_details.cache_write_tokens_details
    assert details is not None and details.ttl_12h_tokens == first.input_tokens and details.ttl_30m_tokens == 0
    assert second.input_tokens_details.cached_tokens == first.input_tokens


def test_chat_completion_is_what_the_sdk_types_say(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([{"parts": ALL_PARTS}])
    raw = gpt.chat.completions.with_raw_response.create(**CHAT)
    completion = strictly(ChatCompletion, raw.http_response.json())
    message = completion.choices[0].message
    assert (
        completion.choices[0].finish_reason == "tool_calls" and message.content and len(message.tool_calls or ()) == 2
    )
    assert (
        completion.usage
        and completion.usage.completion_tokens_details
        and completion.usage.completion_tokens_details.reasoning_tokens
    )
    assert raw.headers["x-request-id"].startswith("req_")


def test_response_is_what_the_sdk_types_say(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([{"parts": ALL_PARTS}])
    raw = gpt.responses.with_raw_response.create(**RESPOND, tools=[TOOL], instructions="be brief", metadata={"a": "b"})
    response = strictly(Response, raw.http_response.json())
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call", "function_call"]
    assert response.status == "completed" and response.output_text == ALL_PARTS[1]["text"]


def test_chat_stream_accumulates_to_the_same_completion(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([{"parts": ALL_PARTS}] * 2)
    whole = gpt.chat.completions.create(**CHAT).choices[0].message
    with gpt.chat.completions.stream(**CHAT, stream_options={"include_usage": True}) as stream:
        completion = stream.until_done().get_final_completion()
    streamed = completion.choices[0].message
    assert streamed.content == whole.content and completion.usage is not None
    made = [call.function.arguments for call in whole.tool_calls or () if call.type == "function"]
    assert [call.function.arguments for call in streamed.tool_calls or ()] == made


@pytest.mark.parametrize("has_usage", [True, False])
def test_every_chunk_is_what_the_sdk_types_say(server: LocalServer, gpt: openai.OpenAI, has_usage: bool) -> None:
    server.script([{"parts": ALL_PARTS}])
    options: Any = {"stream_options": {"include_usage": True}} if has_usage else {}
    with gpt.chat.completions.with_streaming_response.create(**CHAT, stream=True, **options) as response:
        lines = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    chunks = [strictly(ChatCompletionChunk, line, is_json=True) for line in lines]
    assert (chunks[-1].usage is not None) == has_usage == (not chunks[-1].choices)


def test_response_stream_accumulates_to_the_same_response(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([{"parts": ALL_PARTS}] * 2)
    whole = gpt.responses.create(**RESPOND)
    with gpt.responses.stream(**RESPOND) as stream:
        streamed = stream.until_done().get_final_response()
    assert streamed.output_text == whole.output_text
    assert [getattr(item, "arguments", None) for item in streamed.output] == [
        getattr(item, "arguments", None) for item in whole.output
    ]
    assert streamed.usage is not None and whole.usage is not None
    assert streamed.usage.input_tokens_details.cached_tokens == whole.usage.input_tokens_details.cache_write_tokens


def test_every_response_event_is_what_the_sdk_types_say(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([{"parts": ALL_PARTS}])
    with gpt.responses.with_streaming_response.create(**RESPOND, stream=True) as response:
        lines = [line[6:] for line in response.iter_lines() if line.startswith("data: ")]
    events = [strictly(EVENT, line, is_json=True) for line in lines]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created" and events[-1].type == "response.completed"


SQL: dict[str, Any] = {"name": "sql", "description": "SQL.", "format": {"type": "text"}}
SEARCH: dict[str, Any] = {
    "type": "tool_search",
    "execution": "client",
    "description": "Search.",
    "parameters": TOOL["parameters"],
}
SPECIAL: list[dict[str, Any]] = [
    {"type": "call", "name": "sql", "arguments": "SELECT 1"},
    {"type": "call", "name": "tool_search", "arguments": {"query": "weather"}},
]


def test_custom_calls_and_searches_are_what_the_sdk_types_say(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([{"parts": SPECIAL}, {"parts": SPECIAL}, {"parts": SPECIAL[:1]}])
    tools: Any = [{"type": "custom", **SQL}, SEARCH]
    raw = gpt.responses.with_raw_response.create(**RESPOND, tools=tools)
    response = strictly(Response, raw.http_response.json())
    assert [item.type for item in response.output] == ["custom_tool_call", "tool_search_call"]
    with gpt.responses.with_streaming_response.create(**RESPOND, tools=tools, stream=True) as streamed:
        lines = [line[6:] for line in streamed.iter_lines() if line.startswith("data: ")]
    events = [strictly(EVENT, line, is_json=True) for line in lines]
    assert [item.type for item in events[-1].response.output] == ["custom_tool_call", "tool_search_call"]  # type: ignore[union-attr]
    completion = gpt.chat.completions.with_raw_response.create(**CHAT, tools=[{"type": "custom", "custom": SQL}])
    [call] = strictly(ChatCompletion, completion.http_response.json()).choices[0].message.tool_calls or ()
    assert call.type == "custom" and (call.custom.name, call.custom.input) == ("sql", "SELECT 1")


def test_a_search_that_nobody_declared_is_a_function(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([{"parts": SPECIAL[1:]}])
    [item] = gpt.responses.create(**RESPOND, tools=[{**TOOL, "name": "tool_search"}]).output  # type: ignore[list-item]
    assert item.type == "function_call"


@pytest.mark.parametrize("kind", ["custom_tool_call", "tool_search_call"])
def test_calls_of_every_kind_need_their_answer(gpt: openai.OpenAI, kind: str) -> None:
    made = {
        "custom_tool_call": {"name": "sql", "input": "SELECT 1"},
        "tool_search_call": {"execution": "client", "arguments": {}},
    }[kind]
    given: Any = [*TURNS, {"type": kind, "call_id": "call_1", **made}]
    with pytest.raises(openai.BadRequestError, match="No tool output found"):
        gpt.responses.create(model=GPT, input=given)
    answer = (
        {"type": "custom_tool_call_output", "output": "1"}
        if kind == "custom_tool_call"
        else {"type": "tool_search_output", "execution": "client", "tools": [TOOL | {"strict": False}]}
    )
    gpt.responses.create(model=GPT, input=[*given, {"call_id": "call_1", **answer}])
    with pytest.raises(openai.BadRequestError, match="No tool call found"):
        gpt.responses.create(model=GPT, input=[*TURNS, {"call_id": "call_1", **answer}])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("stop", "finish", "status", "reason"),
    [
        ("done", "stop", "completed", None),
        ("truncated", "length", "incomplete", "max_output_tokens"),
        ("refused", "content_filter", "incomplete", "content_filter"),
    ],
)
def test_every_ending(
    server: LocalServer, gpt: openai.OpenAI, stop: str, finish: str, status: str, reason: str | None
) -> None:
    server.script([saying(stop=stop, output_tokens=9)] * 3)
    assert gpt.chat.completions.create(**CHAT).choices[0].finish_reason == finish
    response = gpt.responses.create(**RESPOND)
    assert response.status == status and getattr(response.incomplete_details, "reason", None) == reason
    with gpt.responses.stream(**RESPOND) as stream:
        assert [event.type for event in stream][-1] == f"response.{status}"


def test_a_window_that_overflows_is_refused(server: LocalServer, gpt: openai.OpenAI) -> None:
    server.script([saying(stop="overflow")])
    with pytest.raises(openai.BadRequestError) as caught:
        gpt.chat.completions.create(**CHAT)
    assert caught.value.code == "context_length_exceeded"


def test_prewarming_writes_and_says_nothing(gpt: openai.OpenAI) -> None:
    options: Any = {"prewarm": True}
    warm = gpt.responses.create(**RESPOND, prompt_cache_options=options)
    assert warm.output == [] and warm.usage is not None and warm.usage.output_tokens == 0
    real = gpt.responses.create(**RESPOND)
    assert real.usage is not None and real.usage.input_tokens_details.cached_tokens == warm.usage.input_tokens


def test_projects_do_not_share(server: LocalServer, gpt: openai.OpenAI) -> None:
    gpt.chat.completions.create(**CHAT)
    usage = gpt.with_options(project="proj_2").chat.completions.create(**CHAT).usage
    assert (
        usage is not None and usage.prompt_tokens_details is not None and usage.prompt_tokens_details.cached_tokens == 0
    )


def test_models(gpt: openai.OpenAI) -> None:
    rows = gpt.models.with_raw_response.list().http_response.json()["data"]
    assert {strictly(Model, row).id for row in rows} >= {GPT}
    assert gpt.models.retrieve(GPT).id == GPT
    with pytest.raises(openai.NotFoundError):
        gpt.models.retrieve("gpt-none")
