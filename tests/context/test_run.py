"""The built-in loop, sync and async, through real clients: approvals, streams, limits, side calls, interruption."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from contextkit import Context, FileMemory, Phase, Phases, tool
from contextkit.errors import BudgetExceeded, UsageError
from contextkit.ledger.budget import Budget
from contextkit.memory import Memory, Residency
from tests.context.desk import Desk, asks, honest, says

_numbers = count()
PAGE = "\n".join(f"row {number}: {number * number}" for number in range(2_000))
ADDING = [asks(("add", {"a": 2, "b": 3}), ("add", {"a": 1, "b": 1})), asks(("add", {"a": 5, "b": 2})), says("Seven.")]


@tool
def fetch(url: str) -> str:
    """Get a page."""
    return f"{url}\n{PAGE}"


def steps_of(desk: Desk, context: Context, *scripts: Any, **options: Any) -> list[Any]:
    desk.server.script(scripts)
    with desk.client() as client:
        return list(context.run(client, **options))


async def asteps_of(desk: Desk, context: Context, *scripts: Any, **options: Any) -> list[Any]:
    desk.server.script(scripts)
    async with desk.async_client() as client:
        return [step async for step in context.arun(client, **options)]


def results(context: Context) -> list[str]:
    bodies = [json.loads(entry.body) for entry in context.log if entry.kind == "result"]
    return [body["content"][0]["text"] for body in bodies]


@pytest.mark.parametrize("run", [steps_of, lambda *given: asyncio.run(asteps_of(*given))], ids=["run", "arun"])
def test_a_loop_in_which_nothing_was_said_sends_nothing(claude: Desk, run: Any) -> None:
    with pytest.raises(UsageError, match=r"nothing was said yet: context\.user"):
        run(claude, claude.context())
    assert not claude.server.ledger


def test_a_client_of_the_other_kind_is_told_which_loop_takes_it(claude: Desk) -> None:
    with pytest.raises(UsageError, match=r"context\.arun\(client\)"):
        list(claude.context("Add.").run(claude.async_client()))

    async def wrong() -> None:
        with claude.client() as client:
            async for _ in claude.context("Add.").arun(client):
                pass

    with pytest.raises(UsageError, match=r"context\.run\(client\)"):
        asyncio.run(wrong())


def test_it_runs_until_the_model_is_finished(desk: Desk) -> None:
    context = desk.context("Add.")
    steps = steps_of(desk, context, *ADDING)
    assert [step.number for step in steps] == [1, 2, 3]
    assert [len(step.calls) for step in steps] == [2, 1, 0]
    assert [len(step.results) for step in steps] == [2, 1, 0]
    assert steps[-1].text == "Seven."
    assert context.finished
    assert all(step.usage is not None and step.cost_usd for step in steps)
    assert sum(step.cost_usd for step in steps) == pytest.approx(context.summary().cost_usd)
    assert steps_of(desk, context) == []
    honest(desk, context)


@pytest.mark.parametrize("is_async", [False, True])
def test_events_pass_by_where_it_streams(claude: Desk, is_async: bool) -> None:
    context, events = claude.context("Add."), list[Any]()
    if is_async:
        steps = asyncio.run(asteps_of(claude, context, *ADDING, on_event=events.append))
    else:
        steps = steps_of(claude, context, *ADDING, on_event=events.append)
    assert [len(step.results) for step in steps] == [2, 1, 0] and context.finished
    assert len(events) > 6
    assert all(step.reply is not None and step.usage is not None for step in steps)
    honest(claude, context)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_is_not_approved_is_answered_with_the_reason(claude: Desk, is_async: bool) -> None:
    context = claude.context("Add.")

    def approve(call: Any) -> Any:
        return {2: True, 1: "not one", 5: False}[call.arguments["a"]]

    if is_async:
        asyncio.run(asteps_of(claude, context, *ADDING, approve=approve))
    else:
        steps_of(claude, context, *ADDING, approve=approve)
    assert "5" in results(context)[:2]
    assert any("not one" in text for text in results(context)[:2])
    assert "not approved" in results(context)[2]


def test_a_call_that_the_phase_refuses_is_among_the_results(claude: Desk) -> None:
    phases = Phases({"quiet": Phase(allow=["shout"]), "sums": Phase(by_hand=True)}, start="quiet")
    context = claude.context("Add.", phases=phases)
    steps = steps_of(claude, context, asks(("add", {"a": 2, "b": 3})), says("I may not."))
    assert [(len(step.calls), len(step.results)) for step in steps] == [(0, 1), (0, 0)]


def test_max_steps_ends_it_and_another_run_goes_on(claude: Desk) -> None:
    context = claude.context("Add.")
    claude.server.script(ADDING)
    with claude.client() as client:
        assert len(list(context.run(client, max_steps=1))) == 1
        assert not context.finished
        assert not context.calls
        assert len(list(context.run(client))) == 2
    honest(claude, context)


def test_breaking_out_loses_nothing(claude: Desk) -> None:
    context = claude.context("Add.")
    claude.server.script(ADDING)
    with claude.client() as client:
        for _ in context.run(client):
            break
        assert [step.number for step in context.run(client)] == [1, 2]
    assert context.finished


def test_a_call_that_was_interrupted_is_not_run_again(claude: Desk, tmp_path: Path) -> None:
    ran = []

    @tool
    def deploy() -> str:
        """Deploy."""
        ran.append(1)
        if len(ran) == 1:
            raise KeyboardInterrupt
        return "deployed"

    with claude.open(tmp_path / "log", tools=[deploy]) as context:
        context.user("Deploy.")
        with pytest.raises(KeyboardInterrupt):
            steps_of(claude, context, asks(("deploy", {})))
    with claude.open(tmp_path / "log", tools=[deploy]) as context:
        assert context.calls[0].was_started
        steps_of(claude, context, says("I will check."))
        assert len(ran) == 1
        assert "may or may not have happened" in results(context)[0]
        honest(claude, context)


def test_large_results_are_read_by_side_calls_where_that_is_chosen(claude: Desk) -> None:
    files = FileMemory(f"memory://run-{next(_numbers)}")
    memory = Memory(files, residency=Residency(by_tool={"fetch": "delegate"}))
    context = claude.context("Read.", system="You are careful. " * 400, tools=[fetch], memory=memory)
    steps = steps_of(claude, context, asks(("fetch", {"url": "u"})), says("Squares."), says("Done."))
    assert len(steps) == 2
    assert "Squares." in results(context)[0]
    assert "row 1000: 1000000" not in context.request().body.decode()
    honest(claude, context)


def test_a_side_call_that_fails_loses_no_result(claude: Desk) -> None:
    files = FileMemory(f"memory://run-{next(_numbers)}")
    memory = Memory(files, residency=Residency(by_tool={"fetch": "delegate"}))
    context = claude.context("Read.", system="You are careful. " * 400, tools=[fetch], memory=memory)
    failing = {"fault": {"kind": "status", "status": 400}}
    with pytest.warns(UserWarning, match="not read by a side call"):
        steps = steps_of(claude, context, asks(("fetch", {"url": "u"})), failing, says("Done."))
    assert len(steps) == 2
    assert "read_reference" in results(context)[0]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_budget_of_one_loop_ends_with_it(claude: Desk, is_async: bool) -> None:
    context = claude.context("Add.", budget=Budget(tokens=1_000_000))
    limit = (context.request().predicted.prompt or 0) + 3_000
    budget = Budget(tokens=limit)

    def run() -> list[Any]:
        if is_async:
            return asyncio.run(asteps_of(claude, context, *ADDING, budget=budget))
        return steps_of(claude, context, *ADDING, budget=budget)

    with pytest.raises(BudgetExceeded, match=f"the budget is {limit:,} tokens"):
        run()
    assert len(context.ledger) >= 1 and 0 < budget.spent.tokens <= limit
    claude.server.reset()
    assert steps_of(claude, context, says("Seven."))[-1].text == "Seven." and context.finished
    with pytest.raises(UsageError, match="budget is a"):
        context.run(None, budget=5.0)  # type: ignore[arg-type]


def test_parameters_of_one_loop_are_in_every_request(claude: Desk) -> None:
    context = claude.context("Add.")
    steps = steps_of(claude, context, *ADDING, **{claude.wire.output: 77})
    assert all(step.request.params[claude.wire.output] == 77 for step in steps)


def test_a_conversation_opened_without_its_tools_runs_no_call_and_says_which_to_give(
    claude: Desk, tmp_path: Path
) -> None:
    options = {"phases": Phases({"only": Phase(allow=["*"])}, start="only"), "memory": FileMemory(tmp_path / "memory")}
    context = claude.open(tmp_path / "run", **options)
    context.user("Add.")
    claude.ask(context, asks(("add", {"a": 2, "b": 3}), ("memory", {"command": "view", "path": "/memories"})))
    body = context.messages()
    context.close()

    bare = claude.open(tmp_path / "run", system=None, tools=None, phases=options["phases"])
    assert bare.toolbox.names == ("add", "shout", "memory", "read_reference", "todo")
    for call in bare.calls:
        with pytest.raises(UsageError, match=rf"tool '{call.name}' has nothing to run.*tools=\[…\], memory=…"):
            call.run()
    with pytest.raises(UsageError, match="nothing to run"):
        steps_of(claude, bare)
    assert not any(call.was_started for call in bare.calls), "nothing ran, so nothing was begun"
    helper = bare.spawn("Look.")
    assert helper.toolbox.definitions() == bare.toolbox.definitions()
    assert bare.messages() == body
    bare.close()

    again = claude.open(tmp_path / "run", **options)
    assert [step.text for step in steps_of(claude, again, says("Five."))] == ["Five."]
    assert results(again)[0] == "5"
    honest(claude, again)


def test_a_memory_answers_its_tools_where_the_others_are_left_out(claude: Desk, tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory")
    with claude.open(tmp_path / "run", memory=memory) as context:
        context.user("Write it down.")
        claude.ask(context, asks(("todo", {"action": "add", "items": ["one"]})))
    with claude.open(tmp_path / "run", system=None, tools=None, memory=memory) as context:
        [call] = context.calls
        assert not isinstance(call.run(), Exception)


def test_a_prompt_larger_than_the_window_is_refused_with_what_can_be_done(claude: Desk) -> None:
    context = claude.context("Sum it up: " + "word " * 1_500_000)
    with pytest.raises(Exception, match=r"400|too long|context") as caught:
        steps_of(claude, context)
    [note] = caught.value.__notes__
    assert note == str(context.request().overflow) and "context.compact" in note
    with pytest.raises(Exception, match="400") as other:
        steps_of(claude, claude.context("Go."), {"fault": {"kind": "status", "status": 400}})
    assert not hasattr(other.value, "__notes__")
