"""What a provider refuses when it is made, instead of at the first request: what the log says, lengths that are none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAICompatible, OpenAIResponses
from contextkit.errors import UsageError
from contextkit.providers import BedrockConverse, Gemini

MAKERS: dict[str, Callable[..., Any]] = {
    "messages": lambda model="claude-sonnet-5-5", **more: AnthropicMessages(model, **{"max_tokens": 9, **more}),
    "chat": lambda model="gpt-6.1-sol", **more: OpenAIChat(model, **more),
    "responses": lambda model="gpt-6.1-sol", **more: OpenAIResponses(model, **more),
    "gemini": lambda model="gemini-3.8-flash", **more: Gemini(model, **more),
    "converse": lambda model="anthropic.claude-sonnet-5-5", **more: BedrockConverse(model, **more),
}


@pytest.mark.parametrize("wire", MAKERS)
def test_what_the_log_or_the_client_says_is_no_parameter_of_a_provider(wire: str) -> None:
    provider = MAKERS[wire]()
    named = {
        *provider.grammar.arrays.values(),
        *(("instructions", "previous_response_id") if wire == "responses" else ()),
    }
    for name in sorted(named):
        with pytest.raises(UsageError, match=f"{name}: .*log"):
            MAKERS[wire](**{name: []})
        with pytest.raises(UsageError, match=f"{name}: .*log"):
            MAKERS[wire](extra_body={name: []})
        assert MAKERS[wire](**{name: None}).wire == provider.wire
    with pytest.raises(UsageError, match="with_options"):
        MAKERS[wire](timeout=5)


@pytest.mark.parametrize("wire", MAKERS)
def test_the_length_of_a_reply_is_a_number_from_0(wire: str) -> None:
    name = "max_output_tokens" if wire == "responses" else "max_tokens"
    context = Context(MAKERS[wire]())
    context.user("hello")
    for length in (-3, "many", 1.5, True):
        for act in (MAKERS[wire], context.request):
            with pytest.raises(UsageError, match="tokens"):
                act(**{name: length})


def test_an_engine_may_be_asked_for_as_much_as_fits() -> None:
    assert OpenAICompatible("any", host="llamacpp", max_tokens=-1).params["max_tokens"] == -1
    with pytest.raises(UsageError, match="-1 or more"):
        OpenAICompatible("any", host="llamacpp", max_tokens=-3)
