"""How large results live in the window: shown once, kept, referenced or read by a side call, through real clients."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, FileMemory, tool
from contextkit.errors import InvalidCall, UsageError
from contextkit.memory import Memory, Offload, Residency
from tests.context.desk import Desk, asks, honest, says

_numbers = count()
PAGE = "\n".join(f"row {number}: {number * number}" for number in range(2_000))
LAST_ROW = "row 1999: 3996001"
MIDDLE_ROW = "row 1000: 1000000"


@tool
def fetch(url: str) -> str:
    """Get a page."""
    return f"{url}\n{PAGE}"


def memory(residency: Any, **more: Any) -> Memory:
    return Memory(FileMemory(f"memory://residency-{next(_numbers)}"), residency=residency, **more)


PASSING = Residency("pass", drops_reasoning=True)
SYSTEM = "You are careful. " * 500


def research(desk: Desk, residency: Any, n_pages: int = 3, **options: Any) -> Context:
    context = desk.context("Read the pages.", system=SYSTEM, tools=[fetch], memory=memory(residency), **options)
    for page in range(n_pages):
        read(desk, context, page)
    return context


def read(desk: Desk, context: Context, *pages: int) -> None:
    desk.ask(context, asks(*(("fetch", {"url": f"u{page}"}) for page in pages)))
    for call in context.calls:
        context.result(call, call.run())


def sent(context: Context) -> str:
    return context.request().body.decode()


def predicted_is_billed(context: Context) -> None:
    for call in context.ledger.calls:
        assert call.predicted is not None and call.usage is not None
        assert (call.predicted.read, call.predicted.prompt) == (call.usage.read, call.usage.prompt)


def test_a_passing_result_is_seen_whole_by_one_reply_only(desk: Desk) -> None:
    context = research(desk, PASSING, 1)
    assert MIDDLE_ROW in sent(context)
    assert sent(context) == sent(context)
    desk.ask(context, says("Noted."))
    context.user("Go on.")
    body = sent(context)
    assert MIDDLE_ROW not in body
    assert "read_reference" in body
    desk.ask(context, says())
    honest(desk, context)
    predicted_is_billed(context)
    [entry] = [entry for entry in context.log if entry.kind == "result"]
    assert context.restore(entry) == [{"type": "text", "text": f"u0\n{PAGE}"}]


def test_a_passing_result_is_never_written(claude: Desk) -> None:
    context = research(claude, PASSING, 4)
    claude.ask(context, says())
    whole = len(PAGE) // 4
    for call in context.ledger.calls[1:]:
        assert call.usage is not None and (call.usage.fresh or 0) > 0.8 * whole
        assert (call.usage.write_5m or 0) < 0.5 * whole
    staying = research(claude, "stay", 4)
    claude.ask(staying, says())
    cost, other = context.summary().cost_usd, staying.summary().cost_usd
    assert cost is not None and other is not None and cost < other
    assert MIDDLE_ROW in sent(staying)


def test_a_retry_sees_the_whole_result_again_and_so_does_a_resumed_conversation(claude: Desk, tmp_path: Path) -> None:
    options: dict[str, Any] = {"system": SYSTEM, "tools": [fetch]}
    files = FileMemory(tmp_path / "files")
    with claude.open(tmp_path / "log", memory=Memory(files, residency=PASSING), **options) as context:
        context.user("Read.")
        read(claude, context, 0)
        before = context.request().body
        context.failed("the connection was lost")
        assert context.request().body == before
    with claude.open(tmp_path / "log", memory=Memory(files, residency=PASSING), **options) as context:
        assert context.request().body == before
        assert "pass" in context.plan.explain()
        claude.ask(context, says())
        context.user("Go on.")
        after = context.request().body
    with claude.open(tmp_path / "log", memory=Memory(files, residency="stay"), **options) as context:
        assert context.request().body == after
        assert MIDDLE_ROW.encode() not in after


def test_reasoning_that_saw_the_whole_result_leaves_the_prompt_where_it_is_bound(claude: Desk) -> None:
    context = claude.context("Read.", system=SYSTEM, tools=[fetch], memory=memory(PASSING))
    thinking = {"type": "thinking", "thinking": "I saw row 1000."}
    for page in range(3):
        claude.ask(context, {"parts": [thinking, *asks(("fetch", {"url": f"u{page}"}))["parts"]]})
        for call in context.calls:
            context.result(call, call.run())
    claude.ask(context, {"parts": [thinking, *says()["parts"]]})
    context.user("Go on.")
    claude.ask(context, says())  # a moved past would be answered with 400
    blocks = [block for message in json.loads(sent(context))["messages"] for block in message["content"]]
    assert sum(block["type"] == "thinking" for block in blocks) == 1  # of the reply that had seen no result yet
    honest(claude, context)
    predicted_is_billed(context)


def test_passing_is_refused_where_reasoning_is_bound_unless_it_may_be_dropped(claude: Desk) -> None:
    with pytest.raises(UsageError, match="drops_reasoning"):
        claude.context(memory=memory("pass"))
    context = research(claude, "auto", 1)
    assert "not pass: the model binds its reasoning" in context.plan.explain()
    Context(AnthropicMessages("claude-sonnet-4-6", max_tokens=9), memory=memory("pass"))


def test_a_model_that_reads_everything_back_gets_results_whole(claude: Desk) -> None:
    free = replace(claude.wire, provider=lambda: AnthropicMessages("claude-sonnet-4-6", max_tokens=1024))
    desk = Desk(free, claude.server)
    context = desk.context("Read the pages.", system=SYSTEM, tools=[fetch], memory=memory("auto"))
    kinds = []
    for page in range(8):
        desk.ask(context, asks(("fetch", {"url": f"u{page}"})))
        [call] = context.calls
        kinds.append(context.residency(call, call.run()))
        entry = context.result(call, call.run())
        references = json.loads(entry.body)["references"]
        if kinds[-1] == "reference":
            desk.ask(context, asks(("read_reference", {"id": references[0]["digest"][:16]})))
            for call in context.calls:
                context.result(call, call.run())
    assert kinds[0] == "reference"
    assert kinds[-1] == "pass"
    desk.ask(context, says())
    predicted_is_billed(context)


def test_what_is_read_back_is_shown_once_too(claude: Desk) -> None:
    policy = Residency(by_tool={"fetch": "reference", "read_reference": "pass"}, drops_reasoning=True)
    context = claude.context("Read.", system=SYSTEM, tools=[fetch], memory=memory(policy))
    read(claude, context, 0)
    [reference] = json.loads(context.log[-1].body)["references"]
    claude.ask(context, asks(("read_reference", {"id": reference["digest"][:16], "start_line": 900})))
    [call] = context.calls
    entry = context.result(call, call.run())
    assert MIDDLE_ROW in sent(context)
    claude.ask(context, says())
    context.user("Go on.")
    body = sent(context)
    assert MIDDLE_ROW not in body
    assert "Shown once" in body
    assert "start_line" in body
    assert MIDDLE_ROW in context.restore(entry)[0]["text"]
    claude.ask(context, says())
    honest(claude, context)
    predicted_is_billed(context)


def test_a_side_call_reads_a_result_whole_and_its_extract_is_the_result(claude: Desk) -> None:
    context = claude.context("Read.", system=SYSTEM, tools=[fetch], memory=memory("delegate"))
    claude.ask(context, asks(("fetch", {"url": "u0"}), ("fetch", {"url": "u1"})))
    for call in context.calls:
        value = call.run()
        assert context.residency(call, value) == "delegate"
        side = context.delegate(call, value)
        assert MIDDLE_ROW in sent(side)
        claude.ask(side, says("Squares of 0 to 1999."))
        for options in ({"source": "https://example.com"}, {"is_error": True}):
            with pytest.raises(UsageError, match="leave them out"):
                context.result(call, side, **options)
        entry = context.result(call, side)
        assert context.restore(entry) == [{"type": "text", "text": f"{call.arguments['url']}\n{PAGE}"}]
    body = sent(context)
    assert body.count("Squares of 0 to 1999.") == 2
    assert MIDDLE_ROW not in body
    claude.ask(context, says())
    honest(claude, context)
    predicted_is_billed(context)


def test_what_cannot_be_delegated_is_said_so(claude: Desk) -> None:
    context = research(claude, "auto", 0)
    claude.ask(context, asks(("fetch", {"url": "u0"})))
    [call] = context.calls
    with pytest.raises(UsageError, match="large"):
        context.delegate(call, "small")
    with pytest.raises(InvalidCall, match="not open"):
        context.delegate("no-such-call", PAGE)
    side = context.delegate(call, call.run())
    with pytest.raises(UsageError, match="no answer yet"):
        context.result(call, side)
    other = context.fork()
    other.result(call, "x")
    context.result(call, call.run())
    with pytest.raises(UsageError, match="needs a memory"):
        claude.context("hi").delegate("c", PAGE)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("pas", "is none of"),
        (3, "not int"),
        ({"calls_to_come": -1}, "0 or more"),
    ],
)
def test_a_wrong_policy_is_refused(bad: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        memory(Residency(**bad) if isinstance(bad, dict) else bad)


def test_small_results_and_those_without_a_policy_are_written_as_before(claude: Desk) -> None:
    context = claude.context(system=SYSTEM, tools=[fetch], memory=memory("auto", offload=Offload(10_000, 400)))
    context.user("Read.")
    read(claude, context, 0)
    assert "residency" not in json.loads(context.log[-1].body)
    plain = claude.context(system=SYSTEM, tools=[fetch], memory=memory(None))
    plain.user("Read.")
    read(claude, plain, 0)
    assert set(json.loads(plain.log[-1].body)) == {"call_id", "name", "content", "is_error", "references"}
    assert LAST_ROW in sent(plain)
