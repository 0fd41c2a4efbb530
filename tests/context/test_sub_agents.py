"""Sub-agents: never allowed more than their caller, with a plan, a log and a lane of their own, and open again after a
crash."""

from __future__ import annotations

import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import (
    AgentLimits,
    AnthropicMessages,
    Budget,
    Compaction,
    Context,
    FileMemory,
    Ledger,
    Log,
    OpenAIResponses,
    Phase,
    Phases,
    Tool,
)
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.context.agents import read_state
from contextkit.errors import BudgetExceeded, LogLocked, StorageError, UsageError
from contextkit.memory import Memory, Residency
from contextkit.tools.late import call_tool, tool_search
from tests.laws.wires import PROVIDERS, answer
from tests.scale import n_examples

USAGE = Usage(10, 0, 0, 0, 5)
NAMES = ("read_page", "write_page", "deploy", "notes")


class Runs:
    """Tools that remember who ran."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def tool(self, name: str) -> Tool:
        def run(arguments: Any) -> str:
            self.names.append(name)
            return f"{name} ran"

        return Tool.raw({"name": name, "description": f"{name}.", "parameters": {"type": "object"}}, run=run)

    def tools(self, names: Any = NAMES) -> list[Tool]:
        return [self.tool(name) for name in names]


TABLE = Phases(
    {
        "read": Phase(allow=["read_page", "notes"], then={"read_page:ok": "write"}),
        "write": Phase(allow=["read_page", "write_page", "notes"]),
        "ship": Phase(allow=["*"], by_hand=True),
    },
    start="read",
)


def provider() -> Any:
    return AnthropicMessages("claude-sonnet-5-5", max_tokens=256)


def make_call(context: Context, name: str, arguments: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Let the model call a tool and the loop answer; the results."""
    n = len(context.log)
    if not any(entry.kind == "user" for entry in context.log) or context.stop == "done":
        context.user("Go on.")
    context.receive(
        answer(
            context.provider.wire, f"reply-{context.lane}-{n}", [("call", f"call_{n}", name, arguments or {})], USAGE
        ),
        context.request(),
    )
    for call in context.calls:
        context.result(call, call.run())
    return [parse(entry.body) for entry in context.log[n:] if entry.kind == "result"]


# Item 1: the mask
# -----------------------------------------------------------------------------------------------------------


def test_what_a_caller_enters_later_does_not_reach_its_sub_agents() -> None:
    runs = Runs()
    context = Context(provider(), tools=runs.tools(), phases=TABLE)
    early = context.spawn("Look.")
    context.enter("ship")
    late = context.spawn("Ship.")
    assert make_call(early, "deploy")[0]["is_error"] and not make_call(late, "deploy")[0]["is_error"]
    assert runs.names == ["deploy"]
    make_call(early, "read_page")
    assert early.phase == "write"  # it moves on in the table it inherited, and stays below its caller
    assert early.request().mask.allowed == ("read_page", "notes")
    early.enter("ship")
    assert early.request().mask.allowed == ("read_page", "notes")


def test_a_tool_the_caller_does_not_have_is_given_to_the_sub_agent() -> None:
    runs = Runs()
    context = Context(provider(), tools=runs.tools(), phases=TABLE)
    child = context.spawn("Sum up.", tools=runs.tools(["sum_up", "deploy"]))
    grandchild = child.spawn("Sum up this.", tools=runs.tools(["deploy", "sum_up", "other"]))
    for agent in (child, grandchild):
        assert not make_call(agent, "sum_up")[0]["is_error"] and make_call(agent, "deploy")[0]["is_error"]
    assert runs.names == ["sum_up", "sum_up"]
    with_own = child.spawn("Sum up.", tools=runs.tools(["deploy", "sum_up"]), phases=Phases({"a": Phase()}, "a"))
    assert with_own.request().mask.allowed == ("sum_up",)


def test_a_sub_agent_does_not_reach_a_denied_tool_through_a_search() -> None:
    runs = Runs()
    phases = Phases({"a": Phase(allow=["notes"])}, "a")
    context = Context(OpenAIResponses("gpt-6.1-sol"), tools=[*runs.tools(["deploy", "notes"])], phases=phases)
    finder = context.spawn("x", tools=[tool_search(runs.tools(["deploy"])), *runs.tools(["notes"])])
    make_call(finder, "tool_search", {"query": "deploy"})
    assert make_call(finder, "deploy")[0]["is_error"] and runs.names == []


names = st.sampled_from(NAMES)
patterns = st.lists(names | st.just("*"), max_size=3, unique=True)


