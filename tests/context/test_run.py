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
def test_a_loop_in_which_nothing_was_said_sends_nothing(desk: Desk, run: Any) -> None:
    with pytest.raises(UsageError, match=r"nothing was said yet: context\.user"):
        run(desk, desk.context())
    assert not desk.server.ledger


def test_a_client_of_the_other_kind_is_told_which_loop_takes_it(desk: Desk) -> None:
    with pytest.raises(UsageError, match=r"context\.arun\(client\)"):
        list(desk.context("Add.").run(desk.async_client()))

    async def wrong() -> None:
        with desk.client() as client:
            async for _ in desk.context("Add.").arun(client):
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


def test_the_async_loop_does_the_same(desk: Desk) -> None:
    context = desk.context("Add.")
    steps = asyncio.run(asteps_of(desk, context, *ADDING))
    assert [len(step.results) for step in steps] == [2, 1, 0]
    assert context.finished
    honest(desk, context)


@pytest.mark.parametrize("is_async", [False, True])
def test_events_pass_by_where_it_streams(desk: Desk, is_async: bool) -> None:
    context, events = desk.context("Add."), list[Any]()
    if is_async:
        steps = asyncio.run(asteps_of(desk, context, *ADDING, on_event=events.append))
    else:
        steps = steps_of(desk, context, *ADDING, on_event=events.append)
    assert len(steps) == 3
    assert len(events) > 6
    assert all(step.reply is not None and step.usage is not None for step in steps)
    honest(desk, context)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_is_not_approved_is_answered_with_the_reason(desk: Desk, is_async: bool) -> None:
    context = desk.context("Add.")

    def approve(call: Any) -> Any:
        return {2: True, 1: "not one", 5: False}[call.arguments["a"]]

    if is_async:
        asyncio.run(asteps_of(desk, context, *ADDING, approve=approve))
    else:
        steps_of(desk, context, *ADDING, approve=approve)
    assert "5" in results(context)[:2]
    assert any("not one" in text for text in results(context)[:2])
    assert "not approved" in results(context)[2]


def test_a_call_that_the_phase_refuses_is_among_the_results(desk: Desk) -> None:
    phases = Phases({"quiet": Phase(allow=["shout"]), "sums": Phase(by_hand=True)}, start="quiet")
    context = desk.context("Add.", phases=phases)
    steps = steps_of(desk, context, asks(("add", {"a": 2, "b": 3})), says("I may not."))
    assert [(len(step.calls), len(step.results)) for step in steps] == [(0, 1), (0, 0)]


def test_max_steps_ends_it_and_another_run_goes_on(desk: Desk) -> None:
    context = desk.context("Add.")
    desk.server.script(ADDING)
    with desk.client() as client:
        assert len(list(context.run(client, max_steps=1))) == 1
        assert not context.finished
        assert not context.calls
        assert len(list(context.run(client))) == 2
    honest(desk, context)


def test_breaking_out_loses_nothing(desk: Desk) -> None:
    context = desk.context("Add.")
    desk.server.script(ADDING)
    with desk.client() as client:
        for _ in context.run(client):
            break
        assert [step.number for step in context.run(client)] == [1, 2]
    assert context.finished


def test_a_call_that_was_interrupted_is_not_run_again(desk: Desk, tmp_path: Path) -> None:
    ran = []

    @tool
    def deploy() -> str:
        """Deploy."""
        ran.append(1)
        if len(ran) == 1:
            raise KeyboardInterrupt
        return "deployed"

    with desk.open(tmp_path / "log", tools=[deploy]) as context:
        context.user("Deploy.")
        with pytest.raises(KeyboardInterrupt):
            steps_of(desk, context, asks(("deploy", {})))
    with desk.open(tmp_path / "log", tools=[deploy]) as context:
        assert context.calls[0].was_started
        steps_of(desk, context, says("I will check."))
        assert len(ran) == 1
        assert "may or may not have happened" in results(context)[0]
        honest(desk, context)


def test_a_cancelled_async_loop_goes_on(desk: Desk) -> None:
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.sleep(60)
        return "late"

    context = desk.context("Wait.", tools=[wait])

    async def cancelled() -> None:
        task = asyncio.create_task(asteps_of(desk, context, asks(("wait", {}))))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    steps_of(desk, context, says())
    assert context.finished


def test_large_results_are_read_by_side_calls_where_that_is_chosen(desk: Desk) -> None:
    files = FileMemory(f"memory://run-{next(_numbers)}")
    memory = Memory(files, residency=Residency(by_tool={"fetch": "delegate"}))
    context = desk.context("Read.", system="You are careful. " * 400, tools=[fetch], memory=memory)
    steps = steps_of(desk, context, asks(("fetch", {"url": "u"})), says("Squares."), says("Done."))
    assert len(steps) == 2
    assert "Squares." in results(context)[0]
    assert "row 1000: 1000000" not in context.request().body.decode()
    honest(desk, context)


