"""Replies whose tool arguments are no JSON object: billed once, kept, answered with an error, and the loop goes on.

On every endpoint.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context, Tool
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.providers.endpoints import PARSERS
from tests.laws.wires import PROVIDERS, answer
from tests.scale import n_examples

USAGE = Usage(10, 0, 0, 0, 5)
ENDPOINTS = ["anthropic", "chat", "responses", "bedrock", "gemini", "compatible-vllm", "compatible-kimi"]
TEXTS = {
    "torn": '{"x": 1',
    "NaN": '{"x": NaN}',
    "infinity": '{"x": [1, -Infinity]}',
    "lone surrogate": '{"x": "\\ud83d"}',
    "list": "[1]",
    "text": '"x"',
    "number": "1e400",
    "huge": '{"x": ' + "9" * 400 + "}",
    "deep": '{"x": ' + "[" * 300 + "]" * 300 + "}",
    "single quotes": "{'x': 1}",
    "two objects": '{"x": 1}{"x": 2}',
    "control": '{"x": "a\nb"}',
    "fence": '```json\n{"x": 1}\n```',
}
"""What a model may write that is no JSON object, or none that JSON readers agree on."""


def tools(ran: list[Any]) -> list[Tool]:
    schema = {"type": "object"}  # takes any object: nothing but the arguments' form keeps the call from being made
    return [
        Tool.raw(
            {"name": "f", "description": "f.", "parameters": schema},
            run=lambda arguments: ran.append(arguments) or "ran",
        )
    ]


def value_of(text: str) -> Any:
    """What Python's reader, which the SDKs use, makes of it; the text where it is torn."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def reply(wire: str, text: str, name: str = "r1") -> dict[str, Any]:
    """A reply that calls `f` with arguments as the wire gives them: as a string, or read by the SDK."""
    made = answer(wire, name, [("text", "Let me."), ("call", "c1", "f", {})], USAGE)
    if wire == "openai_chat":
        made["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = text
    elif wire == "openai_responses":
        made["output"][-1]["arguments"] = text
    elif wire == "anthropic_messages":
        made["content"][-1]["input"] = value_of(text)
    elif wire == "bedrock_converse":
        made["output"]["message"]["content"][-1]["toolUse"]["input"] = value_of(text)
    else:
        made["candidates"][0]["content"]["parts"][-1]["functionCall"]["args"] = value_of(text)
    return made


def sent_arguments(context: Context) -> list[Any]:
    """The arguments of every call in the next request, as the wire has them."""
    body, found = json.loads(context.request().body), list[Any]()

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            if value.get("type") == "function_call" or ("function" in value and "id" in value):
                found.append(value.get("arguments", (value.get("function") or {}).get("arguments")))
            elif value.get("type") == "tool_use":
                found.append(value["input"])
            for key, inner in value.items():
                if key in ("toolUse", "functionCall"):
                    found.append(inner.get("input", inner.get("args")))
                visit(inner)
        elif isinstance(value, list):
            for inner in value:
                visit(inner)

    visit({key: value for key, value in body.items() if key != "tools"})
    return found


def check(context: Context, ran: list[Any], n_calls: int = 1) -> None:
    """Billed once and kept.

    Its call is open, its answer an error; the next request is one its endpoint reads; nothing ran.
    """
    assert len(context.ledger) == n_calls and context.ledger[-1].error is None and context.ledger[-1].usage is not None
    assert [call.name for call in context.calls] == ["f"]
    context.result(context.calls[0], context.calls[0].run())
    body = parse(context.log[-1].body)
    assert body["is_error"] and "arguments of tool 'f'" in body["content"][0]["text"] and ran == []
    PARSERS[context.provider.wire](json.loads(context.request().body))


@pytest.mark.parametrize("name", ENDPOINTS)
def test_arguments_that_are_no_object_are_kept_and_answered(name: str, tmp_path: Path) -> None:
    for kind, text in TEXTS.items():
        ran: list[Any] = []
        with Context.open(tmp_path / kind, PROVIDERS[name](), tools=tools(ran)) as context:
            context.user("Go.")
            context.receive(reply(context.provider.wire, text), context.request())
            check(context, ran)
            body = context.request().body
            [arguments] = sent_arguments(context)
        if name in ("chat", "responses"):
            assert arguments == text  # a string, sent back as it came
        else:
            held = json.loads(arguments) if isinstance(arguments, str) else arguments
            assert isinstance(held, dict) and list(held) == ["INVALID_JSON"] and isinstance(held["INVALID_JSON"], str)
        with Context.open(tmp_path / kind, PROVIDERS[name](), tools=tools(ran)) as again:
            assert again.request().body == body and len(again.ledger) == 1
            again.receive(answer(again.provider.wire, "r2", [("call", "c2", "f", {"x": 1})], USAGE), again.request())
            again.result(again.calls[0], again.calls[0].run())
            assert ran == [{"x": 1}] and not again.calls


def test_a_stream_of_messages_keeps_what_the_model_wrote() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0, "output_tokens": 5}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "usage": usage}
    block = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    for text in TEXTS.values():
        ran: list[Any] = []
        context = Context(PROVIDERS["anthropic"](), tools=tools(ran))
        context.user("Go.")
        deltas = [{"type": "input_json_delta", "partial_json": one} for one in text]
        events = [
            {"type": "message_start", "message": {**message, "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ]
        list(context.stream(iter(events), context.request()))
        check(context, ran)
        assert sent_arguments(context) == [{"INVALID_JSON": text}]


def test_a_stream_of_chat_keeps_what_the_model_wrote() -> None:
    def chunk(delta: Any, finish: str | None = None, **more: Any) -> Any:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        return {"id": "m", "object": "chat.completion.chunk", "choices": choices, **more}

    usage = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 0}}
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
    start, end = chunk({"role": "assistant", "tool_calls": [call]}), chunk({}, "tool_calls", usage=usage)
    for text in TEXTS.values():
        ran: list[Any] = []
        context = Context(PROVIDERS["chat"](), tools=tools(ran))
        context.user("Go.")
        pieces = [chunk({"tool_calls": [{"index": 0, "function": {"arguments": one}}]}) for one in text]
        list(context.stream(iter([start, *pieces, end]), context.request()))
        check(context, ran)
        assert sent_arguments(context) == [text]


def test_the_sdk_s_own_objects_are_kept_too() -> None:
    made: dict[str, Any] = {
        "anthropic": anthropic.types.Message.construct,
        "chat": openai.types.chat.ChatCompletion.construct,
    }
    for kind in ("NaN", "lone surrogate", "list", "huge"):
        for name, construct in made.items():
            ran: list[Any] = []
            context = Context(PROVIDERS[name](), tools=tools(ran))
            context.user("Go.")
            raw = json.loads(json.dumps(reply(context.provider.wire, TEXTS[kind])))
            context.receive(construct(**raw), context.request())
            check(context, ran)


@pytest.mark.parametrize("name", ENDPOINTS)
def test_the_same_key_twice_counts_once_as_in_every_sdk(name: str) -> None:
    ran: list[Any] = []
    context = Context(PROVIDERS[name](), tools=tools(ran))
    context.user("Go.")
    context.receive(reply(context.provider.wire, '{"x": 1, "x": 2}'), context.request())
    context.result(context.calls[0], context.calls[0].run())
    assert ran == [{"x": 2}] and len(context.ledger) == 1
    PARSERS[context.provider.wire](json.loads(context.request().body))


@pytest.mark.parametrize("name", ["chat", "responses", "compatible-vllm"])
def test_no_text_for_arguments_is_no_arguments(name: str) -> None:
    ran: list[Any] = []
    context = Context(PROVIDERS[name](), tools=tools(ran))
    context.user("Go.")
    context.receive(reply(context.provider.wire, ""), context.request())
    context.result(context.calls[0], context.calls[0].run())
    assert ran == [{}] and sent_arguments(context) == ["{}" if name == "compatible-vllm" else ""]


@pytest.mark.parametrize("name", ENDPOINTS)
@pytest.mark.parametrize(("text", "kept"), [("a \ud83d\ude00 b", "a 😀 b"), ("a \ud83d b", "a \\ud83d b")])
def test_text_with_surrogates_is_kept(name: str, text: str, kept: str) -> None:
    context = Context(PROVIDERS[name]())
    context.user("Go.")
    context.receive(answer(context.provider.wire, "r", [("text", text)], USAGE), context.request())
    assert context.last_text == kept and len(context.ledger) == 1
    context.user("On.")
    PARSERS[context.provider.wire](json.loads(context.request().body))


def test_what_one_endpoint_kept_another_can_be_sent() -> None:
    for text in (TEXTS["torn"], TEXTS["NaN"], TEXTS["list"]):
        for source in ENDPOINTS:
            context = Context(PROVIDERS[source](), tools=tools([]))
            context.user("Go.")
            context.receive(reply(context.provider.wire, text), context.request())
            context.result(context.calls[0], context.calls[0].run())
            for target in ENDPOINTS:
                branch = context.fork()
                branch.switch(PROVIDERS[target]())
                PARSERS[branch.provider.wire](json.loads(branch.request().body))
                if target.startswith("compatible"):
                    assert all(isinstance(json.loads(one), dict) for one in sent_arguments(branch)), (
                        text,
                        source,
                        target,
                    )


def test_a_log_of_an_earlier_version_is_answered_alike() -> None:
    """Streams of Messages were kept so before; the call ran where its schema takes any object."""
    ran: list[Any] = []
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=9), tools=tools(ran))
    context.user("Go.")
    held = {"INVALID_JSON": "{torn"}
    native = {
        "wire": "anthropic_messages",
        "model": "m",
        "body": [{"type": "tool_use", "id": "c", "input": held, "name": "f"}],
    }
    calls = [{"id": "c", "name": "f", "arguments": held}]
    context._append("assistant", {"after": 1, "native": native, "text": "", "calls": calls, "stop": "calls"})
    context.result(context.calls[0], context.calls[0].run())
    assert ran == [] and b'"is_error":true' in context.log[-1].body


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters()), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", ENDPOINTS)
@given(JSON_LIKE, st.text(st.characters(), max_size=20))
@settings(max_examples=n_examples(6, 200), deadline=None)
def test_any_arguments_are_kept_and_answered(name: str, value: Any, noise: str) -> None:
    ran: list[Any] = []
    context = Context(PROVIDERS[name](), tools=tools(ran))
    for number, text in enumerate([json.dumps(value), noise, json.dumps(value)[: len(noise)]]):
        context.user("Go.")
        context.receive(reply(context.provider.wire, text, f"r{number}"), context.request())
        context.result(context.calls[0], context.calls[0].run())
        assert len(context.ledger) == number + 1
    json.loads(context.request().body)