@st.composite
def tables(draw: st.DrawFn) -> Phases:
    """Some phases, each of which a hand may enter; a call may lead to another."""
    n = draw(st.integers(1, 3))
    table = {}
    for number in range(n):
        allow, deny = draw(patterns), draw(st.lists(names, max_size=2, unique=True))
        allowed = [name for name in NAMES if (name in allow or "*" in allow) and name not in deny]
        then = {name: f"p{draw(st.integers(0, n - 1))}" for name in allowed if draw(st.booleans())}
        table[f"p{number}"] = Phase(allow=allow, deny=deny, then=then, by_hand=True)
    return Phases(table, draw(st.sampled_from(sorted(table))))


@given(st.data())
@settings(max_examples=n_examples(12, 500), deadline=None)
def test_no_descendant_runs_what_an_ancestor_forbids(data: st.DataObject) -> None:
    runs = Runs()
    root = Context(
        provider(), tools=runs.tools(), phases=data.draw(tables()), clock=lambda: 0.0, agents=AgentLimits(depth=8)
    )
    family: list[tuple[Context, frozenset[str]]] = [
        (root, frozenset())
    ]  # with the names an ancestor was refused when it branched
    for _ in range(data.draw(st.integers(1, 8))):
        context, denied = family[data.draw(st.integers(0, len(family) - 1))]
        refused = denied | refused_now(context)
        how = data.draw(
            st.sampled_from(["spawn", "spawn with tools", "spawn with phases", "fork", "fan_out", "enter", "call"])
        )
        if how == "spawn":
            family.append((context.spawn("Go."), refused))
        elif how == "spawn with tools":
            family.append((context.spawn("Go.", tools=runs.tools(data.draw(st.permutations(NAMES)))), refused))
        elif how == "spawn with phases":
            family.append((context.spawn("Go.", tools=runs.tools(), phases=data.draw(tables())), refused))
        elif how == "fork":
            family.append((context.fork(), denied))
        elif how == "fan_out":
            family.extend((branch, denied) for branch in context.fan_out(["a", "b"]))
        elif how == "enter":
            target = f"p{data.draw(st.integers(0, 2))}"
            with suppress(UsageError):  # a phase this table does not have
                context.enter(target)
        for agent, forbidden in family:
            name = data.draw(names)
            runs.names.clear()
            make_call(agent, name)
            assert not forbidden & set(runs.names), (how, name)


def refused_now(context: Context) -> frozenset[str]:
    """Names a context may not call."""
    copy = context.fork()
    if not any(entry.kind == "user" for entry in copy.log):
        copy.user("x")
    return frozenset(copy.toolbox.names) - frozenset(copy.request().mask.allowed)


# Item 13: memory and phases
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("allow", "is_spawned"), [(["notes"], True), ([], False)])
def test_the_tools_of_a_memory_may_be_called_in_every_phase(allow: list[str], is_spawned: bool) -> None:
    runs = Runs()
    phases = Phases({"a": Phase(allow=allow, by_hand=True), "b": Phase()}, "b")
    context = Context(provider(), tools=runs.tools(), phases=phases, memory=FileMemory(f"memory://free-{is_spawned}"))
    context.enter("a")
    context = context.spawn("Go.") if is_spawned else context
    context.user("Read.")
    long = "row\n" * 20_000
    context.receive(answer(context.provider.wire, "r1", [("call", "c1", "notes", {})], USAGE), context.request())
    if allow:
        context.result(context.calls[0], long)
        told = parse(context.log[-1].body)
        assert "read_reference" in told["content"][0]["text"]
        [read] = make_call(context, "read_reference", {"id": told["references"][0]["digest"][:16]})
        assert not read["is_error"] and read["content"][0]["text"].startswith("row")
    assert not make_call(context, "todo", {"action": "add", "items": ["x"]})[0]["is_error"]
    assert not make_call(context, "memory", {"command": "view", "path": "/memories"})[0]["is_error"]
    assert make_call(context, "deploy")[0]["is_error"] and "deploy" not in runs.names


def test_a_memory_that_came_late_is_told_of_and_can_be_read(tmp_path: Path) -> None:
    Context.open(tmp_path, provider(), tools=[call_tool, *Runs().tools(["notes"])]).close()
    with Context.open(tmp_path, provider(), memory=FileMemory("memory://late")) as context:
        assert context.memory is not None
        context.late_tools(context.memory.tools())
        context.user("Go.")
        context.receive(answer(context.provider.wire, "r", [("call", "c", "notes", {})], USAGE), context.request())
        context.result(context.calls[0], "row\n" * 20_000)
        reference = parse(context.log[-1].body)["references"][0]["digest"][:16]
        read = {"name": "read_reference", "arguments": {"id": reference}}
        context.receive(
            answer(context.provider.wire, "r2", [("call", "c2", "call_tool", read)], USAGE), context.request()
        )
        assert [call.name for call in context.calls] == ["call_tool"]


