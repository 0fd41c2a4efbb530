"""What the judge says of two calls with a recorded prompt."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.judge import Judge
from contextkit.ledger.misses import complete_usage, row_of_call
from contextkit.ledger.verdict import Verdict
from tests.lint.trace.calls import WORDS, anthropic, assistant, call, tool, user

FIRST = [user("a " * 400), assistant("b " * 400), user("c " * 400)]


def judged(*bodies: Any, usages: tuple[Usage | None, ...] = ()) -> Verdict:
    """The verdict on the last call."""
    judge, verdict = Judge(), None
    for number, body in enumerate(bodies):
        sent = replace(call(body, number), usage=usages[number] if usages else None)
        verdict = judge.feed(sent, row_of_call(sent), complete_usage(sent), {})
    assert verdict is not None
    return verdict


def test_a_system_text_is_compared_with_the_one_before_where_a_tool_came_too() -> None:
    was = anthropic(*FIRST, system="It was " + WORDS)
    now = anthropic(*FIRST, system="It is " + WORDS, tools=[tool("x")])
    verdict = judged(was, now)
    assert verdict.similar is not None and verdict.similar > 3_000
    assert [gap.cause for gap in verdict.gaps] == ["tools_changed"]


def test_a_call_without_a_bill_has_the_reference_cache_s_and_a_billed_one_has_none() -> None:
    body = anthropic(*FIRST)
    quote = judged(body).quote
    assert quote is not None and quote.read == 0 and (quote.written or 0) > 3_000
    assert judged(body, usages=(Usage(4, 0, 3_100, 0, 9),)).quote is None


@pytest.mark.parametrize("error", ["overloaded_error", "http_529", "529", "rate_limit_exceeded", "RESOURCE_EXHAUSTED"])
def test_a_refused_call_is_not_compared_with_however_its_error_is_named(error: str) -> None:
    refused = replace(call(anthropic(*FIRST, system="It was " + WORDS), 0), error=error, first_byte_at=None)
    after = replace(call(anthropic(*FIRST, system="It is " + WORDS), 1), usage=Usage(5, 0, 4_000, 0, 9))
    judge = Judge()
    assert judge.feed(refused, row_of_call(refused), None, {}) is None
    verdict = judge.feed(after, row_of_call(after), after.usage, {})
    assert verdict is not None and not verdict.lost_tokens


@pytest.mark.parametrize(
    ("error", "first_byte_at"), [("aborted", None), ("ReadTimeout", None), ("overloaded_error", 1.0)]
)
def test_a_call_that_broke_off_was_not_refused(error: str, first_byte_at: float | None) -> None:
    assert not replace(call(anthropic(*FIRST), 0), error=error, first_byte_at=first_byte_at).is_refused


def test_a_secret_in_a_setting_is_covered_before_it_is_cut() -> None:
    secrets = ["sk-ant-api03-" + letter * 60 for letter in "AB"]
    was, now = (
        anthropic(*FIRST, tools=[tool("x")], tool_choice={"type": "tool", "name": secret}) for secret in secrets
    )
    bill = Usage(5, 0, 4_000, 0, 9)
    evidence = " ".join(gap.evidence for gap in judged(was, now, usages=(bill, bill)).gaps)
    assert "tool_choice" in evidence and "ant-api03" not in evidence


def test_a_long_conversation_takes_no_square_of_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of prompts whose blocks are not kept any more, each has the sizes of its own and shares the rest."""
    monkeypatch.setattr("contextkit.ledger.judge.MOST_BYTES", 1 << 18)
    judge, messages = Judge(), [user("a")]
    tracemalloc.start()
    try:
        for number in range(150):
            messages += [assistant(f"b {number}"), user(f"c {number}"), assistant("d"), user(f"e {number}")]
            sent = call(anthropic(*messages), number)
            judge.feed(sent, row_of_call(sent), None, {})
        n_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert n_bytes < 5 << 20


def test_conversations_that_were_not_used_for_longest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contextkit.ledger.judge.MOST_CONVERSATIONS", 3)
    judge = Judge()
    for number, session in enumerate("abcada"):
        sent = replace(call(anthropic(user(f"Question {number}")), number), session=session)
        judge.feed(sent, row_of_call(sent), None, {})
    assert [session for session, _ in judge._conversations] == ["c", "d", "a"]
