"""The judge of a watched client: what an internal error does to it."""

from __future__ import annotations

import json

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.judge import Judge
from contextkit.watcher.live_judge import LiveJudge
from tests.watcher.talk import CLAUDE, HEAD


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
    judge, (call, body) = LiveJudge(), a_call(1)
    assert judge.forecast(call, body) is None
    judge.sent(call.id, call.at)
    assert judge.ended(call, body) == [("1", None)]
    assert [record.message for record in caplog.records] == ["a call was not judged (ZeroDivisionError)"] * 2


def test_a_call_that_is_answered_early_waits_for_those_sent_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[str] = []
    monkeypatch.setattr(Judge, "feed", lambda _self, call, *_: fed.append(call.id))
    judge, calls = LiveJudge(), [a_call(number) for number in range(1, 5)]
    for call, _ in calls[:3]:
        judge.sent(call.id, call.at)
    assert judge.ended(*calls[2]) == judge.ended(*calls[1]) == []
    assert [name for name, _ in judge.ended(*calls[0])] == fed == ["1", "2", "3"]
    judge.sent("4", 4.0)
    judge.ended(calls[3][0], None)  # refused
    assert fed == ["1", "2", "3"]
