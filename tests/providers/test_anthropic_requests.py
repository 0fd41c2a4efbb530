"""What leaves for Anthropic: bodies its SDK's types take, and the real client on both roads, without a network."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import AnthropicMessages, Context, Request
from contextkit.canonical import parse
from tests.laws.conversations import BREAKING, SAYING, SYSTEM, TOOLS, Conversation, operations
from tests.laws.wires import PROVIDERS
from tests.providers.strict import faults
from tests.providers.test_anthropic_replies import message, streamed

laws = settings.get_profile("laws")


@pytest.mark.parametrize("name", [name for name in PROVIDERS if name.startswith("anthropic")])
@given(st.data())
@laws
def test_every_body_is_one_the_sdk_would_take(name: str, data: st.DataObject) -> None:
    for sent in Conversation(PROVIDERS[name]()).run(data.draw(operations(*SAYING, *BREAKING))).sent:
        assert faults(MessageCreateParamsNonStreaming, parse(sent.body)) == []


def rich() -> Context:
    """A context that has said a little of everything."""
    context = Context(
        AnthropicMessages("claude-sonnet-5-5", max_tokens=64, thinking={"type": "adaptive"}), system=SYSTEM, tools=TOOLS
    )
    context.user(
        [
            "hi 👩‍👩‍👧",
            {"type": "image", "url": "https://example.com/cat.png"},
            {"type": "document", "media_type": "text/plain", "data": "words"},
        ]
    )
    context.receive(message(), context.request())
    for call in context.calls:
        context.result(call, ValueError("no") if call.name == "now" else {"found": 10**20})
    context.notice("The budget is half spent.")
    return context


# ---- the real client


class Wire:
    """A transport that remembers what it was given, and answers from a list."""

    def __init__(self, *answers: httpx2.Response) -> None:
        self.seen: list[httpx2.Request] = []
        self.answers = list(answers)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        self.seen.append(request)
        return self.answers.pop(0)

    @property
    def bodies(self) -> list[bytes]:
        return [request.content for request in self.seen]


def ok() -> httpx2.Response:
    return httpx2.Response(200, json=message(), headers={"request-id": "req_1"})


def events() -> httpx2.Response:
    lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in streamed(message()))
    return httpx2.Response(200, text=lines, headers={"content-type": "text/event-stream"})


def client_of(wire: Wire, **options: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key="sk-test", http_client=httpx2.Client(transport=httpx2.MockTransport(wire)), **options
    )


def nested(body: bytes) -> list[bytes]:
    """The bytes of each tool, system block and message of a body, in its own spelling."""
    fields = json.loads(body)
    items = [item for name in ("tools", "system", "messages") for item in fields[name]]
    return [json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode() for item in items]


def test_the_stock_method_sends_the_same_segments() -> None:
    context, wire = rich(), Wire(ok())
    request = context.request()
    answer = client_of(wire).messages.create(**request)
    assert isinstance(answer, anthropic.types.Message)
    stock = wire.bodies[0].replace(b"1e-07", b"1e-7")  # Python's JSON adds a zero; it reads as the same number
    assert nested(stock) == nested(request.body)
    assert all(segment.body[:-1] in stock for segment in request.layout.blocks)
    assert {
        key: value for key, value in json.loads(stock).items() if key not in ("tools", "system", "messages")
    } == dict(request.params)
    context.receive(answer)


def test_the_fast_road_sends_the_body_and_gives_the_typed_message() -> None:
    context, wire = rich(), Wire(ok())
    request = context.request()
    answer = request.send(client_of(wire))
    assert isinstance(answer, anthropic.types.Message) and answer._request_id == "req_1"
    (sent,) = wire.seen
    assert sent.content == request.body
    assert (sent.method, sent.url.path) == ("POST", "/v1/messages")
    assert sent.headers["authorization"] == "Bearer sk-test" and sent.headers["content-type"] == "application/json"
    assert sent.headers["anthropic-version"] and int(sent.headers["content-length"]) == len(request.body)
    context.receive(answer)
    assert len(context.calls) == 2


def test_a_retry_is_byte_identical(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    context = rich()
    wire = Wire(
        httpx2.Response(529, json={"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}), ok()
    )
    request = context.request()
    request.send(client_of(wire))
    assert wire.bodies == [request.body, request.body] and len(context.ledger) == 1


def test_a_refusal_is_in_the_ledger_without_its_text() -> None:
    context = rich()
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": "messages.0: SECRET"}}
    with pytest.raises(anthropic.BadRequestError):
        context.request().send(client_of(Wire(httpx2.Response(400, json=error))))
    call = context.ledger[-1]
    assert call.error == "400 invalid_request_error" and call.usage is None
    assert len(context.log) == len(rich().log)


def test_streams_on_both_roads() -> None:
    context, wire = rich(), Wire(events())
    request = context.request()
    with request.stream(client_of(wire)) as stream:
        kinds = {event.type for event in context.stream(stream, request)}
    assert "message_start" in kinds and "message_stop" in kinds and len(context.calls) == 2
    (body,) = wire.bodies
    assert json.loads(body) == {**json.loads(request.body), "stream": True} and body.endswith(
        request.body[request.body.index(b',"tools":') :]
    )

    other, stock = rich(), Wire(events())
    request = other.request()
    with client_of(stock).messages.create(**request, stream=True) as stream:
        list(other.stream(stream, request))
    assert other.log[-1].body == context.log[-1].body


def test_the_sdks_stream_helper_works_too() -> None:
    context, wire = rich(), Wire(events())
    request = context.request()
    with client_of(wire).messages.stream(**request) as stream:
        list(context.stream(stream, request))
    plain = rich()
    plain.receive(message(), plain.request())
    assert context.log[-1].body == plain.log[-1].body


def test_a_model_without_system_messages_between_turns_is_told_in_the_users() -> None:
    said = [{"role": "user", "content": "hi"}, {"role": "system", "content": "Be brief."}]
    context = Context.from_messages(
        AnthropicMessages("claude-opus-5", max_tokens=9), {"model": "claude-opus-5", "messages": said}
    )
    assert [message["role"] for message in context.request()["messages"]] == ["user", "system"]
    context.switch(AnthropicMessages("claude-sonnet-4-5", max_tokens=9))
    (message,) = context.request()["messages"]
    assert [block["text"] for block in message["content"]] == ["hi", "<system>Be brief.</system>"]


def test_a_mapping_of_the_body() -> None:
    request = rich().request(temperature=None)
    assert isinstance(request, Request) and len(request) == len(dict(request)) and bool(request)
    assert {**request} == json.loads(request.body) and "temperature" not in request
