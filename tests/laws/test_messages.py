"""`Context.messages` and `Context.from_messages` are inverses: on generated conversations, and on bodies of real clients."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses
from contextkit.providers import Gemini
from contextkit.providers.keyed_blocks import RAW, packed, standard
from contextkit.providers.provider import Provider
from tests.laws.conversations import BREAKING, SAYING, TEXT, Conversation, operations
from tests.laws.normalised import said
from tests.laws.wires import PROVIDERS, TRIED

Json = Any
laws = settings.get_profile("laws")
every_wire = pytest.mark.parametrize("name", TRIED)
BEGUN = Conversation.clock_at
"""When a generated conversation begins: the cache key of OpenAI's endpoints is made of it."""


@every_wire
@given(st.data())
@laws
def test_the_request_of_an_adopted_context_is_the_same_bytes(name: str, data: st.DataObject) -> None:
    context = Conversation(PROVIDERS[name]()).run(data.draw(operations(*SAYING))).context
    fields = context.messages()
    other = Context.from_messages(PROVIDERS[name](), fields, clock=lambda: BEGUN)
    assert other.messages() == fields
    assert other.request().body == context.request().body


@every_wire
@given(st.data())
@laws
def test_after_a_prefix_reset_the_prompt_is_the_same(name: str, data: st.DataObject) -> None:
    """Only breakpoints may differ: the adopted conversation knows of no request before the reset."""
    context = Conversation(PROVIDERS[name]()).run(data.draw(operations(*SAYING, *BREAKING))).context
    other = Context.from_messages(PROVIDERS[name](), context.messages())
    assert other.messages() == context.messages()


@every_wire
@given(TEXT)
@laws
def test_open_calls_stay_open(name: str, text: str) -> None:
    conversation = Conversation(PROVIDERS[name]())
    conversation._turn([("text", text), ("call", "search", {"query": text}), ("call", "add", {})], [], False)
    context = conversation.context
    other = Context.from_messages(PROVIDERS[name](), context.messages(), clock=lambda: BEGUN)
    assert [(call.name, call.arguments) for call in other.calls] == [
        (call.name, call.arguments) for call in context.calls
    ]
    for one in context, other:
        for call in one.calls:
            one.result(call, text)
    assert other.messages() == context.messages()


def test_what_is_given_is_plain_objects_of_the_sdk() -> None:
    context = Conversation(PROVIDERS["bedrock"]()).context
    context.user([{"type": "image", "media_type": "image/png", "data": "aGk="}])
    fields = context.messages()
    assert set(fields) == {"toolConfig", "system", "messages"}
    assert fields["messages"][-1]["content"][-1] == {"image": {"format": "png", "source": {"bytes": b"hi"}}}
    assert "cachePoint" not in str(fields)
    fields["messages"].clear()
    assert context.messages()["messages"]


def _provider_of(body: Json) -> Provider:
    if "contents" in body:
        return Gemini(body.get("model", "gemini-2.5-pro"), max_tokens=100)
    if "input" in body:
        return OpenAIResponses(body["model"])
    if "system" in body:
        return AnthropicMessages(body["model"], max_tokens=100)
    return OpenAIChat(body["model"])


def _bodies(path: Path) -> Iterator[Json]:
    for line in gzip.decompress(path.read_bytes()).splitlines():
        yield json.loads(line)["request"]


CLIENTS = ("claude-code-2.1.197", "codex-0.169.0", "gemini-cli-0.61.0", "opencode-1.18.33", "pi-0.74.2", "qwen-code")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.filterwarnings("ignore::contextkit.models.AssumedModelWarning")
def test_a_real_body_comes_back_in_normal_form(shared: Path, client: str) -> None:
    for sent in _bodies(shared / "data" / "client-requests" / f"{client}.jsonl.gz"):
        body, provider = sent, _provider_of(sent)
        if provider.wire == "gemini":
            sent.get("systemInstruction", {}).pop("role", None)  # it has one role only
            body = standard(sent, RAW["gemini"])  # base64 has two alphabets
        fields = Context.from_messages(provider, body).messages()
        assert said(provider.wire, packed(fields)) == said(provider.wire, body)
        assert Context.from_messages(provider, fields).messages() == fields
