"""Every road to a tool asks one permit: a forbidden function never runs, an allowed one does, whoever calls it, under
whatever name, and whenever the tool came."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from contextkit import AnthropicMessages, Context, FileMemory, OpenAIChat, Phase, Phases, Tool
from contextkit.cache.usage import Usage
from contextkit.errors import InvalidCall
from contextkit.providers.late_tools import INLINE_TOOLS
from contextkit.providers.provider import Provider
from contextkit.tools.late import call_tool, tool_search
from tests.context.desk import Desk, asks, says
from tests.laws.wires import answer
from tests.scale import cases

USAGE = Usage(10, 0, 0, 0, 5)
PROVIDERS: dict[str, Callable[[], Provider]] = {
    "in band": lambda: AnthropicMessages("claude-opus-5-5", max_tokens=256, betas=[INLINE_TOOLS]),
    "in words": lambda: OpenAIChat("gpt-6.1-sol", max_tokens=256),
}
CALLS: dict[str, dict[str, Any]] = {"danger": {}, "call_tool": {"name": "danger", "arguments": {}}}
"""The tool that the model calls → arguments with which `danger` would run."""


class Tools:
    """`danger`, which comes late, and a tool that is there from the beginning; which of them ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.danger, self.notes = self.tool("danger"), self.tool("notes")
        self.head = [call_tool, self.notes]

    def tool(self, name: str) -> Tool:
        definition = {"name": name, "description": f"The tool {name}.", "parameters": {"type": "object"}}
        return Tool.raw(definition, run=lambda arguments: self.ran.append(name))


class State(NamedTuple):
    """What the table says of a tool that is not there yet."""

    phases: Phases | None
    entered: tuple[str, ...]
    is_allowed: bool


def only(**fields: Any) -> Phases:
    return Phases({"a": Phase(**fields)}, "a")


QUIET, LOUD = Phase(allow=["notes", "call_tool"]), Phase(allow=["danger", "call_tool"], by_hand=True)
TWO = Phases({"a": QUIET, "b": LOUD}, "a")
STATES = {
    "no phases": State(None, (), True),
    "every tool allowed": State(only(), (), True),
    "family allowed": State(only(allow=["dan*", "notes", "call_tool"]), (), True),
    "phase entered": State(TWO, ("b",), True),
    "phase not entered": State(TWO, (), False),
    "phase left": State(TWO, ("b", "a"), False),
    "family denied": State(only(deny=["d*"]), (), False),
    "name denied": State(only(deny=["danger"]), (), False),
    "allowed and denied": State(only(allow=["danger", "notes", "call_tool"], deny=["dang*"]), (), False),
}


class Session:
    """One conversation in which `danger` came late and the phases were entered."""

    def __init__(self, provider: str, state: State, folder: Path | None) -> None:
        self.provider, self.state, self.folder, self.tools = provider, state, folder, Tools()
        self.context = self.opened()
        self.begin()

    def opened(self) -> Context:
        options: dict[str, Any] = {"tools": self.tools.head, "phases": self.state.phases}
        provider = PROVIDERS[self.provider]()
        return Context(provider, **options) if self.folder is None else Context.open(self.folder, provider, **options)

    def begin(self) -> None:
        self.context.user("Go.")
        self.context.late_tools([self.tools.danger])
        for phase in self.state.entered:
            self.context.enter(phase)


def reopened(session: Session) -> list[Context]:
    session.context.close()
    session.context = session.opened()
    return [session.context]


def reopened_agent(session: Session) -> list[Context]:
    lanes = [agent.lane for agent in (session.context.spawn("x"), session.context.spawn("y"))]
    reopened(session)
    return [session.context.agent(lane) for lane in lanes]


def adopted(session: Session) -> list[Context]:
    provider = PROVIDERS[session.provider]()
    body = Context(provider, system="Be terse.", tools=session.tools.head).messages()
    body["messages"] = [{"role": "user", "content": "Go."}]
    session.context.close()
    session.context = Context.from_messages(provider, body, tools=session.tools.head, phases=session.state.phases)
    session.begin()
    return [session.context]


def switched(session: Session) -> list[Context]:
    other = next(name for name in PROVIDERS if name != session.provider)
    session.context.switch(PROVIDERS[other]())
    return [session.context]


def compacted(session: Session) -> list[Context]:
    session.context.compact("So far.")
    return [session.context]


def retooled(session: Session) -> list[Context]:
    session.context.retool([*session.tools.head, session.tools.danger])
    return [session.context]


def with_epoch(session: Session) -> list[Context]:
    provider = PROVIDERS[session.provider]()
    session.context.close()
    session.context = Context(provider, tools=[session.tools.notes], phases=session.state.phases)
    session.context.user("Go.")
    session.context.late_tools([session.tools.danger], allow_epoch=True)
    for phase in session.state.entered:
        session.context.enter(phase)
    return [session.context]


