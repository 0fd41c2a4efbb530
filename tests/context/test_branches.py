"""Forks (undo, edit, regenerate), declared breaks, changed heads, and conversations somebody else began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contextkit import Context, OpenAIChat, OpenAIResponses, tool
from contextkit.canonical import parse
from contextkit.errors import HeadChanged, InvalidCall, LogLocked, UnreadableRequest, UsageError
from tests.context.desk import Desk, asks, bill, goes_on, honest, says
from tests.context.head import SYSTEM, add


def blocks(body: bytes) -> list[Any]:
    """Everything said, as the request says it, marks aside."""
    fields = parse(body)
    return fields.get("messages") or fields["input"]


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_regenerate_edit_and_undo(claude: Desk, tmp_path: Path, is_on_disk: bool) -> None:
    context = claude.open(tmp_path / "run") if is_on_disk else claude.context()
    question = context.user("one")
    claude.ask(context, says("first"))
    body = context.fork(question).request().body
    for n, at in enumerate((question, question.sequence, -2)):
        branch = context.fork(at, tmp_path / f"branch-{n}" if is_on_disk else None)
        request = branch.request()
        assert request.body == body and not branch.finished
        claude.ask(branch, says("another first"))
        assert bill(request.predicted) == bill(claude.server.ledger[n + 1].usage)
        assert branch.ledger[0].lane.startswith("fork@")
        branch.close()
    if is_on_disk:
        again = claude.open(tmp_path / "branch-0")
        assert len(again.ledger) == 1 and again.finished
        goes_on(claude, again)
        assert {call.lane for call in again.ledger} == {"fork@3"}
        again.close()
    goes_on(claude, context)
    context.close()


def test_a_branch_taken_between_call_and_result_has_the_call_open(desk: Desk) -> None:
    context = desk.context("one")
    desk.ask(context, asks(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})))
    context.result(context.calls[0], 3)
    branch = context.fork()
    assert [call.id for call in branch.calls] == [call.id for call in context.calls]
    branch.result(branch.calls[0], branch.calls[0].run())
    goes_on(desk, branch, says_something=False)
    assert len(context.calls) == 1
    context.interrupt("branched")
    goes_on(desk, context)


def test_what_cannot_be_forked(claude: Desk, tmp_path: Path) -> None:
    context, other = claude.context("one"), claude.context("two")
    for at in (9, -9, other.log[1], "x", 1.5, object()):
        with pytest.raises(UsageError, match="cannot fork"):
            context.fork(at)  # type: ignore[arg-type]
    context.fork(1, tmp_path / "branch").close()
    with pytest.raises(UsageError, match="choose a new path"):
        context.fork(1, tmp_path / "branch")
    claude.open(tmp_path / "branch").close()
    goes_on(claude, context)


@pytest.mark.parametrize("keeps", [False, True])
def test_compaction_keeps_the_head_and_pays_once(claude: Desk, keeps: bool) -> None:
    context = claude.context("one " * 500)
    claude.ask(context, asks(("add", {"a": 1, "b": 2}), text="wait " * 300))
    context.result(context.calls[0], 3)
    claude.ask(context, says("first " * 300))
    kept = context.user("two")
    before, size = context.request(), context.request().predicted.prompt
    entry = context.compact("We added.", keep_from=kept if keeps else None)
    assert parse(entry.body)["rewrites_tokens"] == size
    after = context.request()
    head = after.prompt.level_ends[1]
    assert after.layout.blocks[:head] == before.layout.blocks[:head]
    assert after.predicted.read == after.prompt.ends_tokens[head - 1]
    assert "We added." in str(blocks(after.body)) and ("'two'" in str(blocks(after.body))) == keeps
    goes_on(claude, context, says_something=False)
    goes_on(claude, context)
    honest(claude, context)
    assert "1 miss" not in str(context.summary()) or context.summary().misses


def test_another_tool_set_or_system_prompt_is_a_declared_break(claude: Desk) -> None:
    @tool
    def multiply(a: int, b: int) -> int:
        """Multiply."""
        return a * b

    context = claude.context("one")
    thought = {"type": "thinking", "thinking": "Let me see. " * 5}
    claude.ask(context, {"parts": [thought, {"type": "call", "name": "add", "arguments": {"a": 1, "b": 2}}]})
    context.result(context.calls[0], 3)
    context.retool([add, multiply])
    assert context.request().epoch == 1
    claude.ask(context, asks(("multiply", {"a": 2, "b": 3})))
    assert context.calls[0].run() == 6
    context.result(context.calls[0], 6)
    context.resystem("You are brief. " * 400)
    assert "You are brief." in context.request().body.decode() and SYSTEM not in context.request().body.decode()
    goes_on(claude, context, says_something=False)
    goes_on(claude, context)
    honest(claude, context)
    assert [entry.kind for entry in context.log].count("epoch") == 2


def test_a_changed_head_is_refused_without_a_word_of_it_or_declared(claude: Desk, tmp_path: Path) -> None:
    with claude.open(tmp_path / "run") as context:
        context.user("one")
        claude.ask(context, says("first " * 300))
    n_bytes = (tmp_path / "run" / "log.jsonl").stat().st_size
    said = r"the system prompt differs .* at system\[0\]\.text .*allow_new_head=True"
    with pytest.raises(HeadChanged, match=said) as caught:
        claude.open(tmp_path / "run", system="It is Monday.")
    assert "Monday" not in str(caught.value) and "careful" not in str(caught.value)
    with pytest.raises(HeadChanged, match=r"2 items.*1 items"):
        claude.open(tmp_path / "run", tools=[add])
    assert (tmp_path / "run" / "log.jsonl").stat().st_size == n_bytes
    with claude.open(tmp_path / "run", system="It is Monday. " * 300, allow_new_head=True) as changed:
        assert "It is Monday." in changed.request().body.decode() and changed.request().epoch == 1
        goes_on(claude, changed)
    with claude.open(tmp_path / "run", system="It is Monday. " * 300) as again:
        goes_on(claude, again)
        honest(claude, again)


def test_an_adopted_conversation_is_kept_in_a_folder_once(desk: Desk, tmp_path: Path) -> None:
    begun = desk.context("one")
    desk.ask(begun, asks(("add", {"b": 2, "a": 1})))
    desk.server.reset()
    provider, body, options = desk.wire.provider(), begun.messages(), {"clock": desk.server.clock.now, "tools": [add]}
    Context.from_messages(provider, body, folder=tmp_path / "run", **options).close()
    with pytest.raises(UsageError, match=r"Context\.open"):
        Context.from_messages(provider, body, folder=tmp_path / "run", **options)
    with Context.open(tmp_path / "run", provider, clock=desk.server.clock.now) as again:
        assert again.messages() == body
        again.result(again.calls[0], 3)
        goes_on(desk, again, says_something=False)


def test_a_body_that_is_none_is_refused_before_a_folder_is_written(tmp_path: Path) -> None:
    for make, array in ((OpenAIChat, "messages"), (OpenAIResponses, "input")):
        orphans = (
            [{"role": "tool", "tool_call_id": "t1", "content": "x"}],
            [{"type": "function_call_output", "call_id": "t1", "output": "x"}],
        )
        for body in (None, 5, "x", [], {}, *({array: items} for items in (None, {}, [None], [{}], *orphans))):
            with pytest.raises((UnreadableRequest, InvalidCall)):
                Context.from_messages(make("gpt-5"), body, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_sub_agent_has_its_own_log_and_its_cost_rolls_up(claude: Desk) -> None:
    context = claude.context("one")
    claude.ask(context, says("first " * 300))
    helpers = [context.spawn(f"look into part {number}", system=SYSTEM, tools=[add]) for number in (1, 2)]
    for helper in helpers:
        claude.ask(helper, says("done"))
        helper.user("and then?")
        claude.ask(helper, says("that is all"))
    assert [len(helper.log) for helper in helpers] == [5, 5] and len(context.log) == 3
    assert len(context.ledger) == 5 == context.summary().calls
    lanes = {row.name: row.calls for row in context.summary().lanes}
    assert sorted(lanes.values()) == [1, 2, 2] and lanes["main"] == 1
    costs = [row.cost_usd for row in context.summary().lanes]
    assert sum(cost or 0 for cost in costs) == pytest.approx(context.summary().cost_usd)
    goes_on(claude, context)


def test_a_context_closes_with_its_block(claude: Desk, tmp_path: Path) -> None:
    with claude.open(tmp_path / "run") as context:
        context.user("one")
        with pytest.raises(LogLocked):
            claude.open(tmp_path / "run")
    claude.open(tmp_path / "run").close()


def test_a_sub_agent_that_closes_leaves_its_callers_ledger_open(claude: Desk, tmp_path: Path) -> None:
    with claude.open(tmp_path / "run") as context:
        context.user("one")
        with context.spawn("look into it", system=SYSTEM) as helper:
            claude.ask(helper, says("done"))
        claude.ask(context, says("two"))
        assert len(context.ledger) == 2
    with claude.open(tmp_path / "run") as again:
        assert len(again.ledger) == 2 and len(again.log) == 3
