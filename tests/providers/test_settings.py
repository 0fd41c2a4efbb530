"""What a system message between turns sets: words for one user turn, an effort from there on; nothing before it moves."""

from __future__ import annotations

from typing import Any

import pytest

from contextkit import AnthropicMessages, Context
from contextkit.canonical import parse
from contextkit.log.entry import DateChanged, EffortChanged
from contextkit.providers.endpoints import PARSERS
from contextkit.providers.notices import MESSAGE_FIELDS
from contextkit.server.answer import answer
from contextkit.server.endpoints.table import MESSAGES
from contextkit.server.state import Clock, State
from tests.context.test_remembering import Loop

BETAS = [betas[0] for betas in MESSAGE_FIELDS.values()]


def claude(model: str = "claude-opus-5-5", betas: list[str] = BETAS) -> AnthropicMessages:
    return AnthropicMessages(model, max_tokens=1024, betas=betas)


def status(request: Any) -> int:
    headers = {"x-api-key": "any", "anthropic-version": "2026-10-21", **request.headers}
    outcome = answer(State(Clock(0.0, is_frozen=True), None, None), MESSAGES, headers, request.body)
    assert outcome.status == 200, outcome.chunks[0][:300]
    return outcome.status


def test_an_effort_is_set_where_it_is_said_and_keys_nothing_before() -> None:
    loop = Loop(claude())
    loop.context.user("Go. " * 600)
    loop.reply(("text", "Gone."))
    loop.context.user("On.")
    plain = loop.context.request()
    loop.context.notice(EffortChanged("low"))
    request = loop.context.request()
    said = request["messages"][-1]
    assert (said["role"], said["output_config"]) == ("system", {"effort": "low"})
    assert said["content"][0]["text"] == "Reasoning effort from here on: low."
    assert request.predicted.read == plain.predicted.read and "output_config" not in request.params and status(request)


@pytest.mark.parametrize(
    ("told", "kinds", "efforts"),
    [
        ([("low", False)], ["epoch", "notice"], ["low"]),
        ([("low", True)], ["assistant", "epoch"], []),
        ([("low", False), ("high", True)], ["epoch", "notice"], ["low"]),
        ([("low", False), ("high", False)], ["epoch", "notice"], ["high"]),
    ],
)
def test_an_effort_holds_through_a_compaction_and_one_for_a_turn_does_not(
    told: list[tuple[str, bool]], kinds: list[str], efforts: list[str]
) -> None:
    loop = Loop(claude())
    loop.context.user("Go.")
    for effort, is_for_a_turn in told:
        loop.context.notice(EffortChanged(effort), until_user=is_for_a_turn)
    loop.reply(("text", "Gone."))
    loop.context.compact("It went.")
    assert [entry.kind for entry in loop.context.log[-2:]] == kinds
    loop.context.user("On.")
    said = [
        message["output_config"]["effort"]
        for message in loop.context.request()["messages"]
        if "output_config" in message
    ]
    assert said == efforts


def test_words_for_one_turn_stay_in_the_array_and_leave_the_prompt() -> None:
    loop = Loop(claude())
    loop.context.user("Go. " * 600)
    entry = loop.context.notice(DateChanged("2026-11-21"), until_user=True)
    shown = loop.context.request()
    assert shown["messages"][-1]["clear_at"] == "next_user_message" and status(shown)
    assert all(mark.segment < shown.layout.n - 1 for mark in shown.layout.breakpoints)
    loop.reply(("text", "Going."))
    loop.context.user("On.")
    after = loop.context.request()
    assert after["messages"][1] == shown["messages"][1] and status(after)
    columns = after.layout.columns
    words = next(place for place in range(len(columns)) if columns.entries[place] == entry.sequence)
    assert words in columns.silent and columns.ends_tokens[words] == columns.ends_tokens[words - 1]
    # The reusable prefix ends at the user turn before the words: what the reply wrote stood behind them.
    assert after.predicted.read == columns.ends_tokens[words - 1]
    billed = loop.reply(("text", "Done."))
    assert billed.read == after.predicted.read


@pytest.mark.parametrize("betas", [[], BETAS])
def test_a_model_that_knows_neither_is_told_in_words(betas: list[str]) -> None:
    loop = Loop(claude("claude-sonnet-4-5", betas))
    loop.context.user("Go.")
    loop.context.notice(EffortChanged("low"), until_user=True)
    (message,) = loop.context.request()["messages"]
    assert message.keys() == {"role", "content"} and "effort" in message["content"][-1]["text"]


MESSAGES_SAID: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "Go."}]},
    {"role": "system", "clear_at": "next_user_message", "content": [{"type": "text", "text": "Today is the 21st."}]},
    {"role": "system", "output_config": {"effort": "low"}, "content": []},
    {"role": "assistant", "content": [{"type": "text", "text": "Gone."}]},
    {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
]


def test_a_body_that_sets_things_is_read_and_written_as_it_was() -> None:
    body = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": MESSAGES_SAID}
    parsed = PARSERS["anthropic_messages"](body)
    again = parse(parsed.layout.body(b'{"model":"claude-opus-5-5","max_tokens":9}'))
    assert again["messages"] == MESSAGES_SAID
    adopted = Context.from_messages(claude(), body)
    assert adopted.request()["messages"][:4] == [
        *MESSAGES_SAID[:2],
        {"role": "system", "output_config": {"effort": "low"}, "content": []},
        MESSAGES_SAID[3],
    ]
