"""The judge of a watched client: what an internal error does to it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.judge import Judge
from contextkit.watcher.guard import Guard
from contextkit.watcher.live_judge import LiveJudge
from contextkit.watcher.naming import conversation
from contextkit.watcher.notify import Notifier
from tests.watcher.talk import CLAUDE, HEAD, Talk, Told


def a_call(number: int) -> tuple[ModelCall, bytes]:
    """The only call of a conversation, with its body."""
    body = {"model": CLAUDE, "system": HEAD, "messages": [{"role": "user", "content": f"Question {number}"}]}
    bill = Usage(2_000, 0, 0, 0, 9)
    call = ModelCall(f"{number}", f"watch-{number}", at=float(number), provider="anthropic", model=CLAUDE, usage=bill)
    return call, json.dumps(body).encode()


def test_an_internal_error_reaches_neither_request_nor_reply(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Judge, "feed", fail)
    monkeypatch.setattr(Judge, "forecast", fail)
    judge, (call, body) = LiveJudge[str](), a_call(1)
    assert judge.forecast(call, body) is None
    assert judge.ended(judge.sent(call.at), call, body, "1") == [("1", None)]
    assert [record.message for record in caplog.records] == ["a call was not judged (ZeroDivisionError)"] * 2


def test_a_call_that_is_answered_early_waits_for_those_sent_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[str] = []
    monkeypatch.setattr(Judge, "feed", lambda _self, call, *_: fed.append(call.id))
    judge, calls = LiveJudge[str](), [a_call(number) for number in range(1, 5)]
    tickets = [judge.sent(call.at) for call, _ in calls[:3]]
    assert judge.ended(tickets[2], *calls[2], "3") == judge.ended(tickets[1], *calls[1], "2") == []
    assert [name for name, _ in judge.ended(tickets[0], *calls[0], "1")] == fed == ["1", "2", "3"]
    judge.ended(judge.sent(4.0), calls[3][0], None, "4")  # refused
    assert fed == ["1", "2", "3"]


def test_a_call_that_is_dropped_before_it_ends_is_waited_for_no_more() -> None:
    judge, calls = LiveJudge[str](), [a_call(number) for number in range(1, 4)]
    dropped, other, last = (judge.sent(call.at) for call, _ in calls)
    assert judge.ended(other, *calls[1], "2") == []
    del dropped
    assert [name for name, _ in judge.ended(last, *calls[2], "3")] == ["2", "3"]
    assert not judge._in_flight


def test_calls_that_wait_for_one_that_never_ends_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contextkit.watcher.live_judge.MOST_BYTES", 1 << 16)
    judge, (call, body) = LiveJudge[int](), a_call(1)
    hanging = judge.sent(0.0)
    judged = [
        number
        for at in range(1, 101)
        for number, _ in judge.ended(judge.sent(at), replace(call, at=float(at)), body, at)
    ]
    assert hanging.at == 0.0
    assert judged == [*range(1, judged[-1] + 1)]
    assert len(judge._answered) <= 4


def test_calls_of_one_name_on_two_endpoints_end_while_another_one_is_in_flight() -> None:
    guard, talk = Guard(Notifier(Told(), "openai")), Talk()
    asked = [("/v1/chat/completions", talk.chat()), ("/v1/responses", talk.responses())]
    first = guard.start("POST", "/v1/responses", json.dumps(Talk("another one").responses()).encode())
    with conversation("planner"):
        others = [guard.start("POST", path, json.dumps(body).encode()) for path, body in asked]
    for call in (*others, first):
        assert call is not None
        call.began(200, {"content-type": "application/json"})
        call.feed(b'{"id":"r","output":[],"usage":{"input_tokens":9,"output_tokens":9}}')
        call.ended(is_whole=True)
    assert not guard._judge._answered


def test_an_internal_error_of_the_guard_reaches_neither_request_nor_reply(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    guard = Guard(Notifier(Told(), "openai"))
    call = guard.start("POST", "/v1/responses", json.dumps(Talk().responses()).encode())
    assert call is not None
    call.began(200, {"content-type": "application/json"})
    call.feed(b'{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":9,"output_tokens":9}}')
    call.ended(is_whole=True)
    body = Talk("and now?", "Another head.").responses()
    monkeypatch.setattr("contextkit.watcher.guard.parsed_body", fail)
    assert guard.start("POST", "/v1/responses", json.dumps(body).encode()) is None
    call = guard.start("POST", "/v1/responses", json.dumps(Talk().responses()).encode())
    assert call is not None
    monkeypatch.setattr(Guard, "finish", fail)
    call.ended(is_whole=False)
    assert [record.message for record in caplog.records] == [
        "a request was not compared (ZeroDivisionError)",
        "a call was not followed to its end (ZeroDivisionError)",
    ]