def test_a_phase_denies_a_tool_of_the_memory_by_name_and_is_warned_of() -> None:
    table = Phases({"a": Phase(allow=["notes"], deny=["todo", "read_reference"])}, "a")
    with pytest.warns(UserWarning, match="phase 'a' denies read_reference, todo, tools of this context's memory"):
        context = Context(provider(), tools=Runs().tools(), phases=table, memory=FileMemory("memory://denied"))
    assert context.user("x") and context.request().mask.allowed == ("notes", "memory")
    assert make_call(context, "todo", {"action": "add", "items": ["x"]})[0]["is_error"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Context(provider(), tools=Runs().tools(), phases=TABLE, memory=FileMemory("memory://not-denied"))
    with pytest.warns(UserWarning, match="denies"):
        context.retool(Runs().tools(), table)


def test_a_tool_of_the_caller_that_is_named_like_one_of_the_memory_is_masked() -> None:
    runs = Runs()
    context = Context(
        provider(),
        tools=runs.tools(["todo", "notes"]),
        phases=Phases({"a": Phase(allow=["notes"])}, "a"),
        memory=FileMemory("memory://named"),
    )
    assert make_call(context, "todo")[0]["is_error"] and runs.names == []


def test_a_body_somebody_else_began_has_the_tools_of_its_memory_in_every_phase() -> None:
    body = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"name": "notes", "input_schema": {"type": "object"}}],
    }
    phases = Phases({"a": Phase(allow=["notes"])}, "a")
    context = Context.from_messages(
        provider(), body, tools=Runs().tools(["notes"]), phases=phases, memory=FileMemory("memory://adopted")
    )
    assert context.request().mask.allowed == ("notes", "memory", "read_reference", "todo")


# Item 14: plan, log and lane
# ------------------------------------------------------------------------------------------------


def test_sub_agents_have_plans_of_their_own_and_the_same_bytes() -> None:
    memory = Memory(FileMemory("memory://plans"))
    context = Context(provider(), tools=Runs().tools(), memory=memory)
    make_call(context, "todo", {"action": "add", "items": ["the caller's"]})
    one, other = context.spawn("Go."), context.spawn("Go.")
    for agent in (one, other):
        make_call(agent, "todo", {"action": "add", "items": ["mine"]})
    assert [item.text for item in memory.todo.items] == ["the caller's"]
    bodies = [agent.request().body for agent in (one, other)]
    assert bodies[0] == bodies[1] and b"agents/" not in bodies[0] and b"Still to do (todo.md, 0 of 1 done)" in bodies[0]
    assert one.lane != other.lane and one.lane.encode() not in bodies[0]
    assert {stored.path.split("/")[0] for stored in memory.files.list()} == {"todo.md", "agents"}
    own = context.spawn("Go.", system="x", memory=FileMemory("memory://elsewhere"))
    make_call(own, "todo", {"action": "add", "items": ["apart"]})
    assert own.memory is not None and own.memory.files.read("todo.md") == "- [ ] apart\n"


def test_lanes_are_unique_and_need_no_clock(tmp_path: Path) -> None:
    def lanes(folder: Path) -> list[str]:
        with Context.open(folder, provider(), tools=Runs().tools(), clock=lambda: 1e9) as context:
            agents = [context.spawn("Go.") for _ in range(3)]
            nested = agents[0].spawn("Go.")
            branches = [*context.fan_out(2), *context.fan_out(2)]
            found = [one.lane for one in (*agents, nested, *branches)]
            for one in (*agents, nested, *branches):
                make_call(one, "notes")
            assert {row.lane for row in context.ledger} >= set(found)
            return found

    first, again = lanes(tmp_path / "a"), lanes(tmp_path / "a")
    assert len({*first, *again}) == 2 * 8
    assert lanes(tmp_path / "b") == first


