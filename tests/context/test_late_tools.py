"""Tools that come late: the head never moves, every provider takes what is sent, and a conversation that is opened
again knows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses, Tool, Toolbox, tool
from contextkit.canonical import parse
from contextkit.errors import InvalidTool, UsageError
from contextkit.providers.late_tools import ANNOUNCINGS, INLINE_TOOLS
from contextkit.providers.provider import Provider
from contextkit.server import LocalServer
from contextkit.tools.late import call_tool, deferred, tool_references
from tests.context.desk import WIRES, Desk, asks, says
from tests.context.head import SYSTEM, add, forecast, weather
from tests.providers.strict import faults


@dataclass(frozen=True)
class Road:
    """One row of the table, as a user comes to it."""

    wire: str
    provider: Callable[[], Provider]
    announcing: str
    params: Any

    @property
    def is_direct(self) -> bool:
        return not self.announcing.startswith("bridge")


ROADS = {
    "inline": Road(
        *("anthropic", lambda: AnthropicMessages("claude-opus-5-5", max_tokens=1024, betas=[INLINE_TOOLS])),
        *("tool_addition", MessageCreateParamsNonStreaming),
    ),
    "system": Road(
        *("anthropic", lambda: AnthropicMessages("claude-sonnet-5-5", max_tokens=1024)),
        *("bridge_system", MessageCreateParamsNonStreaming),
    ),
    "claude": Road(
        *("anthropic", lambda: AnthropicMessages("claude-opus-4-5", max_tokens=1024)),
        *("bridge", MessageCreateParamsNonStreaming),
    ),
    "responses": Road(
        *("responses", lambda: OpenAIResponses("gpt-6.1-sol")), *("additional_tools", ResponseCreateParamsNonStreaming)
    ),
    "older": Road("responses", lambda: OpenAIResponses("gpt-5.4"), "bridge", ResponseCreateParamsNonStreaming),
    "chat": Road("chat", lambda: OpenAIChat("gpt-6.1-sol"), "bridge", CompletionCreateParamsNonStreaming),
}


@pytest.fixture(params=ROADS)
def road(request: pytest.FixtureRequest) -> Road:
    return ROADS[request.param]


@pytest.fixture
def desk(road: Road, running: LocalServer) -> Desk:
    running.reset()
    return Desk(WIRES[road.wire], running)


def begun(road: Road, desk: Desk, *said: str, **options: Any) -> Context:
    made = Context(
        road.provider(),
        system=SYSTEM,
        tools=options.pop("tools", [add, call_tool]),
        clock=desk.server.clock.now,
        **options,
    )
    for text in said:
        made.user(text)
    return made


def call_of(road: Road, name: str, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """How a model calls a late tool on this road."""
    return (name, arguments) if road.is_direct else ("call_tool", {"name": name, "arguments": arguments})


def head_of(request: Any) -> bytes:
    n = request.layout.columns.level_ends[1]
    return bytes(request.layout.columns.wire[: request.layout.columns.ends[n - 1]])


@pytest.mark.parametrize("road", ["inline", "system", "responses", "chat"], indirect=True)
def test_the_head_never_moves_and_the_hit_rate_stays(road: Road, desk: Desk, request: pytest.FixtureRequest) -> None:
    n_turns, n_words, first, second = (30, 20, 9, 20) if request.config.getoption("--full") else (12, 60, 4, 8)
    rates = {}
    for has_late in (False, True):
        desk.server.reset()
        context, heads, before = begun(road, desk), set(), b""
        for turn in range(n_turns):
            context.user(f"Question {turn}. " * n_words)
            if has_late and turn in (first, second):
                context.late_tools([weather] if turn == first else [weather, forecast])
            name = (
                call_of(road, "weather", {"city": "Ghent"})
                if has_late and turn >= first
                else ("add", {"a": 1, "b": turn})
            )
            for script in (asks(name), says(f"Answer {turn}. " * 20)):
                sent = desk.ask(context, script)
                whole = bytes(sent.layout.columns.wire[: sent.layout.n_bytes])
                assert whole.startswith(before)
                heads.add(head_of(sent))
                before = whole
                assert faults(road.params, parse(sent.body)) == []
                for call in context.calls:
                    context.result(call, call.run())
        assert len(heads) == 1
        assert [entry.kind for entry in context.log].count("tools") == (2 if has_late else 0)
        rates[has_late] = context.summary().hit_rate
    assert rates[True] == pytest.approx(rates[False], abs=0.005), rates


def test_what_each_provider_is_told(road: Road, desk: Desk) -> None:
    context = begun(road, desk, "one")
    context.late_tools([weather])
    assert road.provider().announcing == road.announcing
    body = parse(context.request().body)
    said = body.get("input", body.get("messages"))[-1]
    told = {
        "tool_addition": lambda: (
            said["role"] == "system" and said["content"][0]["tool"]["definition"]["input_schema"] == weather.parameters
        ),
        "additional_tools": lambda: (said["type"], said["tools"][0]["name"]) == ("additional_tools", "weather"),
        "bridge_system": lambda: (
            said["role"] == "system" and '{"name":"weather","description"' in said["content"][0]["text"]
        ),
        "bridge": lambda: said["role"] == "user" and '{"name":"weather","description"' in said["content"][-1]["text"],
    }
    assert told[road.announcing]()
    assert [definition for definition in body["tools"] if "weather" in str(definition)] == []


def test_a_tool_that_comes_between_turns_waits_for_the_user(road: Road, desk: Desk) -> None:
    context = begun(road, desk, "one")
    desk.ask(context, asks(("add", {"a": 1, "b": 2})))
    context.late_tools([weather])
    context.result(context.calls[0], 3)
    desk.ask(context, says("3"))
    context.late_tools([forecast])
    finished = context.finished
    context.user("two")
    context.notice("It is late.")
    request = desk.ask(context, says("ok"))
    assert finished
    assert [request.layout.columns.entries[i] for i in range(request.layout.n)][-1] == context.late_tools(
        [forecast]
    ).sequence
    context.user("three")
    desk.ask(context, says("ok"))
    assert not [call.error for call in desk.server.ledger if call.error]


@pytest.mark.parametrize("road", ["inline", "chat"], indirect=True)
def test_what_cannot_be_called_is_answered_and_kept(road: Road, desk: Desk) -> None:
    context = begun(road, desk, "one")
    context.late_tools([weather])
    misspelt, unfit = call_of(road, "wether", {"city": "Ghent"}), call_of(road, "weather", {"town": "Ghent"})
    desk.ask(context, asks(misspelt, unfit, ("call_tool", {"name": "weather", "arguments": "x"})))
    for call in context.calls:
        context.result(call, call.run())
    answers = [parse(entry.body) for entry in context.log if entry.kind == "result"]
    assert all(answer["is_error"] for answer in answers)
    texts = [answer["content"][0]["text"] for answer in answers]
    assert "'wether'" in texts[0] and "city" in texts[1] and "must be a JSON object" in texts[2]
    desk.ask(context, says("sorry"))


@pytest.mark.parametrize("road", ["inline", "responses", "chat"], indirect=True)
def test_a_conversation_opened_again_has_them(road: Road, desk: Desk, tmp_path: Path) -> None:
    given = {"system": SYSTEM, "tools": [add, call_tool], "clock": desk.server.clock.now}
    with Context.open(tmp_path, road.provider(), **given) as context:
        context.user("one")
        entry = context.late_tools([weather, forecast])
        body = context.request().body
    with Context.open(tmp_path, road.provider(), **given) as context:
        assert context.request().body == body
        called = ("weather", {"city": "Ghent"}), ("forecast", {"city": "Bruges", "days": 2})
        desk.ask(context, asks(*(call_of(road, *call) for call in called)))
        n = len(context.log)
    with Context.open(tmp_path, road.provider(), **given) as context:
        assert context.late_tools([weather, forecast]) == entry and len(context.log) == n
        asyncio.run(context.run_calls())
        said = [parse(entry.body)["content"][0]["text"] for entry in context.log if entry.kind == "result"]
        assert sorted(said) == ["rain in Ghent", "sun in Bruges after 2"]


def test_compaction_tells_them_again_and_a_new_tool_set_takes_them_out(road: Road, desk: Desk) -> None:
    context = begun(road, desk, "one")
    context.late_tools([weather])
    desk.ask(context, says("ok"))
    context.compact("They said ok.")
    context.user("two")
    request = desk.ask(context, asks(call_of(road, "weather", {"city": "Ghent"})))
    assert b"weather" in request.body and [call.run() for call in context.calls] == ["rain in Ghent"]
    context.interrupt("enough")
    context.retool([add, call_tool])
    context.user("three")
    assert weather.body not in context.request().body and b'"days"' not in context.request().body
    assert [entry.kind for entry in context.log].count("tools") == 2
    context.late_tools([weather])
    desk.ask(context, says("ok"))


@pytest.mark.parametrize("road", ["inline", "chat"], indirect=True)
def test_what_may_not_join(road: Road, desk: Desk) -> None:
    context = begun(road, desk, "one")
    context.late_tools([weather])
    n = len(context.log)
    other = Tool.raw(
        {"name": "weather", "description": "Otherwise.", "parameters": {"type": "object", "properties": {}}}
    )
    with pytest.raises(InvalidTool, match="'weather' was announced by entry 2 with another definition"):
        context.late_tools([other])
    with pytest.raises(InvalidTool, match="'add' stands in the head already"):
        context.late_tools([add])
    with pytest.raises(UsageError, match="no tools were given"):
        context.late_tools([])
    with pytest.raises(InvalidTool, match="two tools are named 'forecast'"):
        context.late_tools([forecast, forecast])
    if not road.is_direct:
        with pytest.raises(InvalidTool, match="runs at its own provider only"):
            context.late_tools([{"type": "web_search_20250305", "name": "web_search"}])
    assert len(context.log) == n


@pytest.mark.parametrize("road", ["inline", "chat"], indirect=True)
def test_without_a_bridge_the_choices_are_said_and_an_epoch_has_its_price(road: Road, desk: Desk) -> None:
    context = begun(road, desk, "one", tools=[add])
    desk.ask(context, says("ok"))
    if road.is_direct:
        assert context.late_tools([weather]).kind == "tools"
        return
    with pytest.raises(
        UsageError,
        match=r"Begin with tools=\[…, call_tool\].*or pass allow_epoch=True to pay for the whole prompt once",
    ):
        context.late_tools([weather])
    price = context.request().predicted.prompt
    entry = context.late_tools([weather], allow_epoch=True)
    assert entry.kind == "epoch" and parse(entry.body)["rewrites_tokens"] == price
    context.user("two")
    desk.ask(context, asks(("weather", {"city": "Ghent"})))
    assert [call.run() for call in context.calls] == ["rain in Ghent"]


def test_a_deferred_tool_is_declared_for_nothing_and_loaded_by_a_search(running: LocalServer) -> None:
    running.reset()
    desk = Desk(WIRES["anthropic"], running)
    later = deferred([weather, forecast], "anthropic_messages")
    catalogue = Toolbox(later)

    @tool
    def find_tools(query: str) -> list[dict[str, Any]]:
        """Find tools by what they do."""
        return tool_references(
            catalogue, [one.name for one in catalogue if query in one.definition["native"]["block"]["description"]]
        )

    plain, context = (desk.context("one", tools=[add, find_tools, *more]) for more in ([], later))
    assert context.request().predicted.prompt == plain.request().predicted.prompt
    desk.ask(context, asks(("find_tools", {"query": "to come"})))
    for call in context.calls:
        context.result(call, call.run())
    request = desk.ask(context, asks(("forecast", {"city": "Ghent"})))
    assert b'{"type":"tool_reference","tool_name":"forecast"}' in request.body
    assert faults(MessageCreateParamsNonStreaming, parse(request.body)) == []
    assert asyncio.run(context.calls[0].arun()) == "sun in Ghent after 1"
    with pytest.raises(InvalidTool, match="'add' is not a deferred one"):
        tool_references(Toolbox([add, *later]), ["add"])
    with pytest.raises(UsageError, match="openai_chat cannot defer a tool"):
        deferred([weather], "openai_chat")


def test_every_row_of_the_table_is_on_its_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "tools.md").read_text(encoding="utf-8")
    for row in ANNOUNCINGS:
        assert (
            f"| `{row.name}` | {', '.join(f'`{wire}`' for wire in row.wires)} | {row.needs} | {row.cost} | {row.calls} |"
            in page
        )
