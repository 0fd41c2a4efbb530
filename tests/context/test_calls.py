"""Tool calls: run, denied, interrupted, answered wrongly, answered in another order, by the loop and by `run_calls`."""

from __future__ import annotations

import asyncio
import threading

import pytest

from contextkit import Context, Tool, tool
from contextkit.canonical import parse
from contextkit.errors import InvalidCall, UsageError
from tests.context.desk import Desk, asks, goes_on, honest
from tests.context.head import add, shout


def texts(context: Context) -> list[str]:
    """What the tools of the last reply gave, in the order of the log."""
    return [parse(entry.body)["content"][0]["text"] for entry in context.log if entry.kind == "result"]


def errors(context: Context) -> list[bool]:
    return [parse(entry.body)["is_error"] for entry in context.log if entry.kind == "result"]


def sent(context: Context) -> str:
    return context.request().body.decode()


def test_calls_that_cannot_be_run_are_errors_the_model_can_read(desk: Desk) -> None:
    context = desk.context("one")
    made = [("fly", {}), ("add", {"a": 1}), ("shout", {"text": ""})]
    desk.ask(context, asks(*made))
    for call in context.calls:
        context.result(call, call.run())
    wanted = ("there is no tool named 'fly'", "b: ", "ValueError: nothing to shout")
    assert (
        all(text in told for text, told in zip(wanted, texts(context), strict=True)) and errors(context) == [True] * 3
    )
    goes_on(desk, context, says_something=False)
    honest(desk, context)


def test_a_denied_call_is_answered(desk: Desk) -> None:
    context = desk.context("one")
    desk.ask(context, asks(("add", {"a": 1, "b": 2}), ("shout", {"text": "x"})))
    first, second = context.calls
    first.deny("not on a Sunday")
    context.result(second.id, "X")
    assert "not on a Sunday" in texts(context)[0] and errors(context) == [True, False]
    goes_on(desk, context, says_something=False)
    honest(desk, context)


def test_an_interrupt_answers_every_open_call(desk: Desk) -> None:
    context = desk.context("one")
    desk.ask(context, asks(("add", {"a": 1, "b": 2}), ("shout", {"text": "x"}), ("add", {"a": 1, "b": 1})))
    context.result(context.calls[1], "X")
    assert len(context.interrupt("the user pressed escape")) == 2
    assert context.interrupt("again") == [] and errors(context) == [False, True, True]
    goes_on(desk, context)
    honest(desk, context)


def test_an_answer_that_does_not_fit_changes_nothing(claude: Desk) -> None:
    context = claude.context("one")
    claude.ask(context, asks(("add", {"a": 1, "b": 2}), ("add", {"a": 1, "b": 2})))
    first, second = context.calls
    context.result(first, 3)
    n = len(context.log)
    for wrong in (first, first.id, "call_unknown", None, 5, [], {}):
        with pytest.raises(InvalidCall):
            context.result(wrong, 3)  # type: ignore[arg-type]
    with pytest.raises(InvalidCall):
        first.begin()
    with pytest.raises(InvalidCall):
        first.deny("late")
    assert len(context.log) == n
    context.result(second, 3)
    goes_on(claude, context, says_something=False)
    with pytest.raises(InvalidCall, match="no call is open"):
        context.result("call_unknown", 3)
    honest(claude, context)


def test_whatever_a_tool_gives_the_next_request_is_valid(desk: Desk) -> None:
    context = desk.context("one")
    for value in (
        *("", None, " ", 5, 1.5, True, [], {}, [1, None], {"deep": [[[]]]}, {1: 2}, b"bytes", object(), float("nan")),
        *({"type": "text", "text": 5}, [{"type": "text", "text": 5}], [{"type": "text", "text": ""}], "\ud800"),
        [{"type": "text", "text": "a"}, {"type": "image", "url": "https://example.com/a.png"}],
        *([{"type": "image", "url": None}], [{"type": "document", "url": "docs/intro.md"}]),
        [{"type": "image", "media_type": "image/png", "data": "cat.png"}],
        *(ValueError(), KeyError("\ud800")),
    ):
        desk.ask(context, asks(("add", {"a": 1, "b": 2})))
        context.result(context.calls[0], value)
        assert context.calls == []
    goes_on(desk, context, says_something=False)


def test_results_stand_in_call_order_whatever_ended_first(claude: Desk) -> None:
    ended, has_ended = list[str](), threading.Event()

    def end(name: str) -> str:
        ended.append(name)
        has_ended.set()
        return f"ended {name}"

    @tool
    async def first(name: str) -> str:
        """Ends when a thread has."""
        await asyncio.to_thread(has_ended.wait)
        return end(name)

    @tool
    def thread(name: str) -> str:
        """Runs in a thread."""
        return end(name)

    @tool
    async def broken(name: str) -> str:
        """Break."""
        raise RuntimeError(f"broken {name}")

    context = claude.context("one", tools=[first, thread, broken])
    calls = [("first", {"name": "a"}), ("broken", {"name": "b"}), ("thread", {"name": "c"}), ("fly", {})]
    claude.ask(context, asks(*calls))
    entries = asyncio.run(context.run_calls())
    assert ended == ["c", "a"]
    named = ["ended a", "RuntimeError: broken b", "ended c", "InvalidCall: there is no tool named 'fly'"]
    assert [parse(entry.body)["content"][0]["text"] for entry in entries] == named
    body = sent(context)
    assert sorted(named, key=body.index) == named
    goes_on(claude, context, says_something=False)
    honest(claude, context)


def test_no_more_than_the_limit_run_at_a_time(claude: Desk) -> None:
    running, most = 0, 0

    @tool
    async def count(n: int) -> int:
        """Count who is here."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return n

    context = claude.context("one", tools=[count])
    claude.ask(context, asks(*(("count", {"n": n}) for n in range(12))))
    asyncio.run(context.run_calls(limit=3))
    assert most == 3 and texts(context) and context.calls == []
    with pytest.raises(UsageError):
        asyncio.run(context.run_calls(limit=0))
    goes_on(claude, context, says_something=False)


def test_a_tool_with_nothing_to_run_is_the_programs_mistake_and_the_others_are_answered(claude: Desk) -> None:
    described = Tool.raw(
        {"name": "elsewhere", "description": "Runs elsewhere.", "parameters": {"type": "object", "properties": {}}}
    )
    context = claude.context("one", tools=[add, described, shout])
    claude.ask(context, asks(("elsewhere", {}), ("add", {"a": 1, "b": 2}), ("shout", {"text": "x"})))
    with pytest.raises(UsageError, match="nothing to run"):
        asyncio.run(context.run_calls())
    [open_call] = context.calls
    assert open_call.name == "elsewhere"
    context.result(open_call, "done elsewhere")
    goes_on(claude, context, says_something=False)


def test_a_call_begun_is_known_to_be_begun(claude: Desk) -> None:
    context = claude.context("one")
    claude.ask(context, asks(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})))
    before = context.calls
    before[1].begin()
    before[1].begin()
    assert [call.was_started for call in context.calls] == [False, True]
    assert [entry.kind for entry in context.log].count("begun") == 1
    for call in before:
        context.result(call, call.run())
    assert texts(context) == ["3", "7"]
    assert [entry.kind for entry in context.log].count("begun") == 2
    goes_on(claude, context, says_something=False)
    honest(claude, context)
