"""The judge of a watched client: what it keeps of answered calls, and what an internal error does to it."""

from __future__ import annotations

import json

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import ModelCall
from contextkit.ledger.judge import Judge
from contextkit.watcher import live_judge
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
    judge.answered(call, body)
    assert judge.verdict(call) is None
    assert [record.message for record in caplog.records] == ["a call was not judged (ZeroDivisionError)"] * 2


def test_bodies_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    fed: list[str] = []
    monkeypatch.setattr(live_judge, "_MOST_WAITING_BYTES", 3 * len(a_call(1)[1]))
    monkeypatch.setattr(Judge, "feed", lambda _self, call, *_: fed.append(call.id))
    judge = LiveJudge()
    for number in range(1, 6):
        judge.answered(*a_call(number))
    assert fed == ["1", "2"]