def test_a_sub_agent_is_opened_again_from_its_folder(tmp_path: Path) -> None:
    runs, folder, files = Runs(), tmp_path / "run", tmp_path / "memory"
    options: dict[str, Any] = {"tools": runs.tools(), "phases": TABLE, "memory": FileMemory(files)}
    context = Context.open(folder, provider(), **options)
    child = context.spawn("Go.")
    own = context.spawn("Go.", system="You sum up.", tools=runs.tools(["sum_up", "deploy"]))
    make_call(child, "todo", {"action": "add", "items": ["mine"]})
    make_call(own, "sum_up")
    bodies, lanes = [one.request().body for one in (child, own)], [child.lane, own.lane]
    assert context.agents == lanes
    context.close()  # as a crash would, but for the locks: what was acknowledged is in the files

    with Context.open(folder, provider(), **options) as again:
        assert again.agents == lanes and [row.lane for row in again.ledger] == lanes
        child, own = again.agent(lanes[0]), again.agent(lanes[1], tools=runs.tools(["sum_up", "deploy"]))
        assert [one.request().body for one in (child, own)] == bodies and (child.lane, own.lane) == tuple(lanes)
        assert child.memory is not None and [item.text for item in child.memory.todo.items] == ["mine"]
        runs.names.clear()
        assert make_call(child, "deploy")[0]["is_error"] and make_call(own, "deploy")[0]["is_error"]
        assert not make_call(own, "sum_up")[0]["is_error"] and runs.names == ["sum_up"]
        assert [row.lane for row in again.ledger] == [*lanes, lanes[0], lanes[1], lanes[1]]
        with pytest.raises(LogLocked):
            again.agent(lanes[0])
        with pytest.raises(UsageError, match="there is no sub-agent"):
            again.agent("agent-99-abc")
        assert again.spawn("More.").lane not in lanes

    with Context.open(folder / "agents" / lanes[0], provider(), **options) as alone:
        assert alone.lane == lanes[0] and alone.phase == "read" and len(alone.ledger) == 0
        assert make_call(alone, "deploy")[0]["is_error"]
        assert alone.ledger[0].lane == lanes[0]


def test_in_memory_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    context = Context(provider(), tools=Runs().tools())
    make_call(context.spawn("Go."), "notes")
    assert context.agents == [] and not list(tmp_path.iterdir())


def test_a_log_given_by_itself_has_its_agents_beside_it(tmp_path: Path) -> None:
    with Log.open(tmp_path / "log.jsonl") as log:
        context = Context(provider(), log=log, ledger=Ledger(), tools=Runs().tools())
        lane = context.spawn("Go.").lane
        assert context.agents == [lane] and (tmp_path / "agents" / lane / "log.jsonl").is_file()
        context.close()


def test_a_task_that_is_none_leaves_no_folder(tmp_path: Path) -> None:
    with Context.open(tmp_path / "run", provider(), tools=Runs().tools()) as context:
        with pytest.raises(UsageError):
            context.spawn("")
        assert context.agents == []
        context.spawn("Go.")
        assert len(context.agents) == 1


# Some of the caller's tools, another model, another memory
# ---------------------------------------------------------------------------------------------------------


WIRES = [
    pytest.param(name, marks=pytest.mark.filterwarnings("ignore::contextkit.AssumedModelWarning")) for name in PROVIDERS
]


def static_prefix(context: Context) -> bytes:
    """The digest of the bytes of tools and system."""
    prompt = context.request().prompt
    return prompt.digests[prompt.level_ends[1] - 1]


@pytest.mark.parametrize("wire", WIRES)
def test_some_of_the_callers_tools_are_masked_on_its_head(wire: str) -> None:
    for phases in (None, TABLE):
        masked_on_its_head(PROVIDERS[wire](), phases)


def masked_on_its_head(provider: Any, phases: Phases | None) -> None:
    runs = Runs()
    context = Context(provider, system="You lead.", tools=runs.tools(), phases=phases)
    child = context.spawn("Go.", tools=runs.tools(["notes", "deploy"]))
    context.user("Go.")
    assert static_prefix(child) == static_prefix(context)
    assert child.request().mask.allowed == (("notes",) if phases else ("deploy", "notes"))
    assert make_call(child, "write_page")[0]["is_error"] and not make_call(child, "notes")[0]["is_error"]
    grandchild = child.spawn("Go.", tools=runs.tools(["notes", "write_page"]))
    assert static_prefix(grandchild) == static_prefix(context)
    assert make_call(grandchild, "write_page")[0]["is_error"] and not make_call(grandchild, "notes")[0]["is_error"]
    assert make_call(context.spawn("Go.", tools=[]), "notes")[0]["is_error"]
    assert runs.names == ["notes", "notes"]
    assert context.spawn("Go.", tools=[*runs.tools(["notes"]), runs.tool("new")]).toolbox.names == ("notes", "new")
    assert context.spawn("Go.", system="Alone.", tools=runs.tools(["notes"])).toolbox.names == ("notes",)


