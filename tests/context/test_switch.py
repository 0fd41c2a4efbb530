"""Another model in the middle of a run: declared and priced, what can be kept is kept, and the way back finds the old
lane."""

from __future__ import annotations

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses
from contextkit.canonical import parse
from contextkit.errors import InvalidTool, UsageError
from contextkit.providers.provider import Provider
from tests.context.test_remembering import Loop, fetch

OTHERS = {
    "model": lambda: AnthropicMessages("claude-opus-5", max_tokens=1024),
    "chat": lambda: OpenAIChat("gpt-6.1-sol"),
    "responses": lambda: OpenAIResponses("gpt-6.1-sol"),
}
every_other = pytest.mark.parametrize("name", OTHERS)


def begun() -> Loop:
    loop = Loop(AnthropicMessages("claude-opus-4-8", max_tokens=1024))
    loop.context.user("Go. " * 800)
    loop.reply(("thinking", "Let me see.", "c2ln"), ("text", "Going."))
    loop.context.user("On.")
    loop.reply(("thinking", "Hm.", "c2ln"), ("text", "Gone."))
    loop.context.user("And now?")
    return loop


@every_other
def test_the_price_is_in_the_entry_and_the_way_back_is_cheap(name: str) -> None:
    loop = begun()
    home, warm = loop.context.provider, loop.context.request()
    entry = loop.context.switch(OTHERS[name]())
    assert entry is not None and entry.kind == "switch"
    said = parse(entry.body)
    request = loop.context.request()
    assert said["rewrites_tokens"] == (request.predicted.prompt or 0) - (request.predicted.read or 0) > 2_000
    assert b"Let me see." not in request.body and b"Going." in request.body and b"Go. Go." in request.body
    loop.reply(("thinking", "Elsewhere.", "ZWxzZQ=="), ("text", "Answered elsewhere."))
    assert loop.context.switch(home) is not None
    loop.context.user("Thank you.")
    back = loop.context.request()
    assert back.body[: len(warm.body) // 2] == warm.body[: len(warm.body) // 2]
    assert (back.predicted.read or 0) >= (warm.predicted.read or 0) > 2_000
    assert b"Let me see." in back.body and b"Answered elsewhere." in back.body and b"Elsewhere." not in back.body
    again = Context(home, log=loop.context.log, ledger=loop.context.ledger, clock=lambda: loop.now)
    assert again.request().body == back.body


def test_the_loss_has_a_cause_in_the_summary() -> None:
    loop = begun()
    loop.context.switch(OTHERS["model"]())
    loop.reply(("text", "Here."))
    assert [miss.cause for miss in loop.context.summary().misses][-1] == "model_changed"


def test_other_parameters_of_the_same_model_are_no_switch() -> None:
    loop = begun()
    n = len(loop.context.log)
    assert loop.context.switch(AnthropicMessages("claude-opus-4-8", max_tokens=9)) is None
    assert len(loop.context.log) == n and loop.context.request()["max_tokens"] == 9


def test_another_endpoint_is_not_assigned_once_something_was_said() -> None:
    here, other = AnthropicMessages("claude-opus-4-8", max_tokens=1024), OpenAIChat("gpt-6.1-sol")
    context = Context(here)
    context.provider = other
    context.provider = here
    context.user("hello")
    body, n = context.request().body, len(context.log)
    with pytest.raises(
        UsageError,
        match=r"speaks openai_chat, and this conversation anthropic_messages: context\.switch\(provider\) goes",
    ):
        context.provider = other
    assert context.request().body == body and len(context.log) == n
    context.provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=9)
    assert context.request()["model"] == "claude-sonnet-5-5"
    entry = context.switch(other)
    assert entry is not None and entry.kind == "switch" and context.provider is other


def test_what_the_other_endpoint_cannot_say_is_refused_before_anything_changes() -> None:
    provider: Provider = AnthropicMessages("claude-opus-4-8", max_tokens=1024)
    context = Context(provider, tools=[fetch, {"type": "web_search_20250305", "name": "web_search"}])
    with pytest.raises(InvalidTool, match="web_search"):
        context.switch(OpenAIChat("gpt-6.1-sol"))
    with pytest.raises(UsageError):
        context.switch("gpt-6.1-sol")  # type: ignore[arg-type]
    assert context.provider is provider and len(context.log) == 1