EVERY = Phases({"every": Phase()}, "every")
ROADS: dict[str, Callable[[Session], list[Context]]] = {
    "itself": lambda session: [session.context],
    "spawn": lambda session: [session.context.spawn("x")],
    "spawn with tools": lambda session: [session.context.spawn("x", tools=[session.tools.danger, *session.tools.head])],
    "spawn with phases": lambda session: [session.context.spawn("x", phases=EVERY)],
    "spawn with all": lambda session: [
        session.context.spawn("x", system="s", tools=[call_tool, session.tools.danger], phases=EVERY)
    ],
    "spawn_all": lambda session: list(session.context.spawn_all(["x", "y"])),
    "agent of an agent": lambda session: [session.context.spawn("x").spawn("y", phases=EVERY)],
    "fork": lambda session: [session.context.fork()],
    "fork of an agent": lambda session: [session.context.spawn("x").fork()],
    "fan_out": lambda session: list(session.context.fan_out(["x", "y"])),
    "agent of a branch": lambda session: [session.context.fan_out(1)[0].spawn("x")],
    "opened again": reopened,
    "agent opened again": reopened_agent,
    "from_messages": adopted,
    "switch": switched,
    "compact": compacted,
    "retool": retooled,
    "epoch for a late tool": with_epoch,
}


REOPENING = ("opened again", "agent opened again")


def make_call(context: Context, name: str) -> list[bool]:
    """Let the model call a tool, and the loop answer; whether each result is an error."""
    n = len(context.log)
    request = context.request()
    context.receive(answer(request.wire, f"r{n}", [("call", f"c{n}", name, CALLS[name])], USAGE), request)
    for call in context.calls:
        context.result(call, call.run())
    assert not context.calls
    return [json.loads(entry.body)["is_error"] for entry in context.log[n:] if entry.kind == "result"]


@pytest.mark.parametrize("road", ROADS)
def test_a_late_tool_runs_only_where_the_table_allows_it(road: str, tmp_path: Path) -> None:
    """Every provider with `--full`; by default each state and call with one of them, by turns."""
    by_turns = [
        (state, list(PROVIDERS)[n % len(PROVIDERS)], name) for n, (state, name) in enumerate(product(STATES, CALLS))
    ]
    for number, (state, provider, name) in enumerate(cases(by_turns, product(STATES, PROVIDERS, CALLS))):
        session = Session(provider, STATES[state], tmp_path / str(number) if road in REOPENING else None)
        ran = session.tools.ran
        for context in ROADS[road](session):
            is_declared = "danger" in context.toolbox.names
            if not is_declared:
                context.late_tools([session.tools.danger])
            [is_error] = make_call(context, name)
            through_nothing = name == "call_tool" and (is_declared or "call_tool" not in context.toolbox.names)
            is_allowed = STATES[state].is_allowed and not through_nothing  # the bridge is for late tools
            assert (ran, is_error) == ((["danger"], False) if is_allowed else ([], True)), (state, provider, name)
            ran.clear()
        session.context.close()


def _call_run(desk: Desk, context: Context) -> None:
    for call in context.calls:
        context.result(call, call.run())


def _tool_run(desk: Desk, context: Context) -> None:
    for call in context.calls:
        try:
            context.result(call, call.tool.run(call.arguments) if call.tool else None)
        except InvalidCall as refusal:
            context.result(call, refusal)


def _call_arun(desk: Desk, context: Context) -> None:
    for call in context.calls:
        context.result(call, asyncio.run(call.arun()))


def _run(desk: Desk, context: Context) -> None:
    with desk.client() as client:
        list(context.run(client, max_steps=1))


async def _arun(desk: Desk, context: Context) -> None:
    async with desk.async_client() as client:
        async for _ in context.arun(client, max_steps=1):
            pass


LOOPS: dict[str, Callable[[Desk, Context], None]] = {
    "call.run": _call_run,
    "call.tool.run": _tool_run,
    "call.arun": _call_arun,
    "run_calls": lambda desk, context: asyncio.run(context.run_calls()),
    "run": _run,
    "arun": lambda desk, context: asyncio.run(_arun(desk, context)),
}