def test_masked_tools_stay_masked_after_a_resume_and_alone(tmp_path: Path) -> None:
    runs = Runs()
    options: dict[str, Any] = {"tools": runs.tools(), "memory": FileMemory("memory://masked")}
    with Context.open(tmp_path, provider(), **options) as context:
        child = context.spawn("Go.", tools=runs.tools(["notes"]))
        grandchild = child.spawn("Look.")
        assert not make_call(child, "todo", {"action": "add", "items": ["mine"]})[0]["is_error"]
        bodies = [child.request().body, grandchild.request().body]
        lanes = [child.lane, grandchild.lane]
    with Context.open(tmp_path, provider(), **options) as context:
        child = context.agent(lanes[0])
        grandchild = child.agent(lanes[1])
        assert [child.request().body, grandchild.request().body] == bodies
        for agent in (child, grandchild):
            assert make_call(agent, "deploy")[0]["is_error"] and not make_call(agent, "notes")[0]["is_error"]
    for lane, folder in zip(lanes, ("agents", f"agents/{lanes[0]}/agents"), strict=True):
        with Context.open(tmp_path / folder / lane, provider(), **options) as alone:
            assert make_call(alone, "deploy")[0]["is_error"] and not make_call(alone, "notes")[0]["is_error"]
    assert "deploy" not in runs.names


def test_tools_that_the_caller_has_are_bound_again_without_naming_them(tmp_path: Path) -> None:
    runs = Runs()
    with Context.open(tmp_path, provider(), tools=runs.tools()) as context:
        lane = context.spawn("Go.", system="Alone.", tools=runs.tools(["notes"])).lane
    with Context.open(tmp_path, provider(), tools=runs.tools()) as context:
        assert not make_call(context.agent(lane), "notes")[0]["is_error"] and runs.names == ["notes"]


@pytest.mark.parametrize("wire", ["anthropic", "bedrock"])
def test_a_model_of_the_same_endpoint_is_named(wire: str, tmp_path: Path) -> None:
    model = {"anthropic": "claude-haiku-4-5", "bedrock": "anthropic.claude-haiku-4-5"}[wire]
    with Context.open(tmp_path, PROVIDERS[wire](), system="You lead.", tools=Runs().tools()) as context:
        context.user("Go.")
        child = context.spawn("Go.", model=model)
        lane = child.lane
        assert child.provider.model.name == model and child.provider.wire == context.provider.wire
        differing = {"model", "modelId"}
        mine, theirs = ({**one.provider.params} for one in (child, context))
        assert {name: value for name, value in mine.items() if name not in differing} == {
            name: value for name, value in theirs.items() if name not in differing
        }
        assert static_prefix(child) == static_prefix(context)
        make_call(child, "notes")
        assert [row.model for row in context.ledger] == [model]
        for wrong in ("", 3):
            with pytest.raises(UsageError, match="the name of a model"):
                context.spawn("Go.", model=wrong)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="not both"):
            context.spawn("Go.", model=model, provider=PROVIDERS[wire]())
    with Context.open(tmp_path, PROVIDERS[wire](), tools=Runs().tools()) as context:
        assert context.agent(lane).provider.model.name == model


def test_another_memory_answers_the_tools_of_the_head() -> None:
    context = Context(provider(), tools=Runs().tools(), memory=FileMemory("memory://lead"))
    other = Memory(FileMemory("memory://other"))
    child = context.spawn("Go.", memory=other)
    context.user("Go.")
    assert static_prefix(child) == static_prefix(context)
    make_call(child, "memory", {"command": "create", "path": "/memories/a.md", "file_text": "mine"})
    assert other.files.read("a.md") == "mine" and context.memory is not None
    assert [stored.path for stored in context.memory.files.list()] == []


# Limits
# ---------------------------------------------------------------------------------------------------------


