"""Bedrock Converse: what is sent fits botocore's own model, and boto3 itself is understood by the local provider,
billed as predicted."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import Context
from contextkit.canonical import parse
from contextkit.errors import InvalidContent, UsageError
from contextkit.prompt.normal_form import normal
from contextkit.providers import BedrockConverse, Gemini
from contextkit.providers.keyed_blocks import unpacked
from contextkit.server import LocalServer
from tests.laws.conversations import BREAKING, SAYING, Conversation, operations
from tests.laws.every_block import spoken_by
from tests.laws.pools import BEDROCK, CALL, MODEL
from tests.laws.wires import PROVIDERS
from tests.providers.filled_shapes import of_shape
from tests.providers.oracles import converse_faults, converse_stream

boto3 = pytest.importorskip("boto3", reason="the SDK of the extra `bedrock` (boto3) is not installed")

laws = settings.get_profile("laws")
CLAUDE = "anthropic.claude-sonnet-5-5"
SYSTEM = "You are careful. " * 300
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
    made = boto3.client(
        "bedrock-runtime",
        endpoint_url=running.url,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )
    yield made
    made.close()


@given(st.data())
@laws
def test_every_request_fits_the_model_of_botocore(data: st.DataObject) -> None:
    conversation = Conversation(PROVIDERS["bedrock"]()).run(data.draw(operations(*SAYING, *BREAKING)))
    for sent in conversation.sent:
        assert converse_faults(sent.request) == []


def test_the_oracle_refuses_what_is_corrupted() -> None:
    context = Context(BedrockConverse(CLAUDE, max_tokens=9), system=SYSTEM, tools=[look])
    context.user([{"type": "text", "text": "hi"}, {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}])
    whole = dict(context.request())
    assert converse_faults(whole) == []
    places = list(objects(whole))
    assert len(places) > 12
    for path in places:
        spoilt = copy.deepcopy(whole)
        inside = spoilt
        for step in path:
            inside = inside[step]
        inside["no_such_field"] = 1
        assert converse_faults(spoilt), path
    for key, value in (("modelId", "x" * 3000), ("messages", [{"role": "nobody", "content": []}])):
        assert converse_faults({**whole, key: value})


def objects(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all objects whose fields the service names."""
    if isinstance(value, dict):
        yield path
        for key, item in value.items():
            yield from objects(item, (*path, key)) if key != "json" else ()
    for index, item in enumerate(value if isinstance(value, list) else ()):
        yield from objects(item, (*path, index))


@pytest.mark.parametrize("road", ["typed", "send", "asend", "stream"])
def test_boto3_carries_a_conversation_that_is_billed_as_predicted(running: LocalServer, client: Any, road: str) -> None:
    running.script(REPLIES)
    context = Context(
        BedrockConverse(CLAUDE, max_tokens=99, head_ttl="1h"), system=SYSTEM, tools=[look], clock=running.clock.now
    )
    context.user(["hi", {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}])
    while not context.finished:
        request = context.request()
        if road == "stream":
            list(context.stream(request.stream(client)))
        else:
            context.receive(
                {
                    "typed": lambda: client.converse(**request),  # noqa: B023
                    "send": lambda: request.send(client),  # noqa: B023
                    "asend": lambda: asyncio.run(request.asend(client)),  # noqa: B023
                }[road]()
            )
        billed = list(context.ledger)[-1].usage
        assert billed is not None and (request.predicted.read, request.predicted.prompt) == (billed.read, billed.prompt)
        for call in context.calls:
            context.result(call, call.run())
    assert context.log[2].body.count(b"reasoningContent") == 1 and b"found found" in context.log[-1].body
    assert [one.usage for one in running.ledger] == [one.usage for one in context.ledger]
    assert [(one.usage.read or 0) > 0 for one in running.ledger if one.usage] == [False, True]


def test_a_thought_that_was_hidden_comes_back_as_it_was_received() -> None:
    hidden = {"reasoningContent": {"redactedContent": b"\xff\x00"}}
    message = {"role": "assistant", "content": [hidden, {"text": "hi"}]}
    context = Context(BedrockConverse(CLAUDE, max_tokens=99), system=SYSTEM)
    context.user("hi")
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    context.receive(
        {"output": {"message": message}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}
    )
    context.user("more")
    assert context.request()["messages"][1]["content"][0] == hidden


