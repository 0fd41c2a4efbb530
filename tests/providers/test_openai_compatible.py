"""`OpenAICompatible`: one adapter, a row a host.

What each is sent by the real client, what it bills, what it is sent back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx2
import openai
import pytest

from contextkit import Context, OpenAIChat, Phase, Phases, Tool
from contextkit.cache.hosted.rules import HOSTED
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.errors import UsageError
from contextkit.log.log import Turns
from contextkit.models import model_named
from contextkit.providers.engine_masks import ENGINES
from contextkit.providers.openai_compatible import HOSTS, OpenAICompatible
from contextkit.server import LocalServer

pytest.importorskip("uvicorn", reason="the local server needs the extra `server`")

NAMES = ("page_open", "page_close", "send")
TOOLS = [Tool.raw({"name": name, "parameters": {"type": "object"}}, run=lambda given: "done") for name in NAMES]
PHASES = Phases({"look": Phase(["page_*"], require=True, then={"page_close": "end"}), "end": Phase([])}, start="look")
every_host = pytest.mark.parametrize("host", HOSTS)


def made(host: str, **more: Any) -> OpenAICompatible:
    """A provider with everything its row has a field for."""
    row = HOSTS[host]
    session = {"session": 3 if row.is_number else "run-7"} if row.affinity else {}
    salt = {"salt": "tenant-1"} if row.salt else {}
    return OpenAICompatible("some/model", host=host, max_tokens=64, **{**session, **salt, **more})


SERVERS: dict[str, LocalServer] = {}
"""Engine → its server, which is started once."""


@pytest.fixture(scope="module", autouse=True)
def stopped() -> Iterator[None]:
    yield
    while SERVERS:
        SERVERS.popitem()[1].stop()


@contextmanager
def recorded(host: str, replies: list[Any]) -> Iterator[tuple[openai.OpenAI, list[httpx2.Request]]]:
    """A client of a server that takes any model, and the requests it was sent."""
    engine, sent = HOSTS[host].engine or "sglang", list[httpx2.Request]()
    if engine not in SERVERS:
        SERVERS[engine] = LocalServer(cache=engine).start()
    SERVERS[engine].reset()
    SERVERS[engine].script(replies)
    http = httpx2.Client(event_hooks={"request": [sent.append]})
    with openai.OpenAI(base_url=f"{SERVERS[engine].url}/v1", api_key="any", http_client=http) as client:
        yield client, sent


# ---- what is sent


@every_host
def test_the_real_client_sends_what_the_row_says_typed_and_prepared(host: str) -> None:
    row, provider = HOSTS[host], made(host, temperature=0)
    context = Context(provider, system="Be terse.", tools=TOOLS)
    context.user("Go.")
    with recorded(host, [{"parts": [{"type": "text", "text": "Gone."}]}] * 2) as (client, sent):
        request = context.request()
        client.chat.completions.create(**request)  # type: ignore[call-overload]
        reply = request.send(client)
    for body, headers in ((json.loads(each.content), each.headers) for each in sent):
        assert (body["messages"][0]["role"], body[row.most], body["temperature"]) == (row.role, 64, 0)
        assert not row.salt or body[row.salt] == "tenant-1"
        where = {"body": body, "header": headers}
        assert not row.affinity or where[row.affinity[0]][row.affinity[1]] == (3 if row.is_number else "run-7")
    assert json.loads(sent[0].content) == json.loads(sent[1].content)
    context.receive(reply)
    assert context.ledger[-1].provider == provider.name
    assert (context.ledger[-1].usage or Usage()).read == reply.usage.prompt_tokens_details.cached_tokens


def test_what_a_row_has_no_field_for_is_an_error_that_says_so() -> None:
    for given, says in (
        ({"host": "tgi"}, "use one of vllm, sglang"),
        ({"host": "deepseek", "session": "a"}, "DeepSeek has no field that chooses a server"),
        ({"host": "llamacpp", "session": "a"}, "takes a whole number for id_slot"),
        ({"host": "vllm", "session": 4}, "takes a text for session_id"),
        ({"host": "groq", "salt": "a"}, "Groq has no field that keeps tenants apart"),
        ({"host": "mistral"}, "caches only what carries a prompt_cache_key: give session="),
        ({"host": "vllm", "call_format": "gpt"}, "no call format 'gpt'"),
    ):
        with pytest.raises(UsageError, match=says):
            OpenAICompatible("some/model", **given)  # type: ignore[arg-type]
    assert OpenAICompatible("some/model", host="mistral", prompt_cache_key="k").params["prompt_cache_key"] == "k"


def test_a_reply_is_begun_where_the_host_goes_on_with_it() -> None:
    for host, row in HOSTS.items():
        if row.takes_prefill:
            message, fields = made(host).prefilled("{")
            assert message == {"role": "assistant", "content": "{", **row.prefix} and fields == row.goes_on
        else:
            with pytest.raises(UsageError, match="ask in words"):
                made(host).prefilled("{")


# ---- the model's row


def test_a_model_nobody_knows_gets_the_rules_of_its_host() -> None:
    for host in (name for name, row in HOSTS.items() if row.rule):
        rule, model = HOSTED[HOSTS[host].rule], made(host).model
        assert (model.min_tokens, model.default_ttl_seconds) == (rule.min_tokens, rule.ttl_seconds)
        assert model.cache == ("billed" if rule.kind == "implicit" and rule.bills_writes else rule.kind)


def test_the_table_knows_some_and_the_caller_others() -> None:
    assert OpenAICompatible("deepseek-v4-pro", host="deepseek").model is not None
    assert model_named("deepseek-v4-pro").source == "DS GP"
    given = OpenAICompatible("own/model", host="vllm", window_tokens=32_768, block_tokens=528).model
    assert (given.window_tokens, given.granularity_tokens, given.provider) == (32_768, 528, "vllm")
    assert OpenAICompatible("own/model", host="vllm").model.granularity_tokens == 16, (
        "what was said before is forgotten"
    )
    claude = OpenAICompatible("anthropic/claude-opus-5.5", host="openrouter", model_row=model_named("claude-opus-5-5"))
    assert (claude.model.name, claude.model.min_tokens, claude.plan.has_head) == (
        "anthropic/claude-opus-5.5",
        512,
        True,
    )
    assert OpenAICompatible("gpt-6.1-sol", host="azure", session="k").telling == "allowed_tools"


def test_what_decodes_a_reply_is_no_part_of_an_engines_prompt_and_what_salts_it_is() -> None:
    context = Context(made("vllm"), system="Be terse. " * 40, tools=TOOLS)
    context.user("Go.")
    plain, formed = context.request(), context.request(response_format={"type": "json_object"}, session_id="other")
    salted, shown = (
        context.request(cache_salt="other"),
        context.request(chat_template_kwargs={"enable_thinking": False}),
    )
    assert formed.prompt.namespaces == plain.prompt.namespaces
    assert salted.prompt.namespaces[0] != plain.prompt.namespaces[0] != shown.prompt.namespaces[0]


# ---- bills


def completion(message: Any, **more: Any) -> Any:
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    return {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice], **more}


SAID = {"role": "assistant", "content": "Gone."}
COUNTED = {"prompt_tokens": 100, "completion_tokens": 5}
DETAILS = {"prompt_tokens_details": {"cached_tokens": 60}}
WRITTEN = {"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}}
BILLS: list[tuple[str, Any, Usage]] = [
    ("vllm", {"usage": {**COUNTED, **DETAILS}}, Usage(40, 60, 0, 0, 5)),
    ("vllm", {"usage": {**COUNTED, "prompt_tokens_details": None}}, Usage(output=5)),
    ("llamacpp", {"usage": COUNTED, "timings": {"cache_n": 60, "prompt_n": 40}}, Usage(40, 60, 0, 0, 5)),
    ("ollama", {"usage": COUNTED}, Usage(output=5)),
    (
        "deepseek",
        {"usage": {**COUNTED, "prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 40}},
        Usage(40, 60, 0, 0, 5),
    ),
    ("kimi", {"usage": {**COUNTED, "cached_tokens": 60}}, Usage(None, 60, None, None, 5)),
    ("openrouter", {"usage": {**COUNTED, **WRITTEN}}, Usage(10, 60, 30, 0, 5)),
    ("openrouter", {"usage": {**COUNTED, **DETAILS}}, Usage(40, 60, 0, 0, 5)),
]


@pytest.mark.parametrize(("host", "counters", "expected"), BILLS)
def test_cached_tokens_are_read_where_the_host_says_them_and_unknown_elsewhere(
    host: str, counters: Any, expected: Usage
) -> None:
    assert made(host).reply(completion(SAID, **counters)).usage == expected


def test_the_dollars_a_router_bills_are_the_calls_own_in_the_ledger() -> None:
    context = Context(made("openrouter"))
    context.user("Go.")
    context.receive(completion(SAID, usage={**COUNTED, **WRITTEN, "cost": 0.25, "is_byok": False}))
    (call,) = context.ledger.calls
    assert call.billed_usd == 0.25
    assert context.summary().cost_usd == 0.25


# ---- reasoning


def after(provider: Any, reply: Any) -> Any:
    context = Context(provider)
    context.user("Go.")
    context.receive(reply)
    context.user("On.")
    return context


def test_what_a_model_thought_is_sent_back_in_the_hosts_own_field_or_not_at_all() -> None:
    for host, row in HOSTS.items():
        for name in ("reasoning_content", "reasoning"):
            message = after(made(host), completion({**SAID, name: "Hm."})).request()["messages"][1]
            assert message == {**SAID, **({row.thought: "Hm."} if row.thought else {})}, host


def test_pieces_of_a_stream_grow_into_the_thought_they_are() -> None:
    deltas = [
        {"role": "assistant", "reasoning_content": "H"},
        {"reasoning_content": "m."},
        {"content": "Go"},
        {"content": "ne."},
    ]
    chunks = [
        {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    last = {
        "id": "c",
        "model": "m",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "usage": {**COUNTED, **DETAILS},
    }
    provider = made("sglang")
    reply = provider.reply(provider.joined([*chunks, last]))
    assert parse(reply.native.body) == [{"role": "assistant", "reasoning_content": "Hm.", "content": "Gone."}]
    details = [
        {"type": "reasoning.text", "index": 0, "text": "H"},
        {"type": "reasoning.text", "index": 0, "text": "m.", "signature": "s"},
    ]
    pieces = [{"choices": [{"index": 0, "delta": {"reasoning_details": [piece]}}]} for piece in details]
    joined = made("openrouter").joined([*pieces, last])
    grown = [{"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "s"}]
    assert joined["choices"][0]["message"]["reasoning_details"] == grown


def test_a_switch_takes_the_thought_along_where_the_other_host_reads_it() -> None:
    context = after(made("vllm"), completion({**SAID, "reasoning": "Hm."}))
    for provider, name in (
        (made("deepseek"), "reasoning_content"),
        (made("openrouter"), "reasoning"),
        (OpenAIChat("gpt-6.1-sol"), None),
    ):
        context.provider = provider
        assert context.request()["messages"][1] == {**SAID, **({name: "Hm."} if name else {})}
    assert Turns.over(context.log).epoch == 0


# ---- phases


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("vllm", [("structural_tag", "provider", 0), ("none", "provider", 0)]),
        ("sglang", [("structural_tag", "provider", 0), ("structural_tag", "provider", 0)]),
        ("llamacpp", [("reminder", "contextkit", 60), ("none", "provider", 60)]),
        ("ollama", [("reminder", "contextkit", 60), ("reminder", "contextkit", 60)]),
    ],
)
def test_phases_are_sent_as_the_engines_own_constraint_by_themselves(
    host: str, expected: list[tuple[str, str, int]]
) -> None:
    context = Context(made(host, call_format="qwen"), system="Be terse. " * 40, tools=TOOLS, phases=PHASES)
    context.user("Close the page.")
    replies = [
        {"parts": [{"type": "call", "name": "page_close", "arguments": {}}]},
        {"parts": [{"type": "text", "text": "Closed."}]},
    ]
    seen = []
    with recorded(host, replies) as (client, sent):
        while not context.finished:
            request = context.request()
            seen.append((request.mask.mechanism, request.mask.enforced_by, request.mask.cost_tokens))
            context.receive(request.send(client), request)
            for call in context.calls:
                context.result(call, call.run())
    assert [(name, by, cost > 0) for name, by, cost in seen] == [(name, by, cost > 0) for name, by, cost in expected]
    assert all(cost <= most for (_, _, cost), (_, _, most) in zip(seen, expected, strict=True))
    bodies = [json.loads(each.content) for each in sent]
    assert bodies[0]["tools"] == bodies[1]["tools"] and ("response_format" in bodies[0]) == (host in ("vllm", "sglang"))


@pytest.mark.parametrize("host", ENGINES)
def test_a_form_the_caller_gives_replies_is_not_taken_away(host: str) -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    always = Context(made(host, call_format="qwen", response_format=schema), tools=TOOLS, phases=PHASES)
    once = Context(made(host, call_format="qwen"), tools=TOOLS, phases=PHASES)
    for context in (always, once):
        context.user("Go.")
    for request, mechanism in ((always.request(), "reminder"), (once.request(response_format=schema), "override")):
        assert (request["response_format"], request.mask.mechanism, request.mask.enforced_by) == (
            schema,
            mechanism,
            "contextkit",
        )


def test_without_a_call_format_only_what_needs_none_is_enforced() -> None:
    table = Phases({"a": Phase(["send"], require=True, then={"send": "b"}), "b": Phase(["page_*"])}, "a")
    context = Context(made("vllm"), tools=TOOLS, phases=table)
    context.user("Go.")
    named = {"type": "function", "function": {"name": "send"}}
    assert (context.request().mask.mechanism, context.request()["tool_choice"]) == ("named", named)
    context.enter("b")
    assert (context.request().mask.mechanism, "tool_choice" in context.request()) == ("reminder", False)


def test_a_row_may_be_replaced_whole() -> None:
    row = replace(model_named("gpt-4o"), cache="implicit", granularity_tokens=64, window_tokens=8192)
    assert OpenAICompatible("mine", host="sglang", model_row=row).model == replace(row, name="mine")
