"""Tools that are called with text: custom tools where the provider has them, functions of one text elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAICompatible, OpenAIResponses, Tool, tool
from contextkit.canonical import parse
from contextkit.errors import InvalidCall, InvalidTool
from contextkit.providers.provider import Provider
from contextkit.server import LocalServer
from contextkit.tools.phases import Phase, Phases
from contextkit.tools.signature import Grammar
from tests.context.desk import WIRES, Desk, honest, says
from tests.context.head import SYSTEM, add
from tests.providers.strict import faults

SELECT = 'start: "SELECT " /[a-z]+/'


@tool(format=Grammar.lark(SELECT))
def query(statement: str) -> str:
    """Ask the database.

    Args:
        statement: One statement.
    """
    return f"rows of {statement}"


@tool(format="text")
async def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


@tool(format=Grammar.regex(r"\d{4}"))
def year(text: str) -> str:
    """Look at a year."""
    return text


@dataclass(frozen=True)
class Road:
    """An endpoint, and how it takes a tool that is called with text."""

    wire: str
    provider: Callable[[], Provider]
    kind: str
    params: Any


ROADS = {
    "chat": Road("chat", lambda: OpenAIChat("gpt-6.1-sol"), "custom", CompletionCreateParamsNonStreaming),
    "responses": Road("responses", lambda: OpenAIResponses("gpt-5.2"), "custom", ResponseCreateParamsNonStreaming),
    "old chat": Road("chat", lambda: OpenAIChat("gpt-4o"), "function", CompletionCreateParamsNonStreaming),
    "old responses": Road("responses", lambda: OpenAIResponses("o3"), "function", ResponseCreateParamsNonStreaming),
    "claude": Road(
        *("anthropic", lambda: AnthropicMessages("claude-opus-5-5", max_tokens=1024), "function"),
        MessageCreateParamsNonStreaming,
    ),
}


@pytest.fixture(params=ROADS)
def road(request: pytest.FixtureRequest) -> Road:
    return ROADS[request.param]


@pytest.fixture
def desk(road: Road, running: LocalServer) -> Desk:
    running.reset()
    return Desk(WIRES[road.wire], running)


def calls(road: Road, name: str, parameter: str, text: str) -> Any:
    arguments = text if road.kind == "custom" else {parameter: text}
    return {"parts": [{"type": "call", "name": name, "arguments": arguments}]}


def begun(road: Road, desk: Desk, **options: Any) -> Context:
    given = {"system": SYSTEM, "tools": [add, query, note, year], "clock": desk.server.clock.now, **options}
    context = Context(road.provider(), **given)
    context.user("Which rows?")
    return context


def spelled(definition: Any) -> tuple[str, Any]:
    """Type and format of a tool as it is sent."""
    kind = definition.get("type", "function")
    return kind if kind == "custom" else "function", definition.get("custom", definition).get("format")


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_the_call_arrives_as_text_and_its_answer_goes_back(road: Road, desk: Desk, is_streamed: bool) -> None:
    context = begun(road, desk)
    if is_streamed:
        desk.server.script([calls(road, "query", "statement", "SELECT a")])
        with desk.client() as client:
            for _ in context.stream(context.request().stream(client)):
                pass
    else:
        desk.ask(context, calls(road, "query", "statement", "SELECT a"))
    assert context.stop == "calls"
    [call] = context.calls
    assert call.run() == "rows of SELECT a"
    context.result(call, call.run())
    request = desk.ask(context, says("Those."))
    body = parse(request.body)
    assert faults(road.params, body) == []
    if road.wire == "responses":
        kinds = [item["type"] for item in body["input"][-2:]]
        assert kinds == (
            ["custom_tool_call", "custom_tool_call_output"]
            if road.kind == "custom"
            else ["function_call", "function_call_output"]
        )
    honest(desk, context)


def test_each_endpoint_is_told_the_format_in_its_words(road: Road, desk: Desk) -> None:
    sent = [spelled(definition) for definition in begun(road, desk).request()["tools"][1:]]
    if road.kind == "function":
        assert sent == [("function", None)] * 3
        assert SELECT in str(begun(road, desk).request()["tools"][1])
        return
    written = [{"syntax": "lark", "definition": SELECT}, None, {"syntax": "regex", "definition": r"\d{4}"}]
    nests = road.wire == "chat"
    expected = [
        {"type": "text"} if one is None else {"type": "grammar", **({"grammar": one} if nests else one)}
        for one in written
    ]
    assert sent == [("custom", one) for one in expected]


def test_a_mask_names_it_as_what_it_is(road: Road, desk: Desk) -> None:
    table = {
        "ask": Phase(allow=["query", "add"], then={"query": "write"}),
        "write": Phase(allow=["note"], require=True),
    }
    phases = Phases(table, start="ask")
    context = begun(road, desk, phases=phases)
    request = desk.ask(context, calls(road, "query", "statement", "SELECT a"))
    for call in context.calls:
        context.result(call, call.run())
    assert context.phase == "write"
    named = {"chat": {road.kind: {"name": "query"}}, "responses": {"name": "query"}}.get(road.wire)
    choice = parse(request.body).get("tool_choice", {})
    listed = choice.get("allowed_tools", choice).get("tools", [])
    assert ({"type": road.kind, **named} in listed) if named else not listed
    assert faults(road.params, parse(desk.ask(context, calls(road, "note", "text", "done")).body)) == []


def test_its_body_is_adopted_and_goes_on(road: Road, desk: Desk) -> None:
    context = begun(road, desk)
    desk.ask(context, calls(road, "query", "statement", "SELECT a"))
    context.result(context.calls[0], "rows")
    body = parse(context.request().body)
    adopted = Context.from_messages(road.provider(), body, tools=[query, note, year])
    field = "input" if road.wire == "responses" else "messages"
    assert (
        adopted.request()[field] == context.request()[field]
        and adopted.request()["tools"] == context.request()["tools"]
    )
    desk.ask(adopted, calls(road, "query", "statement", "SELECT b"))
    assert [call.run() for call in adopted.calls] == ["rows of SELECT b"]


@pytest.mark.parametrize("road", ["chat", "responses"], indirect=True)
def test_a_conversation_switched_to_a_model_without_them_tells_the_call_as_a_function(desk: Desk, road: Road) -> None:
    context = begun(road, desk)
    desk.ask(context, calls(road, "query", "statement", "SELECT a"))
    context.result(context.calls[0], "rows")
    for provider, params in (
        (AnthropicMessages("claude-opus-5-5", max_tokens=1024), MessageCreateParamsNonStreaming),
        (OpenAIChat("gpt-4o"), CompletionCreateParamsNonStreaming),
    ):
        context.switch(provider)
        assert faults(params, parse(context.request().body)) == []


def test_other_hosts_models_take_a_function() -> None:
    context = Context(OpenAICompatible("Qwen/Qwen3-8B", host="vllm", max_tokens=64), tools=[query])
    context.user("Which rows?")
    [definition] = context.request()["tools"]
    assert definition["type"] == "function" and definition["function"]["parameters"]["required"] == ["statement"]


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses"])
def test_a_custom_tool_written_by_hand_runs_on_its_text(wire: str) -> None:
    inside = {"name": "sql", "format": {"type": "text"}}
    block = {"type": "custom", "custom": inside} if wire == "openai_chat" else {"type": "custom", **inside}
    assert Tool.raw(block, run=lambda arguments: arguments["input"]).run("SELECT a") == "SELECT a"


def test_a_definition_with_a_format_is_read_back_as_it_was() -> None:
    assert Tool.raw(query.definition).body == query.body
    with pytest.raises(InvalidTool, match="format"):
        Tool.raw({**query.definition, "format": {"type": "grammar", "syntax": "lark"}})


def test_what_cannot_be_called_with_text_is_refused_where_it_is_made() -> None:
    def two(a: str, b: str) -> str:
        """Two."""
        return a + b

    def number(a: int) -> int:
        """One number."""
        return a

    for function in (two, number):
        with pytest.raises(InvalidTool, match="one parameter of type str"):
            tool(format="text")(function)
    with pytest.raises(InvalidTool, match="lark or regex"):
        Grammar("peg", "a")
    with pytest.raises(InvalidTool, match="lark or regex"):
        Grammar.lark("  ")


@pytest.mark.parametrize("torn", ['{"statement": "DROP', '{ "statement":"SELECT a"}'])
def test_arguments_that_arrive_as_text_are_not_run_as_the_text(torn: str) -> None:
    with pytest.raises(InvalidCall, match="call it again"):
        query.run(torn)
    assert query.run('{"other": 1}') == 'rows of {"other": 1}'
    assert asyncio.run(note.arun('{"not": "json for us"}')) == 'noted {"not": "json for us"}'
