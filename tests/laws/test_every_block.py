"""Law 8 on every block there is: what the SDKs' types know is generated, sent as they take it, read back, accepted, and
nothing is lost.

A block that a new version of an SDK brings fails `test_a_row_places_every_block_of_the_sdk` until its row says who says
it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, get_args, get_origin

import anthropic
import openai
import pytest
import typing_extensions
from anthropic.types.beta.beta_content_block_param import BetaContentBlockParam
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming as ChatParams
from openai.types.responses import ResponseInputItemParam

from contextkit import Context
from contextkit.canonical import canonical, parse
from contextkit.providers.endpoints import PARSERS
from contextkit.providers.openai_compatible import HOSTS
from contextkit.providers.request import Request
from contextkit.server import LocalServer
from tests.laws.every_block import ROWS, bodies, conversation_of, heads_of, words_in
from tests.laws.normalised import said
from tests.laws.pools import NEVER
from tests.providers import oracles
from tests.providers.strict import faults, fields_of
from tests.providers.test_openai_compatible import made

Json = Any
laws = settings.get_profile("laws")
every_wire = pytest.mark.parametrize("wire", ROWS)
CASES = [(wire, kind) for wire, row in ROWS.items() for kind, who in row.speakers.items() if who[0] != NEVER]

pytest.importorskip("boto3", reason="the SDK of the extra `bedrock` (boto3) is not installed")
pytest.importorskip("google.genai", reason="the SDK of the extra `gemini` (google-genai) is not installed")


# ---- what is generated is all there is


@every_wire
def test_a_row_places_every_block_of_the_sdk(wire: str) -> None:
    assert ROWS[wire].blocks().keys() == ROWS[wire].speakers.keys()


def tags(kind: Any, seen: set[Any]) -> Iterator[str]:
    """Every type and role that stands in a TypedDict or below it."""
    if not typing_extensions.is_typeddict(kind):
        yield from (tag for part in get_args(kind) if not isinstance(part, str | int) for tag in tags(part, seen))
    elif kind not in seen:
        seen.add(kind)
        for name, (hint, _) in fields_of(kind).items():
            yield from literals(hint) if name in ("type", "role") else ()
            yield from tags(hint, seen) if name not in ("tools", "definition") else ()


def literals(hint: Any) -> Iterator[str]:
    if get_origin(hint) is typing_extensions.Literal:
        yield from get_args(hint)
    else:
        yield from (tag for part in get_args(hint) for tag in literals(part))


def members(shape: Any, seen: set[str]) -> Iterator[str]:
    """Every field of a shape of botocore, or below it."""
    if shape.type_name == "list":
        yield from members(shape.member, seen)
    elif shape.type_name == "structure" and shape.name not in seen:
        seen.add(shape.name)
        for name, member in shape.members.items():
            yield name
            yield from members(member, seen)


def aliases(model: Any, seen: set[Any]) -> Iterator[str]:
    """Every field of a pydantic model, or below it."""
    if model in seen or not hasattr(model, "model_fields"):
        yield from (name for part in get_args(model) for name in aliases(part, seen))
        return
    seen.add(model)
    for name, info in model.model_fields.items():
        yield info.alias or name
        yield from aliases(info.annotation, seen)


KNOWN: dict[str, Callable[[], set[str]]] = {
    "anthropic_messages": lambda: {tag for kind in get_args(BetaContentBlockParam)[:-1] for tag in tags(kind, set())},
    "openai_chat": lambda: set(tags(ChatCompletionMessageParam, set())),
    "openai_responses": lambda: set(tags(ResponseInputItemParam, set())),
    "bedrock_converse": lambda: set(members(oracles.converse().members["messages"], set())),
    "gemini": lambda: set(aliases(oracles.part(), set())),
}
"""Wire → every tag or field that the SDK's types have below a message."""
UNUSED = {
    "openai_responses": {"item_reference"},
    "gemini": {
        "partialArgs",
        "willContinue",
        "jsonPath",
        "boolValue",
        "nullValue",
        "numberValue",
        "stringValue",  # of the Enterprise platform
    },
}
"""What is not generated: what is never sent, and what the client refuses to send."""


@every_wire
def test_what_is_generated_holds_everything_that_the_types_have_at_any_depth(wire: str) -> None:
    assert KNOWN[wire]() - UNUSED.get(wire, set()) <= set(words_in(conversation_of(wire)))


# ---- the law, and the types


def holds(wire: str, body: Json) -> None:
    """Generated well; rendered as the types say; read back as the same; adopted without losing a word."""
    row = ROWS[wire]
    assert row.faults(body) == []
    parsed = PARSERS[wire](body)
    rendered = parsed.layout.body(canonical(dict(parsed.params)))
    assert said(wire, parse(rendered)) == said(wire, body) and row.faults(parse(rendered)) == []
    again = PARSERS[wire](parse(rendered))
    assert (
        list(again.prompt.digests) == list(parsed.prompt.digests)
        and again.layout.body(canonical(dict(again.params))) == rendered
    )
    request = Context.from_messages(row.provider(), body).request()
    assert said(wire, parse(request.body)) == said(wire, body) and row.faults(parse(request.body)) == []
    assert list(PARSERS[wire](parse(request.body)).prompt.digests) == list(request.prompt.digests)
    assert as_sent(request) == parse(request.body)