def test_depth_and_count_are_bounded_also_after_a_resume(tmp_path: Path) -> None:
    limits = AgentLimits(depth=2, count=4)
    with Context.open(tmp_path, provider(), agents=limits) as context:
        child = context.spawn("Go.")
        grandchild = child.spawn("Go.")
        with pytest.raises(UsageError, match=r"on level 3 of agents, and the limit is depth=2.*AgentLimits\(depth=…\)"):
            grandchild.spawn("Go.")
        with pytest.raises(UsageError, match="had 2 sub-agents, and the limit is count=4"):
            context.spawn_all(["a", "b", "c"])
        with pytest.raises(UsageError):
            context.spawn("")
        branch = context.fan_out(["x"])[0]
        branch.spawn("Go.")
        context.fork().spawn("Go.")
        with pytest.raises(UsageError, match="had 4 sub-agents"):
            child.spawn("Go.")
        lane = child.lane
    with Context.open(tmp_path, provider()) as context:  # those of the branch and the fork were in memory, unbilled
        child = context.agent(lane)
        child.spawn_all(["a", "b"])
        with pytest.raises(UsageError, match=r"had 4 sub-agents, and the limit is count=4.*AgentLimits\(count=…\)"):
            context.spawn("Go.")
    with Context.open(tmp_path / "agents" / lane, provider(), agents=AgentLimits(depth=9, count=9)) as alone:
        grandchild = alone.agent(alone.agents[0])
        with pytest.raises(UsageError, match="on level 3"):
            grandchild.spawn("Go.")
    with Context.open(tmp_path, provider(), agents=AgentLimits(count=5)) as context:
        context.spawn("Go.")


def test_running_agents_are_bounded() -> None:
    context = Context(provider(), tools=Runs().tools(), agents=AgentLimits(running=2))
    one, other = context.spawn("Go."), context.spawn("Go.")
    with pytest.raises(UsageError, match="2 sub-agents are running"):
        one.spawn("Go.")
    finish(one)
    third = context.spawn("Go.")
    other.close()
    assert context.spawn("Go.").lane != third.lane


def test_the_budget_of_the_caller_bounds_its_agents(tmp_path: Path) -> None:
    budget = Budget(tokens=3_000)
    with Context.open(tmp_path, provider(), system="You lead. " * 200, budget=budget) as context:
        child = context.spawn("Go.", system="You help. " * 200)
        grandchild = child.spawn("Go.")
        assert [agent.request() for agent in (child, grandchild)]
        usage = Usage(2_800, 0, 0, 0, 5)
        child.receive(answer(child.provider.wire, "r", [("text", "Done.")], usage), child.request())
        assert 2_800 < budget.spent.tokens < 2_810
        for agent in (context, grandchild, context.spawn("More.")):
            agent.user("More.")
            with pytest.raises(BudgetExceeded):
                agent.request()
    with Context.open(tmp_path, provider(), budget=Budget(tokens=3_000)) as context, pytest.raises(BudgetExceeded):
        context.agent(context.agents[-1]).request()


# States, resuming, results
# ---------------------------------------------------------------------------------------------------------


def finish(agent: Context, text: str = "Done.") -> None:
    """The agent's last word."""
    request = agent.request()
    agent.receive(answer(agent.provider.wire, f"end-{agent.lane}-{len(agent.log)}", [("text", text)], USAGE), request)


def test_the_end_of_a_log_says_what_the_context_says(tmp_path: Path) -> None:
    with Context.open(tmp_path, provider(), tools=Runs().tools(), memory=FileMemory("memory://states")) as context:
        agent = context.spawn("Go.", call="call_9")

        def states_agree() -> str:
            [state] = context.agent_states
            stored = read_state(agent.lane, tmp_path / "agents" / agent.lane / "log.jsonl")
            assert (stored.status, stored.open_calls, stored.stop, stored.call) == (
                state.status,
                state.open_calls,
                state.stop,
                "call_9",
            )
            assert state.is_open and not stored.is_open and state.finished == agent.finished
            return state.status

        assert states_agree() == "waiting"
        calls = [("call", "a", "notes", {}), ("call", "b", "notes", {})]
        agent.receive(answer(agent.provider.wire, "r", calls, USAGE), agent.request())
        assert states_agree() == "calling" and context.agent_states[0].open_calls == ("a", "b")
        agent.user("Wait.")
        agent.result("b", "x" * 100_000)
        assert states_agree() == "calling" and context.agent_states[0].open_calls == ("a",)
        agent.result("a", 1)
        assert states_agree() == "waiting"
        request = agent.request()
        agent.user("What was said while the reply was under way.")
        agent.receive(answer(agent.provider.wire, "r2", [("text", "x" * 200_000)], USAGE), request)
        assert states_agree() == "waiting"
        finish(agent)
        assert states_agree() == "finished"
        agent.notice("Noted.")
        assert states_agree() == "finished"
        agent.compact("So far.")
        states_agree()
        agent.user("More.")
        assert states_agree() == "waiting"


