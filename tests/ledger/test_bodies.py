"""Calls with recorded bodies: what changed is named to the byte, and earlier bodies are kept within a bound."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from contextkit.cache.usage import Usage
from contextkit.ledger import judge as judging
from contextkit.ledger.calls import Bodies, ModelCall
from contextkit.ledger.misses import misses
from contextkit.ledger.prompts import outline, read_body
from contextkit.models import model_named
from contextkit.providers.endpoints import endpoint_of

MARKED = {"cache_control": {"type": "ephemeral"}}


def body(*said: str, model: str = "claude-sonnet-4-6", **more: Any) -> bytes:
    """A request whose messages are some thousand tokens each."""
    messages = [
        {"role": ("user", "assistant")[i % 2], "content": f"{text} " + f"word {i} " * 1_500}
        for i, text in enumerate(said)
    ]
    return json.dumps({"model": model, "max_tokens": 9, "messages": messages, **MARKED, **more}).encode()


def call(
    number: int, raw: bytes, read: int, written: int, *, lane: str = "main", at: float | None = None, model: str = ""
) -> ModelCall:
    at = 30.0 * number if at is None else at
    usage, model = Usage(1, read, written, 0, 1), model or "claude-sonnet-4-6"
    return ModelCall(f"c{number}", "s", lane, at, at + 2, at + 4, "anthropic", model, Bodies(raw), usage, None, None)


@pytest.mark.parametrize(
    ("changed", "cause", "where"),
    [
        (body("one", "two", "THREE", "four", "five"), "messages_changed", "messages[2].content[0] byte 23"),
        (body("one", "two", "three", "four", "five", system="new"), "system_changed", "system[0]"),
        (
            body("one", "two", "three", "four", "five", tools=[{"name": "t", "input_schema": {}}]),
            "tools_changed",
            "tools[0]",
        ),
        (body("one", "two", "three", "four", "five", tool_choice={"type": "none"}), "params_changed", "tool_choice"),
        (body("one", "two", "three", "four", "five"), "unknown", "prefix intact"),
    ],
)
def test_what_changed_is_named_with_its_place(changed: bytes, cause: str, where: str) -> None:
    found = misses([call(0, body("one", "two", "three"), 0, 9_000), call(1, changed, 0, 9_500)])
    assert found[-1].cause == cause
    assert found[-1].where.startswith(where)


def test_a_model_without_a_row_is_compared_too() -> None:
    name = "claude-next"
    calls = [call(i, body("one", "two", text, model=name), 0, 9_000, model=name) for i, text in enumerate("ab")]
    assert [miss.cause for miss in misses(calls)] == ["first_write", "messages_changed"]


def test_a_body_that_nobody_can_read_proves_nothing() -> None:
    found = misses([call(0, b"{torn", 0, 9_000), call(1, b"[]", 0, 9_000)])
    assert [miss.cause for miss in found] == ["first_write", "unknown"]


def test_lanes_that_start_at_once_share_a_prefix_nobody_had_written() -> None:
    head = {"system": [{"type": "text", "text": "rules " * 4_000, **MARKED}]}
    first, second = (
        call(i, body(text, **head), 0, 9_000, lane=text, at=i * 0.1) for i, text in enumerate(("one", "two"))
    )
    assert [miss.cause for miss in misses([first, second])] == ["first_write", "cold_fan_out"]


def test_no_more_is_kept_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "MOST_BYTES", 100_000)
    calls = [call(number, body("x"), 0, 9_000, lane=str(number)) for number in range(50)]
    judge = judging.Judge()
    for one in calls:
        judge.feed(one, model_named(one.model), one.usage, {})
    assert judge._n_bytes <= 100_000
    known = judge.feed(call(50, body("x", "y", "z"), 0, 9_000, lane="49"), model_named("claude-sonnet-4-6"), None, {})
    assert known is not None
    assert known.shared


@pytest.mark.parametrize(
    ("fields", "wire"),
    [
        ({"model": "m", "messages": [{"role": "user", "content": "a"}]}, "openai_chat"),
        ({"model": "m", "messages": [{"role": "user", "content": "a"}], "system": "s"}, "anthropic_messages"),
        ({"messages": [{"role": "user", "content": [{"text": "a"}]}]}, "bedrock_converse"),
        ({"contents": []}, "gemini"),
        ({"model": "m", "input": "a"}, "openai_responses"),
        ({"model": "text-embedding-3-small", "input": "a"}, None),
        ({"prompt": "a"}, None),
        ({"model": "gemini-3.8-flash", "input": "a", "system_instruction": "s"}, None),
        ({"model": "gemini-3.8-flash", "input": [{"type": "user_input", "content": []}]}, None),
    ],
)
def test_the_wire_is_told_by_the_body(fields: dict[str, Any], wire: str | None) -> None:
    assert (endpoint_of(fields, "") or None) == wire


def test_bedrocks_markers_are_no_part_of_what_is_said() -> None:
    said, mark = {"text": "a"}, {"cachePoint": {"type": "default"}}
    marked, plain = (
        read_body(
            json.dumps({"messages": [{"role": "user", "content": content}]}).encode(),
            "aws",
            "anthropic.claude-opus-4-8",
        )
        for content in ([said, mark], [said])
    )
    assert marked is not None
    assert plain is not None
    assert list(marked.prompt.digests) == list(plain.prompt.digests)


def test_what_another_lane_had_written_before_is_readable() -> None:
    """Bodies and outlines alike: a call that started too early for one lane could read what an older one had written."""
    head = {"system": [{"type": "text", "text": "rules " * 4_000, **MARKED}]}
    texts = ("more " * 9_000, "two")
    done = call(0, body(*texts, **head), 0, 22_000, lane="done", at=0.0)
    late = call(1, body("other", **head), 0, 9_000, lane="late", at=100.0)
    now = call(2, body(*texts, "three", **head), 0, 22_000, lane="now", at=100.1)
    calls = [done, late, now]
    read = [read_body(one.prompt.request, one.provider, one.model) for one in calls if isinstance(one.prompt, Bodies)]
    outlines = [
        replace(one, prompt=outline(None, body.prompt, [-1] * body.prompt.n, 0))
        for one, body in zip(calls, read, strict=True)
        if body
    ]
    for recorded in (calls, outlines):
        assert [miss.cause for miss in misses(recorded)] == ["first_write", "unknown", "unknown"]
