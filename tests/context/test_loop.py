"""The loop of the README, what is said while a reply is under way, how replies end, and a folder opened again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contextkit.canonical import parse
from contextkit.errors import InvalidCall
from tests.context.desk import Desk, asks, bill, goes_on, honest, says


@pytest.mark.parametrize("is_typed", [True, False], ids=["create", "send"])
def test_the_loop_ends_and_every_bill_is_as_predicted(desk: Desk, is_typed: bool) -> None:
    desk.server.script(
        [
            asks(("add", {"a": 1, "b": 2}), ("shout", {"text": "x"}), text="wait"),
            asks(("add", {"b": 3, "a": 3})),
            says("6"),
        ]
    )
    context, predictions = desk.context("What is 1 + 2 + 3?"), []
    with desk.client() as client:
        while not context.finished:
            request = context.request()
            predictions.append(bill(request.predicted))
            context.receive(desk.wire.create(client)(**request) if is_typed else request.send(client))
            for call in context.calls:
                context.result(call, call.run())
    assert predictions == [bill(recorded.usage) for recorded in desk.server.ledger]
    ran = ["begun", "result"]
    kinds = ["opened", "user", "assistant", *ran, *ran, "assistant", *ran, "assistant"]
    assert [entry.kind for entry in context.log] == kinds
    assert predictions[1][1] and predictions[2][1] and predictions[2][1] > predictions[1][1]  # type: ignore[index]
    assert "of input read from cache" in str(context.summary()) and context.summary().calls == 3
    goes_on(desk, context)
    honest(desk, context)


def test_the_loop_goes_on_with_the_calls_a_crash_left_open(claude: Desk, tmp_path: Path) -> None:
    claude.server.script([asks(("add", {"a": 1, "b": 2})), says("Three.")])
    with claude.open(tmp_path / "run") as context, claude.client() as client:
        context.user("What is 1 + 2?")
        context.receive(context.request().send(client))
    with claude.open(tmp_path / "run") as context, claude.client() as client:
        with pytest.raises(InvalidCall, match=r"1 call is unanswered: context\.result"):
            context.request()
        while not context.finished:  # as in the README
            for call in context.calls:
                context.result(call, call.run())
            context.receive(context.request().send(client))
        assert context.last_text == "Three."
        assert [entry.kind for entry in context.log] == ["opened", "user", "assistant", "begun", "result", "assistant"]


def test_of_two_requests_the_older_may_be_the_one_that_was_answered(claude: Desk) -> None:
    context = claude.context("one")
    older = context.request()
    context.user("two")
    newer = context.request()
    claude.server.script([says("to the first"), says("to both")])
    with claude.client() as client:
        context.receive(older.send(client), older)
        assert [entry.kind for entry in context.log] == ["opened", "user", "user", "assistant"]
        late = newer.send(client)
        with pytest.raises(InvalidCall, match="before entry 3"):
            context.receive(late, newer)
    assert len(context.log) == 4
    assert [call.error for call in context.ledger] == [None, "not kept"]
    assert bill(context.ledger[1].usage) == bill(claude.server.ledger[1].usage)
    goes_on(claude, context)


ENDINGS: dict[str, Any] = {
    "done": says("x"),
    "truncated": says("x", stop="truncated"),
    "refused": {"parts": [], "stop": "refused"},
}


@pytest.mark.parametrize("stop", ENDINGS)
def test_each_ending_has_a_next_move(desk: Desk, stop: str) -> None:
    context = desk.context("one")
    assert context.stop is None and not context.finished
    desk.ask(context, ENDINGS[stop])
    assert context.stop == stop and context.finished
    goes_on(desk, context)
    honest(desk, context)


def test_a_paused_turn_is_continued_by_the_next_request(claude: Desk) -> None:
    context = claude.context("one")
    claude.ask(context, says("thinking about it", stop="paused"))
    assert context.stop == "paused" and not context.finished
    goes_on(claude, context, says_something=False)
    honest(claude, context)


def test_a_reply_that_fills_the_window_is_overflow(claude: Desk) -> None:
    context = claude.context("one")
    claude.ask(context, says("long", stop="overflow"))
    assert context.stop == "overflow" and context.finished
    context.compact("We said one.")
    goes_on(claude, context)
    honest(claude, context)


def test_a_call_that_the_token_limit_cut_off_is_not_run(desk: Desk) -> None:
    context = desk.context("one")
    desk.ask(context, asks(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2}), stop="truncated"))
    assert context.stop == "truncated" and not context.finished
    whole, cut = context.calls
    assert (whole.run(), whole.is_cut, cut.is_cut) == (2, False, True)
    assert "token limit" in str(cut.run())
    for call in context.calls:
        context.result(call, call.run())
    assert parse(context.log[-1].body)["is_error"]
    goes_on(desk, context, says_something=False)
    honest(desk, context)


def test_an_incomplete_call_of_a_stream_is_kept_so_that_it_can_be_sent_again(claude: Desk) -> None:
    context = claude.context("one")
    message = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [], "usage": {}}
    block = {"type": "tool_use", "id": "t", "name": "add", "input": {}}
    torn = {"type": "input_json_delta", "partial_json": '{"a": 1, "b'}
    events: list[Any] = [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": torn},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 9}},
    ]
    request = context.request()
    assert len(list(context.stream(events, request))) == 5
    [call] = context.calls
    context.result(call, call.run())
    claude.ask(context, says("That is all."))
    assert context.finished