def as_sent(request: Request) -> Json:
    """The keyword arguments as the body that the SDK makes of them, bytes as base64."""
    keywords = {key: value for key, value in request.items() if key != "extra_headers"}
    fields = {**keywords, **keywords.pop("extra_body", {}), **keywords.pop("config", {})}
    fields.pop("extra_body", None)
    fields.pop("config", None)
    return json.loads(json.dumps(fields, default=lambda raw: base64.b64encode(raw).decode()))


@every_wire
def test_a_conversation_of_all_blocks_is_sent_as_the_types_say_and_read_back(wire: str) -> None:
    holds(wire, conversation_of(wire, is_whole=True))


@every_wire
@given(st.data())
@laws
def test_blocks_in_any_order_are_sent_as_the_types_say_and_read_back(wire: str, data: st.DataObject) -> None:
    holds(wire, data.draw(bodies(wire)))


# ---- the real clients, and the local server


@pytest.fixture(scope="module")
def clients() -> Iterator[dict[str, Callable[[Request], Any]]]:
    """Wire → its typed method at the local server."""
    import boto3
    from google import genai

    with LocalServer(now=0.0) as server:
        keys = {"region_name": "us-east-1", "aws_access_key_id": "any", "aws_secret_access_key": "any"}
        claude = anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0)
        gpt = openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)
        bedrock = boto3.client("bedrock-runtime", endpoint_url=server.url, **keys)
        gemini = genai.Client(api_key="any", http_options={"base_url": server.url})
        yield {
            "anthropic_messages": lambda request: (claude.messages.create(**request), request.send(claude)),
            "openai_chat": lambda request: (gpt.chat.completions.create(**request), request.send(gpt)),
            "openai_responses": lambda request: (gpt.responses.create(**request), request.send(gpt)),
            "bedrock_converse": lambda request: (bedrock.converse(**request), request.send(bedrock)),
            "gemini": lambda request: (gemini.models.generate_content(**request), request.send(gemini)),
        }
        for client in (claude, gpt, bedrock, gemini):
            client.close()


Clients = dict[str, Callable[[Request], Any]]


@every_wire
def test_the_local_server_accepts_all_blocks_through_the_real_client(wire: str, clients: Clients) -> None:
    context = Context.from_messages(ROWS[wire].provider(), conversation_of(wire))
    for reply in clients[wire](context.request()):
        assert context.provider.reply(reply).text
    context.receive(reply)
    context.user("Go on.")
    clients[wire](context.request())


ELSEWHERE = {
    "googleSearch": ("blockingConfidence", "excludeDomains"),
    "googleMaps": ("authConfig",),
    **dict.fromkeys(("retrieval", "enterpriseWebSearch", "parallelAiSearch", "exaAiSearch"), ()),
}
"""Tool of Gemini → fields that google-genai sends to another platform only; none: the whole tool."""


def is_elsewhere(body: Json) -> bool:
    tool = (body.get("tools") or [{}])[0] if "contents" in body else {}
    return any(name in tool and (not fields or set(fields) & tool[name].keys()) for name, fields in ELSEWHERE.items())


@every_wire
def test_every_tool_and_system_part_is_sent_as_the_types_say_read_back_and_accepted(
    wire: str, clients: Clients, pytestconfig: pytest.Config
) -> None:
    for body in heads_of(wire, pytestconfig.getoption("--full")):
        holds(wire, body)
        request = Context.from_messages(ROWS[wire].provider(), body).request()
        with (
            pytest.raises(ValueError, match="only supported in Gemini Enterprise")
            if is_elsewhere(body)
            else nullcontext()
        ):
            clients[wire](request)


@pytest.mark.parametrize(("wire", "other"), [(wire, other) for wire in ROWS for other in ROWS if wire != other])
def test_another_wire_says_all_blocks_as_its_own_types_take_them(wire: str, other: str, clients: Clients) -> None:
    body = conversation_of(wire)
    body.pop("tools", None)  # those of one provider's own kind run nowhere else
    context = Context.from_messages(ROWS[wire].provider(), body)
    context.switch(ROWS[other].provider())
    request = context.request()
    assert ROWS[other].faults(parse(request.body)) == [] and as_sent(request) == parse(request.body)
    clients[other](request)


@pytest.mark.parametrize("host", HOSTS)
def test_every_host_is_sent_all_blocks_of_chat(host: str, engine: openai.OpenAI) -> None:
    """Beside fields of the row's own, which go under `extra_body`."""
    provider, body = made(host), {**conversation_of("openai_chat"), "model": "some/model"}
    for call in (call for message in body["messages"] for call in message.get("tool_calls", ()) if "function" in call):
        call["function"]["arguments"] = '{"text":1}'  # hosts are sent no arguments that are no JSON object
    request = Context.from_messages(provider, body).request()
    keywords = {key: value for key, value in request.items() if not key.startswith("extra_")}
    assert faults(ChatParams, keywords) == []
    assert said("openai_chat", parse(request.body)) == said("openai_chat", body)
    assert provider.reply(engine.chat.completions.create(**request)).text


@pytest.fixture(scope="module")
def engine() -> Iterator[openai.OpenAI]:
    with (
        LocalServer(cache="sglang") as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client,
    ):
        yield client


@pytest.mark.parametrize(("wire", "kind"), CASES)
def test_a_conversation_of_one_kind_of_block_keeps_the_law_and_is_accepted(
    wire: str, kind: str, clients: Clients, pytestconfig: pytest.Config
) -> None:
    if not pytestconfig.getoption("--full"):
        pytest.skip("each kind by itself, where all together do not say which one fails: --full")
    body = conversation_of(wire, kind, is_whole=True)
    holds(wire, body)
    clients[wire](Context.from_messages(ROWS[wire].provider(), body).request())
