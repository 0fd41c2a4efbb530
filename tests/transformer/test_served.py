"""`contextkit serve --replies transformer`: real clients, replies that are sampled, masks that hold, and a bill of
computed rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from click.testing import CliRunner

from contextkit.analysis.engines import Engine
from contextkit.cache.block.ids import Adapter, TokenIds
from contextkit.cli.main import cli
from contextkit.cli.transformer_server import TransformerServer, choice
from contextkit.errors import ContextKitError
from contextkit.server.local import LocalServer

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "required": ["unit", "limit", "deep"],
                "properties": {
                    "unit": {"enum": ["km", "mile"]},
                    "limit": {"type": "integer"},
                    "deep": {
                        "type": "object",
                        "required": ["on", "why"],
                        "properties": {"on": {"type": "boolean"}, "why": {"type": "string"}},
                    },
                },
            },
        },
    }
    for name in ("browser_open", "browser_click", "search")
]


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[LocalServer, TransformerServer]]:
    model = TransformerServer(capacity_tokens=2048)
    with LocalServer(model, cache=Engine("vllm", model), now=0.0) as server:
        yield server, model


@pytest.fixture
def client(served: tuple[LocalServer, TransformerServer]) -> Iterator[openai.OpenAI]:
    served[0].reset()
    with openai.OpenAI(base_url=f"{served[0].url}/v1", api_key="any", max_retries=0) as opened:
        yield opened


def ask(client: openai.OpenAI, messages: list[Any], **fields: Any) -> Any:
    return client.chat.completions.create(model="reference", messages=messages, **fields)


def test_a_conversation_is_billed_what_the_model_computed(
    client: openai.OpenAI, served: tuple[LocalServer, TransformerServer]
) -> None:
    messages: list[Any] = [{"role": "system", "content": "You are careful. " * 20}]
    computed = []
    for turn in range(4):
        messages.append({"role": "user", "content": f"Turn {turn}, please go on."})
        before = served[1].stats()["rows_computed"]
        reply = ask(client, messages)
        usage = reply.usage
        assert reply.choices[0].message.content
        computed.append(
            (
                usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens,
                served[1].stats()["rows_computed"] - before,
            )
        )
        messages.append({"role": "assistant", "content": reply.choices[0].message.content})
        assert usage.prompt_tokens_details.cached_tokens % 16 == 0
    assert usage.prompt_tokens_details.cached_tokens > 80
    assert all(billed <= rows for billed, rows in computed)  # the rest are rows of what was said


def test_the_same_request_gets_the_same_words_and_another_seed_others(client: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": "Say something."}]
    said = [
        ask(client, messages, **fields).choices[0].message.content
        for fields in ({}, {}, {"seed": 7}, {"temperature": 0})
    ]
    assert said[0] == said[1] and len(set(said)) == 3


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [
        ("required", {"browser_open", "browser_click", "search"}),
        ({"type": "function", "function": {"name": "search"}}, {"search"}),
    ],
)
def test_a_forced_call_is_always_an_allowed_one_with_arguments_of_its_schema(
    client: openai.OpenAI, asked: Any, allowed: set[str]
) -> None:
    names = set()
    for i in range(6):
        reply = ask(client, [{"role": "user", "content": f"Go {i}"}], tools=TOOLS, tool_choice=asked)
        (call,) = reply.choices[0].message.tool_calls
        arguments = json.loads(call.function.arguments)
        names.add(call.function.name)
        assert (
            arguments["unit"] in ("km", "mile")
            and arguments["limit"] in range(10)
            and isinstance(arguments["deep"]["on"], bool)
        )
        assert arguments["deep"]["why"]
    assert names <= allowed and (len(allowed) == 1 or len(names) > 1)


def test_a_mask_moves_nothing_in_front_of_it(client: openai.OpenAI) -> None:
    messages: list[Any] = [{"role": "system", "content": "You are careful. " * 30}, {"role": "user", "content": "Go"}]
    ask(client, messages, tools=TOOLS, tool_choice="none")
    forced = ask(client, messages, tools=TOOLS, tool_choice="required")
    assert forced.usage.prompt_tokens - forced.usage.prompt_tokens_details.cached_tokens <= 16


def test_a_schema_for_the_text_is_kept(client: openai.OpenAI) -> None:
    schema = {
        "type": "object",
        "required": ["name", "sizes"],
        "properties": {"name": {"type": "string"}, "sizes": {"type": "array", "items": {"enum": [1, 2]}}},
    }
    format_: Any = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema}}
    said = json.loads(
        ask(client, [{"role": "user", "content": "Go"}], response_format=format_).choices[0].message.content
    )
    assert said["name"] and said["sizes"][0] in (1, 2)


def test_salts_keep_conversations_apart_and_old_blocks_make_room(client: openai.OpenAI) -> None:
    def read(i: int, **body: Any) -> int:
        reply = ask(client, [{"role": "user", "content": f"{i} " * 150}], extra_body=body)
        tokens: int = reply.usage.prompt_tokens_details.cached_tokens
        return tokens

    assert (read(0), read(0) > 100, read(0, cache_salt="b")) == (0, True, 0)
    for i in range(1, 10):
        read(i)  # the model raises where the rules beside it would have forgotten another block
    assert read(0) == 0


def test_claude_is_answered_too_on_claudes_bill(
    served: tuple[LocalServer, TransformerServer], client: openai.OpenAI
) -> None:
    tools: Any = [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]
    with anthropic.Anthropic(base_url=served[0].url, api_key="any", max_retries=0) as claude:
        reply = claude.messages.create(
            model="claude-haiku-4-5",
            max_tokens=50,
            messages=[{"role": "user", "content": "Go"}],
            tools=tools,
            tool_choice={"type": "any"},
        )
    assert [(block.type, block.name) for block in reply.content if block.type == "tool_use"] == [("tool_use", "look")]
    assert ask(client, [{"role": "user", "content": "Go"}]).usage.prompt_tokens


def test_a_bill_the_rules_do_not_share_is_an_error() -> None:
    model, prompt = TransformerServer(capacity_tokens=1024), TokenIds(range(100), Adapter("m", ""))
    model._reference.begin(prompt, 0.0)  # the rules now know a prompt the model never computed
    with pytest.raises(ContextKitError, match="model read 0 and computed 100, the rules read 96 and computed 4"):
        model.begin(prompt, 0.0)


def test_choices_of_every_endpoint() -> None:
    one = {"type": "function", "function": {"name": "search"}}
    nested = choice(
        {
            "tools": TOOLS,
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [one]}},
        }
    )
    flat = [{"type": "function", "name": "a"}, {"type": "function", "name": "b"}]
    assert (nested.mode, nested.names) == ("required", ("search",))
    assert choice({"tools": flat, "tool_choice": {"type": "function", "name": "b"}}).names == ("b",)
    assert choice({"tools": flat}).mode == "auto" and choice({}).mode == "none"


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--cache", "sglang"], "vLLM's blocks"),
        (["--slots", "2"], "--slots"),
        (["--block-size", "0"], "at least one"),
    ],
)
def test_what_it_cannot_keep_is_refused(arguments: list[str], what: str) -> None:
    found = CliRunner().invoke(cli, ["serve", "--replies", "transformer", *arguments])
    assert found.exit_code and (what in found.output or what in str(found.exception))
