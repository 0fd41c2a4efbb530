"""Gemini: what is sent fits google-genai's own types, and its client is understood by the local provider, billed as
predicted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context
from contextkit.canonical import parse as read_json
from contextkit.errors import UsageError
from contextkit.providers import Gemini
from contextkit.providers.gemini.generate import parse
from contextkit.providers.gemini.parts import cached_content
from contextkit.server import LocalServer
from contextkit.server.endpoints.gemini_validation import request_shape
from contextkit.server.endpoints.validation import ReceivedRequest
from tests.laws.conversations import BREAKING, SAYING, Conversation, operations
from tests.laws.every_block import ROWS, spoken_by
from tests.laws.pools import CALL, MODEL
from tests.laws.wires import PROVIDERS
from tests.providers.filled_shapes import FREE
from tests.providers.oracles import generate_faults

genai = pytest.importorskip("google.genai", reason="the SDK of the extra `gemini` (google-genai) is not installed")
types: Any = pytest.importorskip("google.genai.types")

laws = settings.get_profile("laws")
MODEL_NAME = "gemini-2.5-pro"
SYSTEM = "You are careful. " * 800
PNG = {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}
CALLS = [
    {"type": "thinking", "thinking": "hm"},
    {"type": "text", "text": "I look."},
    {"type": "call", "name": "look", "arguments": {"b": "x", "a": 1.5}},
    {"type": "call", "name": "look", "arguments": {"b": "y"}},
]
REPLIES: list[Any] = [{"parts": CALLS}, {"parts": [{"type": "text", "text": "found " * 40}]}]


def look(b: str, a: float = 0.0) -> str:
    """Look something up."""
    return f"found {b}"


@pytest.fixture(scope="module")
def running() -> Iterator[LocalServer]:
    with LocalServer(now=1000.0) as server:
        yield server


@pytest.fixture
def client(running: LocalServer) -> Iterator[Any]:
    running.reset()
    with genai.Client(api_key="any", http_options={"base_url": running.url}) as client:
        yield client


@given(st.data())
@laws
def test_every_request_fits_the_types_of_the_sdk(data: st.DataObject) -> None:
    conversation = Conversation(PROVIDERS["gemini"]()).run(data.draw(operations(*SAYING, *BREAKING)))
    for sent in conversation.sent:
        assert generate_faults(sent.request) == []


async def asked(request: Any, client: Any) -> Any:
    """One awaited call by a client of its own: connections belong to a loop."""
    options = client._api_client._http_options
    async with genai.Client(api_key="any", http_options={"base_url": options.base_url}).aio as own:
        return await request.asend(type("Client", (), {"aio": own, "models": client.models})())


def spoken(context: Context, client: Any, road: str) -> None:
    """One conversation, to its end."""
    roads: dict[str, Any] = {
        "typed": lambda request: client.models.generate_content(**request),
        "send": lambda request: request.send(client),
        "asend": lambda request: asyncio.run(asked(request, client)),
    }
    while not context.finished:
        request = context.request()
        if road == "stream":
            list(context.stream(request.stream(client)))
        else:
            context.receive(roads[road](request))
        billed = list(context.ledger)[-1].usage
        assert billed is not None and (request.predicted.read, request.predicted.prompt) == (billed.read, billed.prompt)
        for call in context.calls:
            context.result(call, call.run())


@pytest.mark.parametrize("road", ["typed", "send", "asend", "stream"])
def test_the_sdk_carries_a_conversation_that_is_billed_as_predicted(
    running: LocalServer, client: Any, road: str
) -> None:
    running.script(REPLIES)
    context = Context(Gemini(MODEL_NAME, max_tokens=99), system=SYSTEM, tools=[look], clock=running.clock.now)
    context.user(["hi", PNG])
    spoken(context, client, road)
    assert b'"thought":true' in context.log[2].body and b"found found" in context.log[-1].body
    assert [one.usage for one in running.ledger] == [one.usage for one in context.ledger]
    assert [(one.usage.read or 0) > 0 for one in running.ledger if one.usage] == [False, True]


@pytest.mark.parametrize("n_segments", [None, 4])
def test_what_a_content_holds_is_named_and_not_sent(running: LocalServer, client: Any, n_segments: int | None) -> None:
    running.script([*REPLIES, *REPLIES])
    provider = Gemini(MODEL_NAME, max_tokens=99, cached_content="auto")
    context = Context(provider, system=SYSTEM, tools=[look], clock=running.clock.now)
    context.user(["hi", PNG])
    spoken(context, client, "typed")
    running.clock.advance(1000.0)  # what was cached unasked is gone
    context.user("again")
    content = provider.open(client, context.request().layout, n_segments=n_segments)
    assert content is not None and "tokens for 1 h, $" in str(content) and "pays from 5.1 reads on" in str(content)
    body = read_json(context.request().body)
    assert body["cachedContent"] == content.name and not body.keys() & {"tools", "systemInstruction"}
    assert len(body["contents"]) == (5 if n_segments is None else 4)
    spoken(context, client, "send")
    assert all((one.usage.read or 0) >= content.storage.n_tokens for one in list(running.ledger)[2:] if one.usage)
    provider.close()
    context.user("and without")
    assert "systemInstruction" in read_json(context.request().body)
    with pytest.raises(genai.errors.ClientError, match="CachedContent not found"):
        client.caches.get(name=content.name)


def test_a_content_of_another_conversation_is_never_named(running: LocalServer, client: Any) -> None:
    provider = Gemini(MODEL_NAME, cached_content="auto")
    context, other = (Context(provider, system=f"{n} {SYSTEM}", clock=running.clock.now) for n in (1, 2))
    context.user("hi")
    other.user("hi")
    provider.open(client, context.request().layout)
    with pytest.raises(UsageError, match="does not hold the beginning of this conversation"):
        other.request()
    provider.close()
    assert other.request().predicted.prompt


def test_a_content_is_made_only_where_it_pays(running: LocalServer, client: Any) -> None:
    provider = Gemini(MODEL_NAME, cached_content="auto")
    context = Context(provider, system=SYSTEM)
    context.user("hi")
    assert provider.open(client, context.request().layout, reads=5) is None and provider.content is None
    assert provider.open(client, context.request().layout, reads=6) is not None
    with pytest.raises(UsageError, match="once"):
        provider.open(client, context.request().layout)
    provider.close()
    short = Context(provider, system="short")
    short.user("hi")
    with pytest.raises(UsageError, match="too few"):
        provider.open(client, short.request().layout)
    with pytest.raises(UsageError, match="takes no cached content"):
        cached_content(client, context.request().layout, "gemini-4-argon")
    with pytest.raises(UsageError, match="cached_content"):
        Gemini(MODEL_NAME).open(client, context.request().layout)


def test_a_content_that_is_forgotten_warns_and_one_that_is_closed_does_not(running: LocalServer, client: Any) -> None:
    context = Context(Gemini(MODEL_NAME), system=SYSTEM)
    context.user("hi")
    with cached_content(client, context.request().layout, MODEL_NAME, ttl_seconds=300) as content:
        content.extend(600)
        assert client.caches.get(name=content.name).expire_time.timestamp() == running.clock.now() + 600
    content.close()
    left = [cached_content(client, context.request().layout, MODEL_NAME)]
    with pytest.warns(ResourceWarning, match="was not closed"):
        left.clear()


def test_a_name_of_somebody_elses_content_stands_for_the_head(client: Any) -> None:
    context = Context(Gemini(MODEL_NAME, cached_content="cachedContents/theirs"), system=SYSTEM, tools=[look])
    context.user("hi")
    assert set(read_json(context.request().body)) == {"model", "cachedContent", "contents"}
    with pytest.raises(genai.errors.ClientError, match="CachedContent not found"):
        context.request().send(client)
    with pytest.raises(UsageError, match="toolConfig"):
        bytes(context.request(toolConfig={"functionCallingConfig": {"mode": "ANY"}}).body)


def test_calls_without_ids_are_answered_without_ids() -> None:
    context = Context(Gemini(MODEL_NAME), tools=[look])
    context.user("hi")
    calls = [{"functionCall": {"name": "look", "args": {"b": letter}}} for letter in "xy"]
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 1}
    context.receive(
        {"candidates": [{"content": {"role": "model", "parts": calls}, "finishReason": "STOP"}], "usageMetadata": usage}
    )
    for call in reversed(context.calls):
        context.result(call, call.run())
    body = read_json(context.request().body)
    assert [part["functionResponse"] for part in body["contents"][2]["parts"]] == [
        {"name": "look", "response": {"output": f"found {letter}"}} for letter in "xy"
    ]
    assert Context.from_messages(Gemini(MODEL_NAME), body).request().body == context.request().body


@pytest.mark.parametrize("is_typed", [True, False], ids=["typed", "dict"])
def test_every_part_of_a_reply_is_sent_back_as_it_came(is_typed: bool) -> None:
    calls = [ROWS["gemini"].numbered(part, f"call_{index}") for index, part in enumerate(spoken_by("gemini", CALL))]
    parts = [*spoken_by("gemini", MODEL), *calls]
    response = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {},
    }
    context = Context(Gemini(MODEL_NAME))
    context.user("hi")
    context.receive(
        types.GenerateContentResponse.model_validate_json(json.dumps(response)) if is_typed else response,
        context.request(),
    )
    for call in context.calls:
        context.result(call, "done")
    context.user("on")
    request = context.request()
    assert generate_faults(request) == [] and read_json(request.body)["contents"][1]["parts"] == parts


def test_bytes_are_bytes_where_the_api_has_them_and_nowhere_else() -> None:
    """A result that has a field named as one of the wire's, in an alphabet of its own."""
    call, result = {"name": "look", "args": FREE}, {"name": "look", "response": {**FREE, "data": "-_-_"}}
    said = [
        {"functionResponse": result},
        {"inlineData": {"data": "aGk=", "mimeType": "image/png"}, "partMetadata": FREE},
    ]
    contents = [
        {"parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": call}]},
        {"role": "user", "parts": said},
    ]
    request = Context.from_messages(Gemini(MODEL_NAME), {"model": MODEL_NAME, "contents": contents}).request()
    assert request["contents"][1:] == [
        contents[1],
        {
            "role": "user",
            "parts": [said[0], {"inlineData": {"data": b"hi", "mimeType": "image/png"}, "partMetadata": FREE}],
        },
    ]


