"""What cannot be named, because a body has another form or is of another endpoint, is judged nevertheless."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.changes import kinds
from contextkit.ledger.misses import Miss, misses
from contextkit.ledger.parsed_call import parse_call

HEAD = "You are careful. " * 600


def call(number: int, body: dict[str, Any], usage: Usage) -> ModelCall:
    at, model = 1_800_000_000.0 + 10 * number, str(body["model"])
    provider = "openai" if model.startswith("gpt") else "anthropic"
    prompt = Bodies(json.dumps(body).encode())
    return ModelCall(f"c{number}", "s", "main", at, at + 1, at + 2, provider, model, prompt, usage)


def claude(*parts: Any, head: str = HEAD) -> dict[str, Any]:
    content = [*parts, {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}]
    return {
        "model": "claude-sonnet-4-6",
        "max_tokens": 9,
        "system": head,
        "messages": [{"role": "user", "content": content}],
    }


def second_miss(one: dict[str, Any], other: dict[str, Any]) -> Miss:
    """The miss of the second of two calls that read nothing."""
    bill = Usage(0, 0, 9_000, 0, 9) if "max_tokens" in one else Usage(9_000, 0, output=9, writes={})
    found = misses([call(0, one, bill), call(1, other, bill)])
    return found[-1]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"type": "text", "text": "a" * 9_000}, {"type": ["text"], "text": "b" * 9_000}),
        ({"type": "document", "source": {"type": ["image"], "data": "a" * 9_000}}, {"type": "text", "text": "b"}),
    ],
)
def test_a_part_whose_type_is_no_string_is_a_change_like_another(was: Any, now: Any) -> None:
    one, other = (parse_call(call(0, claude(part), Usage(1, 1, 1, 1, 1))) for part in (was, now))
    assert one and other
    assert [change.kind for change in kinds.named_changes(one, other)]


def test_a_change_that_cannot_be_named_is_still_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise TypeError

    monkeypatch.setattr(kinds, "named_changes", fail)
    miss = second_miss(claude(head=f"It is 10:01. {HEAD}"), claude(head=f"It is 10:02. {HEAD}"))
    assert (miss.cause, miss.whose) == ("system_changed", "program_bytes")


def test_a_counter_below_zero_ends_no_report() -> None:
    body = {"model": "gpt-5.1", "messages": [{"role": "user", "content": HEAD}]}
    calls = [call(number, body, Usage(9_000, -3, output=9, writes={})) for number in range(2)]
    assert [miss.exchange_id for miss in misses(calls)][-1] == "c1"


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("Ask with sk-ant-api03-{}", "Ask with sk-ant-api03-{}"),
        ("Keys: a, sk-ant-api03-{}, b", "Keys: a, sk-ant-api03-{}, c, b"),
    ],
)
def test_a_secret_of_which_a_part_differs_is_quoted_nowhere(was: str, now: str) -> None:
    keys = "Zq7" * 20, "Zq7" * 10 + "Wx8" * 10
    bodies = [
        {**claude(), "tools": [{"name": "ask", "description": text.format(key), "input_schema": {"type": "object"}}]}
        for text, key in zip((was, now), keys, strict=True)
    ]
    one, other = (parse_call(call(0, body, Usage(1, 1, 1, 1, 1))) for body in bodies)
    assert one and other
    for change in kinds.named_changes(one, other):
        assert "Zq7" not in change.text and "Wx8" not in change.text


def test_a_line_of_blanks_is_compared_in_a_moment() -> None:
    bodies = [claude(head=" " * n + "a" * (n % 2) + "b") for n in (50_000, 50_001)]
    one, other = (parse_call(call(0, body, Usage(1, 1, 1, 1, 1))) for body in bodies)
    assert one and other
    before = time.process_time()
    assert kinds.named_changes(one, other)
    assert time.process_time() - before < 5.0
