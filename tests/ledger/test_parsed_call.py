"""Parsing bodies into blocks: every wire, every spelling, and from where an earlier call ended as well as from the
front."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from contextkit.ledger.parsed_call import BodyParser, ParsedCall, parse_call
from contextkit.prompt.block import text_of
from tests.lint.trace.calls import SCHEMA, anthropic, assistant, call, sent, spelled, text, tool, user

Json = Any
EPHEMERAL = {"type": "ephemeral"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"b":1}'}}
BODIES: dict[str, tuple[Json, list[tuple[str, str, str, str]]]] = {
    "anthropic_messages": (
        anthropic(
            user("hi"),
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "tool_use", "id": "t", "name": "f", "input": {}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "3"}]},
            system="be brief",
            tools=[tool("f")],
        ),
        [
            ("tools", "tools[0]", "f", "tool"),
            ("system", "system", "system", "text"),
            ("messages", "messages[0].content[0]", "user", "text"),
            ("messages", "messages[1].content[0]", "assistant", "thinking"),
            ("messages", "messages[1].content[1]", "assistant", "call"),
            ("messages", "messages[2].content[0]", "user", "result"),
        ],
    ),
    "openai_chat": (
        {
            "model": "gpt-4o",
            "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
            "messages": [
                {"role": "developer", "content": "be brief"},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "so", "reasoning_content": "hm", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": "3"},
            ],
        },
        [
            ("tools", "tools[0]", "f", "tool"),
            ("system", "messages[0].content", "developer", "text"),
            ("messages", "messages[1].content", "user", "text"),
            ("messages", "messages[2].reasoning_content", "assistant", "thinking"),
            ("messages", "messages[2].content", "assistant", "text"),
            ("messages", "messages[2].tool_calls[0]", "assistant", "call"),
            ("messages", "messages[3]", "tool", "result"),
        ],
    ),
    "openai_responses": (
        {
            "model": "gpt-5.1",
            "instructions": "be brief",
            "tools": [{"type": "function", "name": "f", "parameters": SCHEMA}],
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                {"type": "reasoning", "id": "rs", "summary": []},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": "3"},
            ],
        },
        [
            ("tools", "tools[0]", "f", "tool"),
            ("system", "instructions", "system", "text"),
            ("messages", "input[0].content[0]", "user", "text"),
            ("messages", "input[1]", "item", "thinking"),
            ("messages", "input[2]", "item", "call"),
            ("messages", "input[3]", "item", "result"),
        ],
    ),
    "gemini": (
        {
            "systemInstruction": {"parts": [{"text": "be brief"}]},
            "tools": [{"functionDeclarations": [{"name": "f"}]}, {"googleSearch": {}}],
            "contents": [
                {"role": "user", "parts": [{"text": "hi"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
                {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
            ],
        },
        [
            ("tools", "tools[0].functionDeclarations[0]", "f", "tool"),
            ("tools", "tools[1].googleSearch", "googleSearch", "tool"),
            ("system", "systemInstruction.parts[0]", "system", "text"),
            ("messages", "contents[0].parts[0]", "user", "text"),
            ("messages", "contents[1].parts[0]", "model", "call"),
            ("messages", "contents[2].parts[0]", "user", "result"),
        ],
    ),
    "bedrock_converse": (
        {
            "system": [{"text": "be brief"}, {"cachePoint": {"type": "default"}}],
            "toolConfig": {
                "tools": [{"toolSpec": {"name": "f", "inputSchema": {"json": SCHEMA}}}],
                "toolChoice": {"auto": {}},
            },
            "messages": [
                {"role": "user", "content": [{"text": "hi"}]},
                {"role": "assistant", "content": [{"toolUse": {"name": "f"}}]},
                {"role": "user", "content": [{"toolResult": {"toolUseId": "t"}}, {"cachePoint": {"type": "default"}}]},
            ],
        },
        [
            ("tools", "toolConfig.tools[0]", "f", "tool"),
            ("system", "system[0]", "system", "text"),
            ("messages", "messages[0].content[0]", "user", "text"),
            ("messages", "messages[1].content[0]", "assistant", "call"),
            ("messages", "messages[2].content[0]", "user", "result"),
        ],
    ),
}


@pytest.mark.parametrize("wire", BODIES)
def test_a_body_is_recognised_by_its_own_keys_and_cut_in_cache_order(wire: str) -> None:
    body, expected = BODIES[wire]
    found = sent(body, wire)
    assert found.endpoint == wire
    assert [(block.level, block.path, block.role, block.type) for block in found.blocks] == expected


def test_markers_stand_beside_the_bytes_not_in_them() -> None:
    marked = sent(anthropic(user("hi"), tools=[{**tool("f"), "cache_control": EPHEMERAL}]))
    plain = sent(anthropic(user("hi"), tools=[tool("f")], mark=False))
    assert [block.body for block in marked.blocks] == [block.body for block in plain.blocks]
    assert [block.marker for block in marked.blocks] == [EPHEMERAL, None, EPHEMERAL]
    assert [block.marker for block in plain.blocks] == [None] * 3


def test_a_marker_inside_a_result_counts_and_a_property_of_that_name_does_not() -> None:
    nested = {"type": "tool_result", "tool_use_id": "t", "content": [{**text("3"), "cache_control": EPHEMERAL}]}
    schema = {"type": "object", "properties": {"cache_control": {"type": "string"}}}
    found = sent(
        anthropic({"role": "user", "content": [nested]}, tools=[{"name": "f", "input_schema": schema}], mark=False)
    )
    assert found.blocks[-1].marker == EPHEMERAL
    assert b"cache_control" not in found.blocks[-1].body
    assert found.blocks[0].marker is None
    assert b"cache_control" in found.blocks[0].body


def test_a_cache_point_marks_the_block_before_it() -> None:
    found = sent(BODIES["bedrock_converse"][0], "bedrock_converse")
    assert [block.marker is not None for block in found.blocks] == [False, True, False, False, True]
    assert found.params["toolConfig"] == {"toolChoice": {"auto": {}}}


def test_a_string_and_a_list_of_one_text_are_two_shapes_of_one_text() -> None:
    one, other = sent(anthropic({"role": "user", "content": "hi"}, mark=False)), sent(anthropic(user("hi"), mark=False))
    assert (one.blocks[-1].value, other.blocks[-1].value) == ("hi", {"type": "text", "text": "hi"})
    assert text_of(one.blocks[-1]) == text_of(other.blocks[-1]) == "hi"
    assert one.blocks[-1].body != other.blocks[-1].body


@pytest.mark.parametrize(
    "body", [{"model": "m", "prompt": "x"}, {"model": "text-embedding-3-small", "input": "x"}, {"input": ["a", "b"]}]
)
def test_what_is_no_model_call_is_none(body: Json) -> None:
    assert parse_call(call(body)) is None


def grown(random: Random, n: int) -> list[Json]:
    """The same conversation at `n` lengths, now and then with something in it changed."""
    messages, bodies, system = [user("first größer\n")], list[Json](), "policy"
    for i in range(n):
        if random.random() < 0.2:
            messages[random.randrange(len(messages))] = user(f"edited {i}", "twice")
        if random.random() < 0.2:
            del messages[random.randrange(len(messages))]
        system = f"policy {i}" if random.random() < 0.2 else system
        messages += [assistant(f"reply {i}", "in two parts"), user(f"and {i} \u2028 1.0 {i}")]
        bodies.append(anthropic(*messages, system=system, tools=[tool("f")]))
    return bodies


SPELLINGS = {
    "compact": spelled,
    "json.dumps": lambda body: json.dumps(body).encode(),
    "compact ascii": lambda body: json.dumps(body, separators=(",", ":")).encode(),
    "indented": lambda body: json.dumps(body, indent=1).encode(),
    "messages first": lambda body: spelled({"messages": body["messages"], **body}),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("seed", range(2))
def test_a_call_cut_from_where_the_last_one_ended_is_the_call_cut_whole(spelling: str, seed: int) -> None:
    before: ParsedCall | None = None
    for body in grown(Random(seed), 30):
        raw = SPELLINGS[spelling](body)
        before, whole = parse_call(call(raw), before), parse_call(call(raw))
        assert before is not None
        assert whole is not None
        assert (before.blocks, before.body, before.params) == (whole.blocks, whole.body, whole.params)


def test_blocks_that_were_not_touched_are_the_same_objects() -> None:
    one = sent(anthropic(user("a"), assistant("b"), user("c")))
    other = sent(anthropic(user("a"), assistant("b"), user("c"), assistant("d"), user("e")), before=one)
    assert [mine is theirs for mine, theirs in zip(one.blocks, other.blocks, strict=False)] == [True, True, True, False]


@pytest.mark.parametrize("changed", [{"b": 2, "a": 1}, {"a": 1.0, "b": 2}, {"a": True, "b": 2}])
def test_what_python_takes_for_equal_is_parsed_anew(changed: Json) -> None:
    parser = BodyParser()

    def body_of(arguments: Json) -> bytes:
        use = {"type": "tool_use", "id": "t", "name": "f", "input": arguments}
        fields = anthropic(user("a"), {"role": "assistant", "content": [use]}, user("b"))
        return parser.parse(call(fields), fields, "anthropic")[0].blocks[-2].body

    assert body_of({"a": 1, "b": 2}) == spelled({"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1, "b": 2}})
    assert body_of(changed) == spelled({"type": "tool_use", "id": "t", "name": "f", "input": changed})