def test_what_claude_was_told_between_turns_is_a_reminder_here() -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "system", "content": "Be brief."}]
    context = Context.from_messages(
        AnthropicMessages("claude-opus-5", max_tokens=9), {"model": "claude-opus-5", "messages": said}
    )
    context.switch(Gemini(MODEL_NAME))
    (content,) = context.request()["contents"]
    assert content == {"role": "user", "parts": [{"text": "hi"}, {"text": "<system>Be brief.</system>"}]}


def test_both_spellings_of_a_body_are_one_prompt() -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": "-_-_"}, "thoughtSignature": "_w=="}
    camel = {
        "model": MODEL_NAME,
        "systemInstruction": {"parts": [{"text": "a"}]},
        "contents": [{"role": "user", "parts": [part]}],
    }
    snake = {
        "model": MODEL_NAME,
        "system_instruction": {"parts": [{"text": "a"}]},
        "contents": [
            {"parts": [{"inline_data": {"mime_type": "image/png", "data": "+/+/"}, "thought_signature": "/w=="}]}
        ],
    }
    assert list(parse(camel).prompt.digests) == list(parse(snake).prompt.digests)


def test_errors_are_those_of_the_sdk(running: LocalServer, client: Any) -> None:
    running.script([{"fault": {"kind": "status", "status": 400}}])
    context = Context(Gemini(MODEL_NAME))
    context.user("hi")
    with pytest.raises(genai.errors.ClientError, match="INVALID_ARGUMENT"):
        context.request().send(client)
    assert [one.error for one in context.ledger] == ["ClientError"]
    with pytest.raises(UsageError, match=r"genai\.Client"):
        context.request().send(object())


def test_the_example_runs(example: Callable[[str], str]) -> None:
    assert "read from cache" in example("gemini")


def test_arguments_with_integers_beyond_64_bits_are_accepted() -> None:
    call = {"functionCall": {"name": "search", "args": {"query": -(2**63) - 1}}}
    body = {"model": "gemini-3.8-flash", "contents": [{"role": "model", "parts": [call]}]}
    assert not list(request_shape(ReceivedRequest({}, body)))