RESUMES = """
import os, sys
from contextkit import AnthropicMessages, Context, Tool, tool
from contextkit.memory import FileMemory
def name(number): return {"name": f"t{number}", "description": "T.", "parameters": {"type": "object"}}
tools = [Tool.raw(name(number), run=lambda arguments: "ran") for number in range(3)]
context = Context.open(sys.argv[1], AnthropicMessages("claude-sonnet-5-5", max_tokens=256), tools=tools,
                       memory=FileMemory(sys.argv[1] + "/memory"))
def reply(agent, *content):
    usage = {"input_tokens": 10, "output_tokens": 5}
    agent.receive({"id": f"r-{agent.lane}-{len(agent.log)}", "type": "message", "role": "assistant", "model": "m",
                   "content": list(content), "usage": usage}, agent.request())
def call(id, name): return {"type": "tool_use", "id": id, "name": name, "input": {}}
context.user("Go.")
reply(context, call("one", "t0"), call("two", "t1"))
done, begun, fresh = context.spawn("A.", call="one"), context.spawn("B.", tools=tools[1:], call="two"), context.spawn("C.")
reply(done, {"type": "text", "text": "row " * 20_000})
reply(begun, call("x", "t1"), call("y", "t0"))
os._exit(9)
"""


def test_after_a_crash_the_unfinished_agents_go_on_and_answer_their_calls(tmp_path: Path) -> None:
    assert subprocess.run([sys.executable, "-c", RESUMES, str(tmp_path)], check=False, timeout=60).returncode == 9
    tools = [Tool.raw({"name": f"t{n}", "description": "T.", "parameters": {"type": "object"}}) for n in range(3)]
    with Context.open(tmp_path, provider(), tools=tools, memory=FileMemory(tmp_path / "memory")) as context:
        states = context.agent_states
        assert [(state.status, state.call) for state in states] == [
            ("finished", "one"),
            ("calling", "two"),
            ("waiting", None),
        ]
        assert states[1].open_calls == ("x",)  # the masked call was refused when it came
        agents = context.resume_agents()
        assert [agent.lane for agent in agents] == [
            state.lane for state in states[1:]
        ] and context.resume_agents() == agents
        begun, fresh = agents
        with pytest.raises(UsageError, match="is not finished"):
            context.result("two", begun)
        begun.result("x", "ran")
        finish(begun, "Short.")
        finish(fresh)
        finished = context.agent(states[0].lane)
        context.result("one", finished)
        context.result("two", begun)
        large, short = (parse(entry.body) for entry in context.log if entry.kind == "result")
        assert "read_reference" in large["content"][0]["text"] and large["references"]
        assert short["content"] == [{"type": "text", "text": "Short."}] and not short["is_error"]
        assert context.restore(context.log[-2])[0]["text"] == "row " * 20_000
        assert context.resume_agents() == [] and not context.calls
        assert {row.lane for row in context.ledger} == {"main", *(state.lane for state in states)}


