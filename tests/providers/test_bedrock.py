"""Bedrock Converse: what is sent fits botocore's own model, and boto3 itself is understood by the local provider, billed as predicted."""

from __future__ import annotations

import asyncio
import copy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contextkit import Context
from contextkit.errors import UsageError
from contextkit.providers.bedrock.converse import BedrockConverse
from contextkit.server import LocalServer
from tests.laws.conversations import BREAKING, SAYING, Conversation, operations
from tests.laws.wires import PROVIDERS

boto3 = pytest.importorskip("boto3", reason="the SDK of the extra `bedrock` (boto3) is not installed")
botocore_validate = pytest.importorskip("botocore.validate")
botocore_session = pytest.importorskip("botocore.session")

laws = settings.get_profile("laws")
ROOT = Path(__file__).resolve().parents[2]
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
        "bedrock-runtime", endpoint_url=running.url, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any"
    )  # fmt: skip
    yield made
    made.close()


def faults(fields: Any) -> str:
    """What botocore's model of `Converse` has against keyword arguments; a union must say exactly one thing."""
    model = botocore_session.get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape
    report = botocore_validate.ParamValidator().validate(fields, model).generate_report()
    return report or "; ".join(unions(fields, model, "$"))


def unions(value: Any, shape: Any, path: str) -> Iterator[str]:
    if shape.type_name == "structure" and not getattr(shape, "is_document_type", False) and isinstance(value, dict):
        if getattr(shape, "is_tagged_union", False) and len(value) != 1:
            yield f"{path}: {sorted(value)}"
        for name, item in value.items():
            yield from unions(item, shape.members[name], f"{path}.{name}")
    elif shape.type_name == "list":
        for index, item in enumerate(value):
            yield from unions(item, shape.member, f"{path}[{index}]")
    elif shape.type_name == "string" and shape.enum and value not in shape.enum:
        yield f"{path}: {value!r} not in {shape.enum}"


@given(st.data())
@laws
def test_every_request_fits_the_model_of_botocore(data: st.DataObject) -> None:
    conversation = Conversation(PROVIDERS["bedrock"]()).run(data.draw(operations(*SAYING, *BREAKING)))
    for sent in conversation.sent:
        assert faults(dict(sent.request)) == ""


def test_the_oracle_refuses_what_is_corrupted() -> None:
    context = Context(BedrockConverse(CLAUDE, max_tokens=9), system=SYSTEM, tools=[look])
    context.user([{"type": "text", "text": "hi"}, {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}])
    whole = dict(context.request())
    assert faults(whole) == ""
    places = list(objects(whole))
    assert len(places) > 12
    for path in places:
        spoilt = copy.deepcopy(whole)
        inside = spoilt
        for step in path:
            inside = inside[step]
        inside["no_such_field"] = 1
        assert faults(spoilt), path


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
    context = Context(BedrockConverse(CLAUDE, max_tokens=99, head_ttl="1h"), system=SYSTEM, tools=[look], clock=running.clock.now)
    context.user(["hi", {"type": "image", "media_type": "image/png", "data": "iVBORw0KGgo="}])
    while not context.finished:
        request = context.request()
        if road == "stream":
            list(context.stream(request.stream(client)))
        else:
            context.receive(
                {"typed": lambda: client.converse(**request), "send": lambda: request.send(client),  # noqa: B023
                 "asend": lambda: asyncio.run(request.asend(client))}[road]()  # noqa: B023
            )  # fmt: skip
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
    context.receive({"output": {"message": message}, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}})
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


def test_where_points_go_and_where_not() -> None:
    def points(model: str, system: Any, **more: Any) -> list[str]:
        context = Context(BedrockConverse(model, max_tokens=9, **more), system=system, tools=[look])
        context.user("word " * 4000)
        fields = dict(context.request())
        arrays = {"tools": fields["toolConfig"]["tools"], "system": fields.get("system", []), "messages": fields["messages"][0]["content"]}
        found = [(name, block["cachePoint"]) for name, array in arrays.items() for block in array if "cachePoint" in block]
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


def test_the_example_runs() -> None:
    command = [sys.executable, "-W", "error", "bedrock.py"]
    ran = subprocess.run(command, cwd=ROOT / "examples", capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "") and "read from cache" in ran.stdout