@pytest.mark.parametrize(("loop", "name"), [*((loop, "danger") for loop in LOOPS), ("run_calls", "call_tool")])
@pytest.mark.parametrize("kind", ["stays", "leaves", "leaves and dies"])
def test_an_open_call_is_run_only_where_its_phase_is_still_the_present_one(
    loop: str, name: str, kind: str, claude: Desk, tmp_path: Path
) -> None:
    desk, session = claude, Tools()
    options: dict[str, Any] = {"tools": session.head, "phases": TWO, "clock": desk.server.clock.now}
    context = Context.open(tmp_path, desk.wire.provider(), **options)
    context.user("Go.")
    context.late_tools([session.danger])
    context.enter("b")
    desk.ask(context, asks((name, CALLS[name])))
    assert [call.refusal for call in context.calls] == [None]
    if kind != "stays":
        context.enter("a")
        assert [call.refusal is None for call in context.calls] == [False]
    if kind == "leaves and dies":
        context.close()
        context = Context.open(tmp_path, desk.wire.provider(), **options)
        context.late_tools([session.danger])
    desk.server.script([says("Done.")])
    LOOPS[loop](desk, context)
    assert session.ran == (["danger"] if kind == "stays" else []) and not context.calls
    context.close()


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("state", STATES)
def test_a_tool_that_a_search_found_runs_only_where_the_table_allows_it(state: str, provider: str) -> None:
    tools, (phases, entered, is_allowed) = Tools(), STATES[state]
    phases = phases and Phases(
        {name: Phase([*row.allow, "tool_search"], deny=row.deny, by_hand=True) for name, row in phases.table.items()},
        "a",
    )
    context = Context(PROVIDERS[provider](), tools=[*tools.head, tool_search([tools.danger])], phases=phases)
    context.user("Go.")
    for phase in entered:
        context.enter(phase)
    request = context.request()
    search = ("call", "s", "tool_search", {"query": "danger"})
    context.receive(answer(request.wire, "r", [search], USAGE), request)
    [call] = context.calls
    context.result(call, call.run())
    for name in CALLS:
        tools.ran.clear()
        assert make_call(context, name) == [not is_allowed]
        assert tools.ran == (["danger"] if is_allowed else [])


@pytest.mark.parametrize("deny", [["d*"], ["danger"]])
def test_what_a_caller_denies_before_it_comes_is_denied_to_its_agents_for_good(deny: list[str], tmp_path: Path) -> None:
    tools = Tools()
    options: dict[str, Any] = {"tools": tools.head, "phases": only(deny=deny)}
    context = Context.open(tmp_path, PROVIDERS["in words"](), **options)
    lane = context.spawn("x", phases=EVERY).lane
    context.close()
    context = Context.open(tmp_path, PROVIDERS["in words"](), **options)
    agent = context.agent(lane, phases=EVERY)
    for one in (agent, agent.fork(), agent.spawn("y", phases=EVERY)):
        one.late_tools([tools.danger])
        assert [make_call(one, name) for name in CALLS] == [[True], [True]]
    assert not tools.ran
    context.close()


def test_a_phase_that_names_a_tool_that_never_comes_is_reported_once(tmp_path: Path) -> None:
    table = Phases(
        {"a": Phase(allow=["call_tool", "mail_*"]), "b": Phase(allow=["dan*"], deny=["x_*"], by_hand=True)}, "a"
    )
    tools = Tools()
    with Context.open(tmp_path, PROVIDERS["in words"](), tools=tools.head, phases=table) as context:
        context.user("Go.")
        context.request()  # call_tool is there
        context.enter("b")
        with pytest.warns(UserWarning, match=r"phase 'b' allows only dan\*, and no tool with such a name has come"):
            context.request()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            context.request()
            context.fork().request()
            context.spawn("x").request()
    with Context.open(tmp_path / "other", PROVIDERS["in words"](), tools=tools.head, phases=table) as context:
        context.user("Go.")
        context.enter("b")
        context.late_tools([tools.danger])
        context.request()


@pytest.mark.parametrize("other", ["provider", "memory", "table"])
def test_an_open_call_is_open_whatever_the_conversation_is_opened_again_with(other: str, tmp_path: Path) -> None:
    tools, memory = Tools(), FileMemory(tmp_path / "memory")
    options: dict[str, Any] = {"phases": only(allow=["dan*"]), "tools": tools.head, "memory": memory}
    with Context.open(tmp_path / "run", PROVIDERS["in band"](), **options) as context:
        context.user("Go.")
        context.late_tools([tools.danger])
        request, called = context.request(), [("danger", {}), ("todo", {"action": "show"}), ("rm", {})]
        said = [("call", f"c{number}", *call) for number, call in enumerate(called)]
        context.receive(answer(request.wire, "r", said, USAGE), request)
        n, names = len(context.log), [call.name for call in context.calls]
        assert names == ["danger", "todo"]
    options |= {"memory": {"memory": None, "tools": None}, "table": {"phases": only(deny=["d*"])}}.get(other, {})
    provider = PROVIDERS["in band" if other == "table" else "in words"]()
    with Context.open(tmp_path / "run", provider, **options) as context:
        assert [call.name for call in context.calls] == names
        assert not [entry for entry in context.log[n:] if entry.kind == "result"]
        if other == "table":
            asyncio.run(context.run_calls())
            assert not tools.ran and not context.calls


def test_a_sub_agent_that_entered_no_phase_before_a_crash_is_denied_what_it_was(tmp_path: Path) -> None:
    tools = Tools()
    options: dict[str, Any] = {"tools": [*tools.head, tools.danger], "phases": only(deny=["d*"])}
    with Context.open(tmp_path / "run", PROVIDERS["in words"](), **options) as context:
        lane = context.spawn("x", phases=EVERY).lane
    first, *_ = (tmp_path / "run" / "agents" / lane / "log.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "log.jsonl").write_bytes(first)
    with Context.open(tmp_path / "agent", PROVIDERS["in words"](), tools=options["tools"]) as agent:
        agent.user("Go.")
        assert [make_call(agent, name) for name in CALLS] == [[True], [True]]
    assert not tools.ran