MANY = """
import os, resource, sys
from contextkit import AgentLimits, AnthropicMessages, Context
def opened():
    return Context.open(sys.argv[1], AnthropicMessages("m", max_tokens=100), system="Help.", agents=AgentLimits(count=999))
n, limit = int(sys.argv[2]), int(sys.argv[3])
with opened() as context:
    for number in range(n):
        context.spawn(f"Task {number}.").close()
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))
def n_files():
    return len(os.listdir("/dev/fd"))
with opened() as context:
    before = n_files()
    try:
        agents = context.resume_agents()
    except Exception as error:
        print(type(error).__name__, error, *error.__notes__)
        assert n_files() == before, "those that were opened are closed"
        lane = context.agents[-1]
        context.agent(lane).user("One at a time.")
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4 * n, most), most))
        print(len(context.resume_agents()))
    else:
        print(len(agents), n_files() - before)
        for agent in agents:
            agent.user("Go on.")
        print(n_files() - before)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_an_idle_agent_holds_one_descriptor_and_a_limit_that_is_met_is_named(tmp_path: Path) -> None:
    def run(n: int, limit: int) -> list[str]:
        command = [sys.executable, "-c", MANY, str(tmp_path / str(n)), str(n), str(limit)]
        ran = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()

    assert run(16, 40) == ["16 16", "16"], "also after each has appended"
    said, n_resumed = run(40, 40)
    assert said.startswith("StorageError ") and "this process has 40 files open, as many as it may" in said
    assert "raise that limit (`ulimit -n`)" in said and "of 40 sub-agents were open" in said
    assert "context.agent(lane) opens one" in said and n_resumed == "40"


def test_the_answer_of_an_agent_lives_as_its_residency_says() -> None:
    memory = Memory(
        FileMemory("memory://answers"), residency=Residency(by_tool={"research": "stay", "look": "reference"})
    )
    context = Context(provider(), tools=Runs().tools(["research", "look"]), memory=memory)
    context.user("Go.")
    calls = [("call", "a", "research", {}), ("call", "b", "look", {}), ("call", "c", "look", {})]
    context.receive(answer(context.provider.wire, "r", calls, USAGE), context.request())
    agents = [context.spawn("Go.", call=call) for call in context.calls]
    for agent, text in zip(agents, ["row\n" * 20_000, "row\n" * 20_001, ""], strict=True):
        finish(agent, text)
    for call, agent in zip(context.calls, agents, strict=True):
        context.result(call, agent)
    stay, reference, empty = (parse(entry.body) for entry in context.log if entry.kind == "result")
    assert stay["content"][0]["text"] == "row\n" * 20_000 and reference["references"]
    assert empty["is_error"] and "without an answer" in empty["content"][0]["text"]


# Damage
# ---------------------------------------------------------------------------------------------------------


def damaged(log: Path, how: str) -> None:
    """Damage a log."""
    lines = log.read_bytes().splitlines(keepends=True)
    match how:
        case "garbage":
            log.write_bytes(b"\x00\xff garbage\n\n{}" * 20)
        case "empty":
            log.write_bytes(b"")
        case "first line":
            log.write_bytes(b"".join([lines[0].replace(b"lane", b"enal"), *lines[1:]]))
        case "last line":
            log.write_bytes(b"".join([*lines[:-1], lines[-1].replace(b"Go", b"Og")]))
        case "another's":
            log.write_bytes((log.parents[2] / "log.jsonl").read_bytes())
        case "folder":
            log.unlink()
            log.mkdir()
        case "file in place of the folder":
            for path in log.parent.iterdir():
                path.unlink()
            log.parent.rmdir()
            log.parent.write_text("x")
        case "gone":
            log.unlink()
        case "torn":
            log.write_bytes(b"".join([*lines[:-1], lines[-1][:-20]]))
        case "lost its last line":
            log.write_bytes(b"".join(lines[:-1]))
    if how in ("empty", "torn"):  # by an append that never returned
        log.with_name("log.jsonl.lock").unlink()


HOW = ("garbage", "empty", "first line", "last line", "another's", "folder")
HOW += ("file in place of the folder", "gone", "torn", "lost its last line")


@pytest.mark.parametrize("how", HOW)
def test_damaged_logs_of_agents_do_not_stop_their_caller(how: str, tmp_path: Path) -> None:
    with Context.open(tmp_path, provider(), tools=Runs().tools(), memory=FileMemory(tmp_path / "memory")) as context:
        broken, whole = context.spawn("Go."), context.spawn("Go.")
        lanes = [broken.lane, whole.lane]
    damaged(tmp_path / "agents" / lanes[0] / "log.jsonl", how)
    with Context.open(tmp_path, provider(), tools=Runs().tools(), memory=FileMemory(tmp_path / "memory")) as context:
        states = {state.lane: state for state in context.agent_states}
        assert states[lanes[1]].status == "waiting" and not states[lanes[1]].damage
        is_damaged = how not in ("empty", "gone", "torn")  # the end of an interrupted append is none
        assert is_damaged == (lanes[0] in states and states[lanes[0]].status == "damaged")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert lanes[1] in [agent.lane for agent in context.resume_agents()]
        assert is_damaged == any("was left out: its log" in str(one.message) for one in caught)
        assert context.spawn("More.").lane not in lanes
        make_call(context, "notes")


def test_a_file_in_place_of_the_agents_folder_is_named(tmp_path: Path) -> None:
    with Context.open(tmp_path, provider()) as context:
        (tmp_path / "agents").write_text("x")
        assert context.agents == [] and context.agent_states == []
        with pytest.raises(StorageError):
            context.spawn("Go.")


def test_an_agent_is_compacted_as_its_caller_is_or_as_told() -> None:
    policy, other = Compaction(at_tokens=500_000), Compaction(at_tokens=50_000)
    provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=256)
    context = Context(provider, system="You lead.", compact=policy)
    small = context.spawn("Look.", model="claude-haiku-4-5")  # its window is smaller than at_tokens
    assert provider.model.window_tokens > 500_000 > small.provider.model.window_tokens
    small.user("word " * 150_000)
    assert small.compacting() is None  # one turn: nothing to cut, and no error
    agent = context.spawn("Look.", compact=other)
    for number, task in enumerate(["word " * 60_000, "And now?"]):
        reply = answer(agent.provider.wire, f"m{number}", [("text", "Yes.")], USAGE)
        agent.receive(reply, agent.request())
        agent.user(task)
    assert agent.compacting() is not None
