"""Tools written down by hand, in every provider's form."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextkit.canonical import canonical
from contextkit.errors import InvalidCall, InvalidTool, UsageError
from contextkit.tools.tool import Tool

SCHEMA = {
    "type": "object",
    "required": ["b"],
    "properties": {"b": {"type": "string"}, "a": {"title": "A", "type": "number"}},
}
NEUTRAL = {"name": "find", "description": "Find.", "parameters": SCHEMA}
ANTHROPIC = {"input_schema": SCHEMA, "description": "Find.", "name": "find"}
CHAT = {"type": "function", "function": NEUTRAL}
RESPONSES = {"type": "function", **NEUTRAL}


def test_every_form_becomes_the_neutral_one() -> None:
    for definition in (NEUTRAL, ANTHROPIC, CHAT, RESPONSES):
        made = Tool.raw(definition)
        assert canonical(made.definition) == canonical(NEUTRAL)
        assert (made.name, made.description, made.parameters, made.is_native) == ("find", "Find.", SCHEMA, False)


@pytest.mark.parametrize(
    ("definition", "wire"),
    [
        ({**ANTHROPIC, "strict": True}, "anthropic_messages"),
        ({**ANTHROPIC, "type": "custom"}, "anthropic_messages"),
        ({"name": "find", "input_schema": SCHEMA}, "anthropic_messages"),
        ({**RESPONSES, "strict": False}, "openai_responses"),
        ({"type": "function", "function": {**NEUTRAL, "strict": True}}, "openai_chat"),
        ({"type": "function", "function": {"name": "find"}}, "openai_chat"),
    ],
)
def test_a_function_that_says_more_or_less_is_kept_verbatim(definition: dict[str, Any], wire: str) -> None:
    made = Tool.raw(definition)
    assert canonical(made.definition) == canonical({"native": {"wire": wire, "block": definition}})
    assert made.name == "find"


@pytest.mark.parametrize(
    ("block", "name", "wire"),
    [
        ({"type": "web_search_20250305", "name": "web_search", "max_uses": 3}, "web_search", "anthropic_messages"),
        ({"type": "mcp_toolset", "mcp_server_name": "github"}, "github", "anthropic_messages"),
        ({"type": "web_search"}, "web_search", "openai_responses"),
        ({"type": "mcp", "server_label": "wiki", "server_url": "https://example.org"}, "wiki", "openai_responses"),
        ({"type": "custom", "name": "sql", "format": {"type": "text"}}, "sql", "openai_responses"),
        ({"type": "custom", "custom": {"name": "sql"}}, "sql", "openai_chat"),
    ],
)
def test_a_providers_own_tool_is_kept_verbatim(block: dict[str, Any], name: str, wire: str) -> None:
    made = Tool.raw(block)
    assert (made.name, made.is_native, made.description, made.parameters) == (name, True, "", None)
    assert canonical(made.definition) == canonical({"native": {"wire": wire, "block": block}})
    assert Tool.raw(made.definition) == made
    assert Tool.raw(block, wire="other").definition["native"]["wire"] == "other"


def test_markers_are_the_layouts() -> None:
    marked = {"cache_control": {"type": "ephemeral"}}
    assert Tool.raw({**ANTHROPIC, **marked}) == Tool.raw(ANTHROPIC)
    server = {"type": "web_search_20250305", "name": "web_search"}
    assert Tool.raw({**server, **marked}) == Tool.raw(server)


def test_neutral_may_leave_out_description_and_parameters() -> None:
    empty = {"name": "ping", "description": "", "parameters": {"type": "object", "properties": {}}}
    assert Tool.raw({"name": "ping"}).definition == empty


@given(st.permutations(["zeta", "alpha", "10", "2", "é"]))
def test_order_of_properties_is_kept(names: list[str]) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    assert list(Tool.raw({**ANTHROPIC, "input_schema": schema}).parameters["properties"]) == names


def test_the_dict_it_was_made_of_may_change() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    made = Tool.raw({**NEUTRAL, "parameters": schema})
    schema["properties"]["later"] = {}
    assert made.parameters == {"type": "object", "properties": {}}


def test_runner_gets_the_arguments_as_one_dict() -> None:
    async def later(arguments: dict[str, Any]) -> Any:
        return arguments

    made, slow, given = (Tool.raw(NEUTRAL, run=lambda arguments: arguments), Tool.raw(NEUTRAL, run=later), {"b": "x"})
    assert slow.is_async
    for outcome in (made.run(given), asyncio.run(slow.arun(given))):  # type: ignore[arg-type]
        assert outcome == given and outcome is not given
    with pytest.raises(InvalidCall, match="must be a JSON object, not str"):
        made.run("{}")  # type: ignore[arg-type]


def test_without_a_runner_nothing_runs() -> None:
    made = Tool.raw(NEUTRAL)
    for act in (lambda: made.run({}), made, lambda: asyncio.run(made.arun({}))):  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="tool 'find' has nothing to run; give it run=…"):
            act()


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({}, 'a tool definition with the keys [] is in no known form: {"name", "description", "parameters"}, '),
        ({"type": "function", "function": None}, "a tool definition has no object under 'function'; known forms: "),
        ({**ANTHROPIC, "name": "a.b"}, "tool 'a.b': a name is 1 to 128 of"),
        ({**NEUTRAL, "strict": True}, "tool 'find': strict is unknown; a neutral definition has name, description, "),
        ({**ANTHROPIC, "input_schema": {"properties": {}}}, "tool 'find': its schema must be an object's: "),
        ({**NEUTRAL, "description": 3}, "tool 'find': its description must be text, not int"),
        (
            {**NEUTRAL, "parameters": {"type": "object", "x": {1}}},
            "tool 'find': set has no JSON form",
        ),
    ],
)
def test_error_says_what_is_wrong(definition: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidTool) as caught:
        Tool.raw(definition)
    assert str(caught.value).startswith(text)