def test_errors_are_the_exceptions_of_boto3(running: LocalServer, client: Any) -> None:
    running.script([{"fault": {"kind": "status", "status": 403}}])
    context = Context(BedrockConverse(CLAUDE, max_tokens=9))
    context.user("hi")
    with pytest.raises(client.exceptions.AccessDeniedException):
        context.request().send(client)
    assert [one.error for one in context.ledger] == ["AccessDeniedException"]
    with pytest.raises(client.exceptions.ValidationException, match="must start with a user message"):
        client.converse(modelId=CLAUDE, messages=[{"role": "assistant", "content": [{"text": "hi"}]}])
    points = [{"cachePoint": {"type": "default"}}] * 5
    with pytest.raises(client.exceptions.ValidationException, match="at most 4"):
        client.converse(modelId=CLAUDE, messages=[{"role": "user", "content": [{"text": "hi"}, *points]}])


def test_a_stream_that_fails_half_way_is_no_reply(running: LocalServer, client: Any) -> None:
    running.script([{"parts": CALLS, "fault": {"kind": "error_event", "after_parts": 1}}])
    context = Context(BedrockConverse(CLAUDE, max_tokens=9))
    context.user("hi")
    events = context.request().stream(client)
    with pytest.raises(Exception, match="serviceUnavailableException"):
        list(context.stream(events))
    events.close()
    assert context.stop is None and [one.error for one in context.ledger] == ["EventStreamError"]


# ---- what a reply holds


def answered(*blocks: Any) -> Any:
    return {
        "output": {"message": {"role": "assistant", "content": list(blocks)}},
        "stopReason": "end_turn",
        "usage": {},
    }


def sent_back(response: Any) -> list[Any]:
    """The blocks of a reply as the next request says them, which the service takes."""
    context = Context(BedrockConverse(CLAUDE, max_tokens=9))
    context.user("hi")
    context.receive(response, context.request())
    for call in context.calls:
        context.result(call, "done")
    context.user("on")
    request = context.request()
    assert converse_faults(request) == []
    blocks: list[Any] = parse(request.body)["messages"][1]["content"]
    return blocks


def test_every_block_of_a_reply_is_sent_back_as_it_came() -> None:
    blocks = [*spoken_by("bedrock_converse", MODEL), *spoken_by("bedrock_converse", CALL)[:1]]
    assert sent_back(answered(*unpacked(blocks, frozenset({"bytes", "redactedContent"})))) == [
        normal(block) for block in blocks
    ]


def test_every_block_of_a_stream_is_sent_back_as_the_service_takes_it() -> None:
    shape = converse_stream().members
    starts = {next(iter(start)): start for start in of_shape(shape["contentBlockStart"].members["start"])}
    deltas: dict[str, list[Any]] = {}
    for delta in of_shape(shape["contentBlockDelta"].members["delta"]):
        deltas.setdefault(next(iter(delta)), []).append(delta)
    deltas["toolUse"] = [{"toolUse": {"input": half}} for half in ('{"b": 2, ', '"a": 1}')]
    deltas["citation"].insert(0, {"text": "cited"})
    events: list[Any] = [{"messageStart": {"role": "assistant"}}]
    alone = [
        (kind, [delta]) for kind in ("reasoningContent", "image") for delta in deltas.pop(kind)
    ]  # thinking shown or not, one source
    for index, (kind, grown) in enumerate([*deltas.items(), *alone]):
        events += [{"contentBlockStart": {"start": starts[kind], "contentBlockIndex": index}}] if kind in starts else []
        events += [{"contentBlockDelta": {"delta": delta, "contentBlockIndex": index}} for delta in grown]
    provider = BedrockConverse(CLAUDE)
    joined = provider.joined([*events, {"messageStop": {"stopReason": "end_turn"}}])
    blocks = {next(iter(block)): block for block in sent_back(joined)}
    assert (
        blocks.keys()
        == {"text", "toolUse", "toolResult", "reasoningContent", "citationsContent", "image"}
        <= BEDROCK.keys()
    )
    assert blocks["citationsContent"]["citationsContent"]["content"] == [{"text": "cited"}]
    assert len(blocks["citationsContent"]["citationsContent"]["citations"]) == len(deltas["citation"]) - 1
    assert (
        blocks["toolUse"]["toolUse"]["input"] == {"b": 2, "a": 1}
        and len(blocks["toolResult"]["toolResult"]["content"]) > 1
    )
    assert provider.reply(joined).text.endswith("cited")


def test_a_picture_that_comes_in_pieces_is_one() -> None:
    pieces = [
        {"contentBlockDelta": {"delta": {"image": {"source": {"bytes": part}}}, "contentBlockIndex": 0}}
        for part in (b"a", b"bc")
    ]
    start = {"contentBlockStart": {"start": {"image": {"format": "png"}}, "contentBlockIndex": 0}}
    joined = BedrockConverse(CLAUDE).joined([{"messageStart": {"role": "assistant"}}, start, *pieces])
    assert joined["output"]["message"]["content"] == [{"image": {"format": "png", "source": {"bytes": "YWJj"}}}]


