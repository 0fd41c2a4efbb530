"""Forks (undo, edit, regenerate), declared breaks, changed heads, and conversations somebody else began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses, tool
from contextkit.canonical import parse
from contextkit.errors import HeadChanged, InvalidCall, InvalidTool, LogLocked, UnreadableRequest, UsageError
from tests.context.desk import Desk, asks, bill, goes_on, honest, says
from tests.context.head import SYSTEM, add, shout


def blocks(body: bytes) -> list[Any]:
    """Everything said, as the request says it, marks aside."""
    fields = parse(body)
    return fields.get("messages") or fields["input"]


def test_a_branch_shares_its_prefix_and_reads_it_from_the_cache(claude: Desk) -> None:
    context = claude.context("one")
    claude.ask(context, says("first " * 300))
    question = context.user("two")
    claude.ask(context, says("second"))
    branch = context.fork(question.sequence - 1)  # an edit: another question in the same place
    branch.user("two, but better")
    request = branch.request()
    assert request.predicted.read and request.predicted.read > 1000
    assert len(context.log) == 5 and len(branch.log) == 5
    goes_on(claude, branch)
    assert len(context.ledger) == 2 and len(branch.ledger) == 1
    goes_on(claude, context)


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
        assert {exchange.lane for exchange in again.ledger} == {"fork@3"}
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
def test_compaction_keeps_the_head_and_pays_once(desk: Desk, keeps: bool) -> None:
    context = desk.context("one " * 500)
    desk.ask(context, asks(("add", {"a": 1, "b": 2}), text="wait " * 300))
    context.result(context.calls[0], 3)
    desk.ask(context, says("first " * 300))
    kept = context.user("two")
    before, size = context.request(), context.request().predicted.prompt
    entry = context.compact("We added.", keep_from=kept if keeps else None)
    assert parse(entry.body)["rewrites_tokens"] == size
    after = context.request()
    head = after.prompt.level_ends[1]
    assert after.layout.blocks[:head] == before.layout.blocks[:head]
    assert after.predicted.read == after.prompt.ends_tokens[head - 1]
    assert "We added." in str(blocks(after.body)) and ("'two'" in str(blocks(after.body))) == keeps
    goes_on(desk, context, says_something=False)
    goes_on(desk, context)
    honest(desk, context)
    assert "1 miss" not in str(context.summary()) or context.summary().misses


def test_what_cannot_be_compacted(claude: Desk) -> None:
    context = claude.context("one")
    claude.ask(context, asks(("add", {"a": 1, "b": 2})))
    with pytest.raises(InvalidCall, match="answer its calls"):
        context.compact("cut")
    context.result(context.calls[0], 3)
    with pytest.raises(InvalidCall):
        context.compact("cut", keep_from=3)
    for wrong in (99, "x", 1.5, claude.context("other").log[1]):
        with pytest.raises(UsageError):
            context.compact("cut", keep_from=wrong)  # type: ignore[arg-type]
    for empty in ("", None, [], " "):
        with pytest.raises(UsageError):
            context.compact(empty)
    assert len(context.log) == 4
    goes_on(claude, context, says_something=False)


def test_another_tool_set_or_system_prompt_is_a_declared_break(desk: Desk) -> None:
    @tool
    def multiply(a: int, b: int) -> int:
        """Multiply."""
        return a * b

    context = desk.context("one")
    thought = {"type": "thinking", "thinking": "Let me see. " * 5}
    desk.ask(context, {"parts": [thought, {"type": "call", "name": "add", "arguments": {"a": 1, "b": 2}}]})
    context.result(context.calls[0], 3)
    context.retool([add, multiply])
    assert context.request().epoch == 1
    desk.ask(context, asks(("multiply", {"a": 2, "b": 3})))
    assert context.calls[0].run() == 6
    context.result(context.calls[0], 6)
    context.resystem("You are brief. " * 400)
    assert "You are brief." in context.request().body.decode() and SYSTEM not in context.request().body.decode()
    goes_on(desk, context, says_something=False)
    goes_on(desk, context)
    honest(desk, context)
    assert [entry.kind for entry in context.log].count("epoch") == 2


def test_a_changed_head_is_refused_or_declared(claude: Desk, tmp_path: Path) -> None:
    context = claude.open(tmp_path / "run")
    context.user("one")
    claude.ask(context, says("first " * 300))
    context.close()
    n_bytes = (tmp_path / "run" / "log.jsonl").stat().st_size
    with pytest.raises(
        HeadChanged, match=r"the system prompt differs .* at system\[0\]\.text .*allow_new_head=True"
    ) as caught:
        claude.open(tmp_path / "run", system="It is Monday.")
    assert "Monday" not in str(caught.value) and "careful" not in str(caught.value)
    with pytest.raises(HeadChanged, match=r"tools differ.*tools\[0\]\.name"):
        claude.open(tmp_path / "run", tools=[shout, add])
    with pytest.raises(HeadChanged, match=r"2 items.*1 items"):
        claude.open(tmp_path / "run", tools=[add])
    assert (tmp_path / "run" / "log.jsonl").stat().st_size == n_bytes
    stored = claude.open(tmp_path / "run", system=None, tools=None)
    assert SYSTEM in stored.request().body.decode() and '"add"' in stored.request().body.decode()
    stored.close()
    changed = claude.open(tmp_path / "run", system="It is Monday. " * 300, allow_new_head=True)
    assert "It is Monday." in changed.request().body.decode() and changed.request().epoch == 1
    goes_on(claude, changed)
    changed.close()
    again = claude.open(tmp_path / "run", system="It is Monday. " * 300)
    goes_on(claude, again)
    honest(claude, again)
    again.close()


CALL = {"b": 2, "a": 1}
BODIES: dict[str, Any] = {
    "anthropic_messages": {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1024,
        "system": [{"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}],
        "tools": [
            {
                "name": "add",
                "description": "Add, as it was then.",
                "input_schema": {"type": "object", "properties": {"b": {}, "a": {}}},
            },
            {"type": "web_search_20250305", "name": "web_search"},
        ],
        "messages": [
            {"role": "user", "content": "one"},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "wait"},
                    {"type": "tool_use", "id": "t1", "name": "add", "input": CALL},
                    {"type": "tool_use", "id": "t2", "name": "add", "input": {"a": 5, "b": 5}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "3", "is_error": False},
                    {"type": "tool_result", "tool_use_id": "t2", "content": [{"type": "text", "text": "10"}]},
                    {"type": "text", "text": "quick", "cache_control": {"type": "ephemeral"}},
                ],
            },
            {"role": "assistant", "content": "13"},
            {"role": "user", "content": [{"type": "text", "text": "and now?"}]},
        ],
    },
    "openai_chat": {
        "model": "gpt-6.1-sol",
        "tools": [
            {
                "type": "function",
                "function": {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {}}},
            }
        ],
        "messages": [
            {"role": "developer", "content": SYSTEM},
            {"role": "user", "content": "one"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "t1", "type": "function", "function": {"name": "add", "arguments": '{"b": 2,\n "a": 1}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "t1", "content": "3"},
            {"role": "assistant", "content": "3", "refusal": None},
            {"role": "user", "name": "ada", "content": "and now?"},
        ],
    },
    "openai_responses": {
        "model": "gpt-6.1-sol",
        "instructions": SYSTEM,
        "store": False,
        "tools": [
            {
                "type": "function",
                "name": "add",
                "description": "Add.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
        "input": [
            {"role": "user", "content": "one"},
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "t1",
                "name": "add",
                "arguments": '{"b":2,"a":1}',
                "status": "completed",
            },
            {"type": "function_call_output", "call_id": "t1", "output": "3"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "3", "annotations": []}],
            },
            {"role": "user", "content": [{"type": "input_text", "text": "and now?"}]},
        ],
    },
}


def adopted(desk: Desk, **more: Any) -> Context:
    provider = desk.wire.provider()
    return Context.from_messages(provider, BODIES[provider.wire], clock=desk.server.clock.now, **more)


def test_a_conversation_somebody_else_began_goes_on_where_it_was(desk: Desk) -> None:
    context = adopted(desk, tools=[add])
    body = BODIES[context.provider.wire]
    theirs = context.provider.parse({**body, "model": context.provider.model.name}).prompt
    ours = context.request().prompt
    assert list(ours.digests[: ours.n]) == list(theirs.digests[: theirs.n]) and ours.level_ends == theirs.level_ends
    with desk.client() as client:  # they send theirs, we go on with ours: what they wrote is read
        fields = {**body, "max_tokens": 1024} if "max_tokens" in body else body
        desk.server.script([says("theirs")])
        desk.wire.create(client)(**fields)
    desk.ask(context, asks(("add", CALL)))
    assert desk.server.ledger[1].usage is not None and desk.server.ledger[1].usage.read
    assert context.calls[0].run() == 3
    context.result(context.calls[0], 3)
    goes_on(desk, context, says_something=False)


def test_an_adopted_conversation_is_kept_in_a_folder_once(desk: Desk, tmp_path: Path) -> None:
    context = adopted(desk, folder=tmp_path / "run")
    body = context.request().body
    context.close()
    with pytest.raises(UsageError, match=r"Context\.open"):
        adopted(desk, folder=tmp_path / "run")
    again = Context.open(tmp_path / "run", desk.wire.provider(), clock=desk.server.clock.now)
    assert again.request().body == body
    goes_on(desk, again)
    again.close()


def test_a_body_that_ends_with_open_calls_has_them_open(desk: Desk) -> None:
    provider = desk.wire.provider()
    body = BODIES[provider.wire]
    array = "input" if "input" in body else "messages"
    n = next(n for n, item in enumerate(body[array]) if "t1" in str(item)) + 1
    context = Context.from_messages(
        provider, {**body, array: body[array][:n]}, tools=[add], clock=desk.server.clock.now
    )
    assert context.calls[0].id == "t1" and context.calls[0].arguments == CALL
    for call in context.calls:
        context.result(call, call.run())
    goes_on(desk, context, says_something=False)


@pytest.mark.parametrize(
    "provider", [AnthropicMessages("claude-sonnet-5-5", max_tokens=9), OpenAIChat("gpt-5"), OpenAIResponses("gpt-5")]
)
def test_a_body_that_is_none_is_refused_before_a_folder_is_written(provider: Any, tmp_path: Path) -> None:
    array = "input" if provider.wire == "openai_responses" else "messages"
    items: list[Any] = [
        None,
        "x" if array == "messages" else 5,
        {},
        [None],
        [{}],
        [{"role": 5}],
        [{"role": "user"}],
        [{"role": "robot", "content": "x"}],
        [{"role": "user", "content": [{}]}],
        [{"role": "user", "content": [{"type": ["x"]}]}],
        [{"role": "tool", "content": "x"}],
        [{"type": "function_call_output"}],
        [{"type": "function_call"}],
    ]
    for body in (None, 5, "x", [], {}, *({array: item} for item in items)):
        words = None if isinstance(body, dict) else r"a request body, .* and no "
        with pytest.raises((UnreadableRequest, InvalidCall), match=words):
            Context.from_messages(provider, body, folder=tmp_path / "run")
    for tools in (5, [None], ["add"]):
        with pytest.raises((InvalidTool, UnreadableRequest)):
            Context.from_messages(
                provider, {array: [{"role": "user", "content": "x"}], "tools": tools}, folder=tmp_path / "run"
            )
    assert not (tmp_path / "run").exists()
    called = ("'tool_use'", "tool_calls", "'function_call'")
    orphan = [item for item in BODIES[provider.wire][array] if not any(word in str(item) for word in called)]
    with pytest.raises(InvalidCall, match="unknown"):
        Context.from_messages(provider, {**BODIES[provider.wire], array: orphan}, folder=tmp_path / "run")
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
