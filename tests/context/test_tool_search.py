"""Tools that a search of the program finds: the model asks, what is found stands behind the question, and the head
never moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses, Tool, Toolbox, tool
from contextkit.canonical import parse
from contextkit.providers.late_tools import SEARCHES, searching
from contextkit.providers.masking import Endpoint
from contextkit.providers.provider import Provider
from contextkit.server import LocalServer
from contextkit.tools.late import call_tool, tool_search
from contextkit.tools.phases import Phase, Phases
from tests.context.desk import WIRES, Desk, asks, honest, says
from tests.context.head import SYSTEM, add, forecast, weather
from tests.providers.strict import faults


@tool(format="text")
def note(text: str) -> str:
    """Write something down."""
    return f"noted {text}"


SEARCH = tool_search([weather, forecast, note])
FINDS = asks(("tool_search", {"query": "weather"}))


@pytest.fixture
def desk(running: LocalServer) -> Desk:
    running.reset()
    return Desk(WIRES["responses"], running)


def begun(desk: Desk, model: str = "gpt-6.1-sol", **options: Any) -> Context:
    given = {"system": SYSTEM, "tools": [add, SEARCH], "clock": desk.server.clock.now, **options}
    context = Context(OpenAIResponses(model, max_output_tokens=1024), **given)
    context.user("What will it be like in Ghent?")
    return context


def answer_all(context: Context) -> None:
    for call in context.calls:
        context.result(call, call.run())


@pytest.mark.parametrize("model", ["gpt-5.4", "gpt-6.1-sol"])
def test_what_is_found_is_an_item_behind_the_question_and_can_be_called(desk: Desk, model: str) -> None:
    context = begun(desk, model)
    first = desk.ask(context, FINDS)
    assert [(call.name, call.arguments) for call in context.calls] == [
        ("tool_search", {"query": "weather"})
    ] and not context.finished
    answer_all(context)
    second = desk.ask(context, asks(("weather", {"city": "Ghent"})))
    made, found = second["input"][-2:]
    assert (made["type"], found["type"], found["call_id"], found["execution"]) == (
        "tool_search_call",
        "tool_search_output",
        made["call_id"],
        "client",
    )
    assert [(one["name"], one["defer_loading"]) for one in found["tools"]] == [("weather", True), ("forecast", True)]
    assert [call.run() for call in context.calls] == ["rain in Ghent"]
    answer_all(context)
    third = desk.ask(context, says("Rain."))
    assert [definition.get("name", definition["type"]) for definition in third["tools"]] == ["add", "tool_search"]
    wires = [bytes(request.layout.columns.wire[: request.layout.n_bytes]) for request in (first, second, third)]
    assert wires[1].startswith(wires[0]) and wires[2].startswith(wires[1])
    for request in (first, second, third):
        assert faults(ResponseCreateParamsNonStreaming, parse(request.body)) == []
    honest(desk, context)
    assert context.finished


def test_a_search_arrives_in_a_stream_too(desk: Desk) -> None:
    context = begun(desk)
    desk.server.script([FINDS])
    with desk.client() as client:
        for _ in context.stream(context.request().stream(client)):
            pass
    assert [call.name for call in context.calls] == ["tool_search"]
    answer_all(context)
    assert context.request()["input"][-1]["type"] == "tool_search_output"


def test_what_finds_nothing_or_fails_is_answered_with_no_tools(desk: Desk) -> None:
    def broken(query: str, catalogue: Toolbox) -> list[str]:
        raise OSError("the index is gone")

    context = begun(desk, tools=[tool_search([weather], find=broken)])
    desk.ask(context, FINDS)
    answer_all(context)
    told = context.request()["input"][-1]
    assert (told["tools"], told["status"]) == ([], "incomplete")
    desk.ask(context, asks(("tool_search", {"query": "trains"})))
    context.result(context.calls[0], SEARCH.run({"query": "trains"}))
    told = context.request()["input"][-1]
    assert (told["tools"], told["status"]) == ([], "completed")


def test_a_conversation_that_is_opened_again_knows_what_was_found(desk: Desk, tmp_path: Path) -> None:
    with desk.open(tmp_path, tools=[add, SEARCH]) as context:
        context.user("What will it be like?")
        desk.ask(context, FINDS)
        answer_all(context)
        desk.ask(context, asks(("weather", {"city": "Ghent"})))
    with desk.open(tmp_path, tools=[add, SEARCH]) as again:
        assert [call.run() for call in again.calls] == ["rain in Ghent"]


def test_a_body_that_holds_a_search_is_adopted_and_goes_on(desk: Desk) -> None:
    context = begun(desk)
    desk.ask(context, FINDS)
    answer_all(context)
    desk.ask(context, asks(("weather", {"city": "Ghent"})))
    answer_all(context)
    body = parse(context.request().body)
    adopted = Context.from_messages(OpenAIResponses("gpt-6.1-sol", max_output_tokens=1024), body, tools=[add, SEARCH])
    assert adopted.request()["input"] == body["input"]
    desk.ask(adopted, asks(("forecast", {"city": "Ghent"}), ("weather", {"city": "Ghent"})))
    assert [call.tool is not None for call in adopted.calls] == [True, True]


def test_phases_hold_for_what_was_found(desk: Desk) -> None:
    phases = Phases(
        {"look": Phase(allow=["sky_*", "tool_search"], then={"sky_now": "calm"}), "calm": Phase(allow=["add"])},
        start="look",
    )
    now, later = ({"name": name, "description": "The sky."} for name in ("sky_now", "sky_later"))
    tools = [
        add,
        Tool.raw(now, run=lambda arguments: "blue"),
        tool_search([Tool.raw(later, run=lambda arguments: "grey")]),
    ]
    context = begun(desk, tools=tools, phases=phases)
    desk.ask(context, asks(("tool_search", {"query": "sky"})))
    answer_all(context)
    asked = desk.ask(context, asks(("sky_later", {}), ("sky_now", {})))
    allowed = [
        {"type": "function", "name": "sky_now"},
        {"type": "tool_search"},
        {"type": "function", "name": "sky_later"},
    ]
    assert sorted(asked["tool_choice"]["tools"], key=str) == sorted(allowed, key=str)
    assert [call.run() for call in context.calls] == ["grey", "blue"]
    answer_all(context)
    assert context.phase == "calm"
    desk.ask(context, asks(("sky_later", {})))
    assert not context.calls and parse(context.log[-1].body)["is_error"]


@pytest.mark.parametrize("is_kept", [False, True], ids=["compacted away", "kept"])
def test_what_was_found_stays_as_long_as_its_definition_does(desk: Desk, is_kept: bool) -> None:
    phases = Phases({"all": Phase(allow=["sky_*", "tool_search"])}, start="all")
    tools = [
        add,
        Tool.raw({"name": "sky_now"}),
        tool_search([Tool.raw({"name": "sky_later"}, run=lambda arguments: "grey")]),
    ]
    context = begun(desk, tools=tools, phases=phases)
    asked = context.log[-1]
    desk.ask(context, asks(("tool_search", {"query": "sky"})))
    answer_all(context)
    desk.ask(context, says("Found."))
    context.compact("What was said.", keep_from=asked if is_kept else None)
    context.user("And now?")
    request = desk.ask(context, asks(("sky_later", {})))
    names = [tool.get("name") for tool in request["tool_choice"]["tools"]]
    assert (
        ("sky_later" in names) is ("tool_search_output" in [item.get("type") for item in request["input"]]) is is_kept
    )
    assert ([call.run() for call in context.calls] == ["grey"]) is is_kept
    before, behind = context.fork(asked), context.fork(next(entry for entry in context.log if entry.kind == "result"))
    named = [str(branch.request()["tool_choice"]["tools"]) for branch in (before, behind)]
    assert ["sky_later" in names for names in named] == [False, True]


@pytest.mark.parametrize(
    ("wire", "provider"),
    [
        ("chat", lambda: OpenAIChat("gpt-6.1-sol", max_tokens=1024)),
        ("responses", lambda: OpenAIResponses("gpt-5.2", max_output_tokens=1024)),
        ("anthropic", lambda: AnthropicMessages("claude-sonnet-5-5", max_tokens=1024)),
    ],
)
def test_elsewhere_the_search_is_a_function_and_the_bridge_calls_what_it_found(
    wire: str, provider: Callable[[], Provider], running: LocalServer
) -> None:
    running.reset()
    desk = Desk(WIRES[wire], running)
    made = provider()
    assert searching(Endpoint(made.wire, made.model)) is SEARCHES[1]
    context = Context(made, system=SYSTEM, tools=[SEARCH, call_tool], clock=running.clock.now)
    context.user("What will it be like?")
    desk.ask(context, FINDS)
    answer_all(context)
    said = str(context.request()["input" if wire == "responses" else "messages"][-1])
    assert "call_tool" in said and "The weather in a city." in said
    desk.ask(context, asks(("call_tool", {"name": "weather", "arguments": {"city": "Ghent"}})))
    assert [call.run() for call in context.calls] == ["rain in Ghent"]
    answer_all(context)
    desk.ask(context, says("Rain."))
    honest(desk, context)