# ---- what other wires leave behind


def test_a_long_title_is_cut_to_what_the_service_takes() -> None:
    context = Context(BedrockConverse(CLAUDE))
    context.user([{"type": "document", "media_type": "application/pdf", "data": "JVBERi0=", "title": "word " * 60}])
    assert converse_faults(context.request()) == []


def test_calls_that_came_without_ids_have_ids_here() -> None:
    context = Context(Gemini("gemini-2.5-pro"), tools=[look])
    context.user("hi")
    call = {"functionCall": {"name": "look", "args": {"b": "x"}}}
    context.receive(
        {
            "candidates": [{"content": {"role": "model", "parts": [call, call]}, "finishReason": "STOP"}],
            "usageMetadata": {},
        }
    )
    for one in context.calls:
        context.result(one, one.run())
    context.switch(BedrockConverse(CLAUDE))
    assert converse_faults(context.request()) == []
    asked, given = (message["content"] for message in context.request()["messages"][1:3])
    ids = [block["toolUse"]["toolUseId"] for block in asked]
    assert ids == [block["toolResult"]["toolUseId"] for block in given[:2]] == ["call-0", "call-1"]


def test_a_block_of_its_own_is_said_here_and_told_in_words_elsewhere() -> None:
    video = {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://bucket/a.mp4"}}}}
    found = {"searchResult": {"source": "https://example.com", "title": "t", "content": [{"text": "found"}]}}
    context = Context(BedrockConverse(CLAUDE))
    context.user([{"type": "native", "wire": "bedrock_converse", "block": block} for block in (video, found)])
    assert (
        context.request()["messages"][0]["content"][:2] == [video, found] and converse_faults(context.request()) == []
    )
    context.switch(Gemini("gemini-2.5-pro"))
    assert context.request()["contents"] == [{"role": "user", "parts": [{"text": "[video]"}, {"text": "found"}]}]
    with pytest.raises(InvalidContent, match="one that holds an object"):
        context.user([{"type": "native", "wire": "bedrock_converse", "block": {"video": "a.mp4"}}])


def test_bytes_are_bytes_where_the_service_has_them_and_nowhere_else() -> None:
    fields = {"additionalModelRequestFields": {"bytes": "no base64"}, "requestMetadata": {"bytes": "none"}}
    context = Context(BedrockConverse(CLAUDE, **fields))
    context.user([{"type": "image", "media_type": "image/png", "data": "aGk="}])
    request = context.request()
    assert {key: request[key] for key in fields} == fields
    assert request["messages"][0]["content"][0] == {"image": {"format": "png", "source": {"bytes": b"hi"}}}


def test_where_points_go_and_where_not() -> None:
    def points(model: str, system: Any, **more: Any) -> list[str]:
        context = Context(BedrockConverse(model, max_tokens=9, **more), system=system, tools=[look])
        context.user("word " * 4000)
        fields = dict(context.request())
        arrays = {
            "tools": fields["toolConfig"]["tools"],
            "system": fields.get("system", []),
            "messages": fields["messages"][0]["content"],
        }
        found = [
            (name, block["cachePoint"]) for name, array in arrays.items() for block in array if "cachePoint" in block
        ]
        return [f"{name} {point.get('ttl', '5m')}" for name, point in found]

    assert points(CLAUDE, SYSTEM, head_ttl="1h") == ["system 1h", "messages 5m"]
    assert points("amazon.nova-pro-v1:0", SYSTEM) == ["system 5m", "messages 5m"]
    assert points("amazon.nova-pro-v1:0", None) == ["messages 5m"]
    assert points(CLAUDE, "short") == ["messages 5m"]  # a prefix below the minimum cannot be cached
    with pytest.raises(UsageError, match="takes"):
        BedrockConverse("amazon.nova-pro-v1:0", ttl="1h")


def test_no_other_client_is_taken(client: Any) -> None:
    context = Context(BedrockConverse(CLAUDE, max_tokens=9))
    context.user("hi")
    with pytest.raises(UsageError, match="bedrock-runtime"):
        context.request().send(object())
    with pytest.raises(UsageError, match="headers"):
        context.request(extra_headers={"a": "b"}).send(client)


def test_the_example_runs(example: Callable[[str], str]) -> None:
    assert "read from cache" in example("bedrock")
