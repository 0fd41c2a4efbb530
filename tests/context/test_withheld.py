"""Reasoning that is left out of a prompt: by the rule of `reasoning.context`, and where a reply says so, OpenAI's or
Claude's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from anthropic.types.beta import BetaMessage, BetaRawMessageDeltaEvent
from openai.types.responses import Response

from contextkit import AnthropicMessages, Context, OpenAIResponses
from contextkit.canonical import parse
from contextkit.ledger.misses import analyzed_calls
from contextkit.providers.anthropic.response import joined
from contextkit.server import LocalServer
from tests.context.desk import WIRES, Desk, asks, bill, says
from tests.context.head import SYSTEM, add, shout
from tests.server.strict import strictly

THINKS: dict[str, Any] = {"type": "thinking", "thinking": "Let me see. " * 60}


@pytest.fixture
def desk(running: LocalServer) -> Desk:
    running.reset()
    return Desk(WIRES["responses"], running)


def begun(desk: Desk, model: str, **params: Any) -> Context:
    return Context(OpenAIResponses(model, **params), system=SYSTEM, tools=[add, shout], clock=desk.server.clock.now)


def turn(desk: Desk, context: Context, text: str, script: Any) -> Response:
    if text:
        context.user(text)
    desk.server.script([{**script, "parts": [THINKS, *script["parts"]]}])
    with desk.client() as client:
        request = context.request()
        reply = request.send(client)
        context.receive(reply, request)
    assert isinstance(reply, Response)
    return strictly(Response, reply.to_dict())


@pytest.mark.parametrize(
    ("model", "asked", "is_stripped", "continues"),
    [
        ("gpt-5.5", None, True, False),
        ("gpt-5.5", "auto", True, True),
        ("gpt-5.5", "all_turns", False, False),
        ("gpt-5.6-sol", None, False, False),
        ("gpt-6.1-sol", "auto", False, True),
        ("gpt-6.1-sol", "current_turn", True, True),
    ],
)
def test_the_context_of_reasoning_decides_what_stays_in_the_prompt(
    desk: Desk, model: str, asked: str | None, is_stripped: bool, continues: bool
) -> None:
    context = begun(desk, model, continues=continues, **({"reasoning": {"context": asked}} if asked else {}))
    first = turn(desk, context, "one", asks(("add", {"a": 1, "b": 2})))
    context.result(context.calls[0], 3)
    second = turn(desk, context, "", says("Three."))
    third = turn(desk, context, "two", says("Yes."))
    assert second.input_transformations is None, "reasoning stays while the turn goes on"
    thought = [item.id for reply in (first, second) for item in reply.output if item.type == "reasoning"]
    removed = third.input_transformations or []
    assert [(one.id, one.reason) for one in removed] == (
        [(name, "turn_boundary") for name in thought] if is_stripped else []
    )
    assert [bill(call.usage) for call in context.ledger] == [bill(call.predicted) for call in context.ledger]
    assert context.ledger.remarks == [], "what the rule says needs no remark"
    sizes = [call.usage.prompt or 0 for call in context.ledger if call.usage]
    assert (sizes[2] < sizes[1]) == is_stripped


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_reasoning_that_a_reply_says_was_left_out_counts_no_more(desk: Desk, is_on_disk: bool, tmp_path: Path) -> None:
    options: Any = {"system": SYSTEM, "tools": [add, shout], "clock": desk.server.clock.now}
    provider = OpenAIResponses("gpt-6.1-sol")
    context = Context.open(tmp_path / "run", provider, **options) if is_on_disk else Context(provider, **options)
    thought = next(item.id for item in turn(desk, context, "one", says("first")).output if item.type == "reasoning")
    context.user("two")
    request = context.request()
    answer = {
        **strictly(Response, _plain(desk, request)).to_dict(),
        "input_transformations": [
            {"id": thought, "action": "removed", "reason": "prefix_mismatch", "type": "reasoning"}
        ],
    }
    context.receive(strictly(Response, answer), request)
    assert parse(context.log[-1].body)["withheld"] == [thought]
    [remark] = context.ledger.remarks
    assert (remark.kind, remark.about, remark.text) == ("verdict", answer["id"], "reasoning removed: prefix_mismatch")
    assert [call.diagnosis for call in analyzed_calls(context.ledger.records)] == [
        "",
        "reasoning removed: prefix_mismatch",
    ]
    if is_on_disk:
        context.close()
        context = Context.open(tmp_path / "run", provider, **options)
    context.user("three")
    after = context.request()
    assert thought.encode() in after.body, "the wire says what the log holds; the provider leaves it out anew"
    plain = begun(desk, "gpt-6.1-sol")
    for entry in context.log[1:]:
        body = parse(entry.body)
        if entry.kind == "assistant":
            body["native"]["body"] = [item for item in body["native"]["body"] if item.get("id") != thought]
        plain._append(entry.kind, {name: value for name, value in body.items() if name != "withheld"})
    without = plain.request()
    assert after.prompt.n_tokens == without.prompt.n_tokens
    assert after.prompt.digests[after.prompt.n - 1] == without.prompt.digests[without.prompt.n - 1]
    assert (after.predicted.read or 0) > request.predicted.prompt - 400, (
        "the call that said so has warmed what it really read"
    )  # type: ignore[operator]
    fork = context.fork(context.log[3])
    assert fork.request().prompt.n_tokens == request.prompt.n_tokens, "before that reply it was still counted"
    context.close()


def _plain(desk: Desk, request: Any) -> dict[str, Any]:
    desk.server.script([says("second")])
    found: dict[str, Any] = desk.send(request, "send").to_dict()
    return found


def test_what_is_named_but_not_in_the_prompt_is_passed_over(desk: Desk) -> None:
    context = begun(desk, "gpt-6.1-sol")
    turn(desk, context, "one", says("first"))
    context.user("two")
    request = context.request()
    gone = [{"id": "rs_none", "action": "removed", "reason": "prefix_mismatch", "type": "reasoning"}]
    context.receive({**_plain(desk, request), "input_transformations": gone}, request)
    assert "withheld" not in parse(context.log[-1].body) and context.ledger.remarks == []


def test_what_was_lost_with_it_is_a_miss_at_the_entry_that_held_it(desk: Desk) -> None:
    context = begun(desk, "gpt-6.1-sol")
    thought = next(
        item.id for item in turn(desk, context, "one", says("first " * 3000)).output if item.type == "reasoning"
    )
    turn(desk, context, "two", says("second"))
    context.user("three")
    request = context.request()
    answer = {
        **_plain(desk, request),
        "input_transformations": [
            {"id": thought, "action": "removed", "reason": "prefix_mismatch", "type": "reasoning"}
        ],
    }
    read, shorter = 1_000, (request.predicted.prompt or 0) - 200
    answer["usage"]["input_tokens"] = shorter
    answer["usage"]["input_tokens_details"] = {"cached_tokens": read, "cache_write_tokens": shorter - read}
    context.receive(answer, request)
    miss = context.summary().misses[-1]
    assert (miss.cause, miss.exchange_id, miss.certain) == (
        "messages_changed",
        answer["id"],
        True,
    ) and "entry 2" in miss.where
    assert miss.lost_tokens > 2_000
    context.user("four")
    assert (context.request().predicted.read or 0) > shorter - 300, "what it wrote is what the next one reads"


@pytest.mark.parametrize("is_streamed", [False, True])
def test_thinking_that_claude_says_it_dropped_counts_no_more(
    running: LocalServer, is_streamed: bool, tmp_path: Path
) -> None:
    running.reset()
    desk = Desk(WIRES["anthropic"], running)
    provider = AnthropicMessages("claude-opus-5-5", max_tokens=1024)
    options: Any = {"system": SYSTEM, "tools": [add, shout], "clock": desk.server.clock.now}
    context = Context.open(tmp_path / "run", provider, **options)
    context.user("one")
    desk.ask(context, {"parts": [THINKS, {"type": "text", "text": "first"}]})
    context.user("two")
    request = context.request()
    row = {"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
    answer = {
        "id": "msg_2",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "second"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 2},
        "input_transformations": [row],
    }
    context.receive(joined(streamed(answer)) if is_streamed else strictly(BetaMessage, answer), request)
    [name] = parse(context.log[-1].body)["withheld"]
    assert [remark.text for remark in context.ledger.remarks] == ["reasoning removed: prefix_binding_mismatch"]
    context.close()
    context = Context.open(tmp_path / "run", provider, **options)
    context.user("three")
    after = context.request()
    assert b'"thinking"' in after.body and len(name) == 16
    places = [place for place in range(after.layout.n) if b'"thinking"' in after.layout.columns.body(place)]
    assert places and all(place in after.layout.columns.silent for place in places)
    context.close()


def streamed(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The same as events: what was left out is said with the last delta."""
    rows = answer["input_transformations"]
    start = {key: value for key, value in answer.items() if key != "input_transformations"}
    delta = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": {**start, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": answer["content"][0]["text"]},
        },
        {"type": "content_block_stop", "index": 0},
        strictly(
            BetaRawMessageDeltaEvent,
            {
                "type": "message_delta",
                "delta": delta,
                "usage": {"output_tokens": 2},
                "input_transformations": rows,
            },
        ).to_dict(),
        {"type": "message_stop"},
    ]