def test_a_side_call_that_fails_loses_no_result(desk: Desk) -> None:
    files = FileMemory(f"memory://run-{next(_numbers)}")
    memory = Memory(files, residency=Residency(by_tool={"fetch": "delegate"}))
    context = desk.context("Read.", system="You are careful. " * 400, tools=[fetch], memory=memory)
    failing = {"fault": {"kind": "status", "status": 400}}
    with pytest.warns(UserWarning, match="not read by a side call"):
        steps = steps_of(desk, context, asks(("fetch", {"url": "u"})), failing, says("Done."))
    assert len(steps) == 2
    assert "read_reference" in results(context)[0]


def test_a_budget_ends_it_before_the_request_is_sent(desk: Desk) -> None:
    context = desk.context("Add.", budget=Budget(tokens=1))
    with pytest.raises(BudgetExceeded):
        steps_of(desk, context, *ADDING)
    assert not list(context.ledger.exchanges)
    desk.server.reset()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_budget_of_one_loop_ends_with_it(desk: Desk, is_async: bool) -> None:
    context = desk.context("Add.", budget=Budget(tokens=1_000_000))
    limit = (context.request().predicted.prompt or 0) + 3_000
    budget = Budget(tokens=limit)

    def run() -> list[Any]:
        if is_async:
            return asyncio.run(asteps_of(desk, context, *ADDING, budget=budget))
        return steps_of(desk, context, *ADDING, budget=budget)

    with pytest.raises(BudgetExceeded, match=f"the budget is {limit:,} tokens"):
        run()
    assert len(context.ledger) >= 1 and 0 < budget.spent.tokens <= limit
    desk.server.reset()
    assert steps_of(desk, context, says("Seven."))[-1].text == "Seven." and context.finished
    with pytest.raises(UsageError, match="budget is a"):
        context.run(None, budget=5.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("options", "message"), [({"max_steps": 0}, "max_steps"), ({"max_steps": "3"}, "max_steps")])
def test_wrong_limits_are_refused_at_once(desk: Desk, options: Any, message: str) -> None:
    with desk.client() as client, pytest.raises(UsageError, match=message):
        desk.context("Add.").run(client, **options)
    with pytest.raises(UsageError, match="limit"):
        desk.context("Add.").arun(None, limit=0)


def test_parameters_of_one_loop_are_in_every_request(desk: Desk) -> None:
    context = desk.context("Add.")
    steps = steps_of(desk, context, *ADDING, **{desk.wire.output: 77})
    assert all(step.request.params[desk.wire.output] == 77 for step in steps)


def test_a_conversation_opened_without_its_tools_runs_no_call_and_says_which_to_give(
    desk: Desk, tmp_path: Path
) -> None:
    options = {"phases": Phases({"only": Phase(allow=["*"])}, start="only"), "memory": FileMemory(tmp_path / "memory")}
    context = desk.open(tmp_path / "run", **options)
    context.user("Add.")
    desk.ask(context, asks(("add", {"a": 2, "b": 3}), ("memory", {"command": "view", "path": "/memories"})))
    body = context.messages()
    context.close()

    bare = desk.open(tmp_path / "run", system=None, tools=None, phases=options["phases"])
    assert bare.toolbox.names == ("add", "shout", "memory", "read_reference", "todo")
    for call in bare.calls:
        with pytest.raises(UsageError, match=rf"tool '{call.name}' has nothing to run.*tools=\[…\], memory=…"):
            call.run()
    with pytest.raises(UsageError, match="nothing to run"):
        steps_of(desk, bare)
    assert not any(call.was_started for call in bare.calls), "nothing ran, so nothing was begun"
    helper = bare.spawn("Look.")
    assert helper.toolbox.definitions() == bare.toolbox.definitions()
    assert bare.messages() == body
    bare.close()

    again = desk.open(tmp_path / "run", **options)
    assert [step.text for step in steps_of(desk, again, says("Five."))] == ["Five."]
    assert results(again)[0] == "5"
    honest(desk, again)


def test_a_memory_answers_its_tools_where_the_others_are_left_out(desk: Desk, tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory")
    with desk.open(tmp_path / "run", memory=memory) as context:
        context.user("Write it down.")
        desk.ask(context, asks(("todo", {"action": "add", "items": ["one"]})))
    with desk.open(tmp_path / "run", system=None, tools=None, memory=memory) as context:
        [call] = context.calls
        assert not isinstance(call.run(), Exception)


def test_a_prompt_larger_than_the_window_is_refused_with_what_can_be_done(desk: Desk) -> None:
    context = desk.context("Sum it up: " + "word " * 1_500_000)
    with pytest.raises(Exception, match=r"400|too long|context") as caught:
        steps_of(desk, context)
    [note] = caught.value.__notes__
    assert note == str(context.request().overflow) and "context.compact" in note
    with pytest.raises(Exception, match="400") as other:
        steps_of(desk, desk.context("Go."), {"fault": {"kind": "status", "status": 400}})
    assert not hasattr(other.value, "__notes__")
