"""`context.plan.explain()` says what is so for whoever is asked: marks, none, too short, kept by the provider itself."""

from __future__ import annotations

import pytest

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAICompatible, OpenAIResponses
from contextkit.providers.bedrock.converse import BedrockConverse
from contextkit.providers.gemini.generate import Gemini
from contextkit.providers.provider import Provider

MARKED = {
    "claude": AnthropicMessages("claude-opus-4-5", max_tokens=64),
    "claude, auto": AnthropicMessages("claude-opus-4-5", max_tokens=64, ttl="auto"),
    "bedrock": BedrockConverse("anthropic.claude-opus-5-5", max_tokens=64),
    "gpt-6.1": OpenAIResponses("gpt-6.1-sol"),
}
BY_ITSELF = {
    "gpt-5.4": OpenAIChat("gpt-5.4"),
    "gpt-5.4, responses": OpenAIResponses("gpt-5.4"),
    "gemini": Gemini("gemini-2.5-pro", max_tokens=64),
    "vllm": OpenAICompatible("Qwen/Qwen3-8B", host="vllm"),
}


def said(provider: Provider, n_words: int) -> str:
    context = Context(provider, system="You are terse. " * n_words)
    context.user("Is it so?")
    return context.plan.explain()


@pytest.mark.parametrize("name", MARKED)
def test_a_long_prompt_has_its_marks_with_what_they_cost_and_a_prewarm_that_pays(name: str) -> None:
    lines = said(MARKED[name], 4_000).splitlines()
    assert any(line.startswith("breakpoint head [") and "expected to save $" in line for line in lines)
    assert any(line.startswith("prewarm: costs $") and "pays before 2 calls" in line for line in lines)


@pytest.mark.parametrize("name", MARKED)
def test_below_the_models_minimum_nothing_is_said_to_be_written_saved_or_filled(name: str) -> None:
    told = said(MARKED[name], 3)
    assert "caches none below" in told and "prewarm: nothing to fill" in told
    assert "pays" not in told and "expected to save" not in told


@pytest.mark.parametrize("name", BY_ITSELF)
def test_where_a_provider_takes_no_marks_no_mark_lifetime_or_prewarm_is_spoken_of(name: str) -> None:
    told = said(BY_ITSELF[name], 4_000)
    assert "no breakpoint: the provider takes none" in told
    assert not any(word in told for word in ("lifetimes", "prewarm", "expected in the cache", "$"))


def test_a_head_that_lives_already_is_not_said_to_cost_or_to_save_nothing() -> None:
    now = 1_790_000_000.0
    context = Context(MARKED["claude"], system="You are terse. " * 4_000, clock=lambda: now)
    context.user("Is it so?")
    request = context.request()
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_creation_input_tokens": request.predicted.write_5m}
    content = [{"type": "text", "text": "Yes."}]
    reply = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-5",
        "stop_reason": "end_turn",
    }
    context.receive({**reply, "content": content, "usage": usage}, request)
    context.user("And now?")
    head = next(line for line in context.plan.explain().splitlines() if line.startswith("breakpoint head"))
    assert head.endswith("cached already, and renewed free of charge")
