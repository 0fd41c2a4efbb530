"""What a budget lets pass, through the proxy and through a watched client: calls that can be priced and requests that
cost nothing, in whatever spelling; and any JSON in the fields that a price depends on."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anthropic
import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contextkit import Budget, watch
from contextkit.errors import BudgetExceeded, UsageError
from contextkit.server import LocalServer
from contextkit.watcher.budget import BudgetGate
from tests.scale import n_examples
from tests.server.proxied import Wire, client, passing, provider

UNPRICED = [
    "/v1/messages/batches",
    "/v1/messages/batches/",
    "/v1//messages///batches?beta=true",
    "/V1/Messages/BATCHES",
    "/v1/mess%61ges/b%61tches",
    "/v1/messages%2Fbatches",
    "/v1/batches",
    "/v1/responses/compact",
    "/v1/responses/compact/",
    "/v1beta/models/gemini-2.5-pro:batchGenerateContent",
    "/v1beta/models/gemini-2.5-pro%3AbatchGenerateContent",
    "/v1beta/models/gemini-2.5-pro:asyncBatchEmbedContent",
    "/v1beta/cachedContents",
    "/async-invoke",
    "/v1/threads/thread_1/runs",
    "/v1/threads/runs",
    "/v1/embeddings",
    "/v1/fine_tuning/jobs",
    "/v1/an/endpoint/of/tomorrow",
]
"""Paths of a `POST` that may be billed, and that no one can price before it is sent."""
FREE = [
    ("GET", "/v1/models"),
    ("GET", "/v1/messages/batches/b_1/results"),
    ("DELETE", "/v1/files/file_1"),
    ("POST", "/v1/messages/count_tokens?beta=true"),
    ("POST", "/v1/messages/count%5Ftokens/"),
    ("POST", "/v1/responses/input_tokens"),
    ("POST", "/v1beta/models/gemini-2.5-pro:countTokens"),
    ("POST", "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict"),
    ("POST", "/v1/files"),
    ("POST", "/v1/threads"),
    ("POST", "/v1/threads/thread_1/messages"),
    ("POST", "/v1/batches/batch_1/cancel"),
]
PRICED = [
    "/v1/messages",
    "/v1/messages/",
    "/v1/mess%61ges",
    "/V1/MESSAGES?beta=true",
    "//v1//messages//",
    "/v1/chat/./completions",
    "/v1/responses/",
    "/v1/Completions",
    "/v1beta/models/gemini-2.5-pro%3AgenerateContent",
    "/v1beta/models/gemini-2.5-pro:STREAMGENERATECONTENT/",
    "/model/eu.anthropic.claude-haiku-4-5-20251001-v1%3A0/converse-stream/",
]
"""Spellings of paths of model calls."""


@contextmanager
def recording() -> Iterator[tuple[str, list[str]]]:
    """The URL of a provider that answers anything with `{}`, and the paths that reached it."""
    reached: list[str] = []

    def answer(wire: Wire) -> None:
        while head := wire.head():
            size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
            wire.exactly(size)
            reached.append(head.split()[1].decode())
            wire.say(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")

    with provider(answer) as url:
        yield url, reached


def status(wire: Wire, method: str, path: str, headers: str = "") -> tuple[int, bytes]:
    """Ask over one kept connection."""
    body = b"" if method == "GET" else b'{"model":"claude-sonnet-5-5","max_tokens":50,"messages":[]}'
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    wire.say(head.encode() + body)
    head_of_answer, answered = wire.request()
    return int(head_of_answer.split()[1]), answered


def test_the_proxy_refuses_what_it_cannot_price_and_says_what_lets_it_pass() -> None:
    refused: list[Any] = []
    with (
        recording() as (upstream, reached),
        passing(upstream, budget=Budget(tokens=1_000_000), on_report=refused.append) as url,
        client(url) as wire,
    ):
        for path in UNPRICED:
            code, text = status(wire, "POST", path)
            assert code == 402 and b"--budget-allow-unpriced" in text, path
        assert not reached and len(refused) == len(UNPRICED)
        for method, path in FREE:
            assert status(wire, method, path)[0] == 200, path
        assert reached == [path for _, path in FREE]
    with recording() as (upstream, reached), passing(upstream, budget=Budget(tokens=0), allow_unpriced=True) as url:
        with client(url) as wire:
            assert {status(wire, "POST", path)[0] for path in UNPRICED} == {200}
            assert {status(wire, "POST", path)[0] for path in PRICED} == {402}
        assert reached == UNPRICED


@pytest.mark.parametrize("body", [b'{"model":"nobody-lists-this","max_tokens":5}', b"\x28\xb5\x2f\xfd not JSON", b"{}"])
def test_dollars_that_nobody_can_count_are_refused(body: bytes) -> None:
    limits: list[dict[str, Any]] = [{"usd": 9.0}, {"usd": 9.0, "tokens": 10_000_000}, {"tokens": 10_000_000}]
    for limit in limits:
        gate = BudgetGate(Budget(**limit), "s")
        if "usd" in limit:
            with pytest.raises(BudgetExceeded, match="budget of dollars"):
                gate.admit("POST", "/v1/messages", body)
            gate = BudgetGate(Budget(**limit), "s", allow_unpriced=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that its dollars do not count
            assert gate.admit("POST", "/v1/messages", body)


def test_a_web_socket_that_is_not_read_is_refused_under_a_budget_only() -> None:
    upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n"
    with (
        recording() as (upstream, reached),
        passing(upstream, budget=Budget(tokens=10_000)) as url,
        client(url) as wire,
    ):
        code, text = status(wire, "GET", "/v1/realtime", upgrade)
        assert code == 426 and b"send them as POST over HTTP" in text and not reached
        for more in ("", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"):
            assert status(wire, "GET", "/v1/models", more)[0] == 200
    unlimited: list[dict[str, Any]] = [{}, {"budget": Budget(tokens=10_000), "allow_unpriced": True}]
    for named in unlimited:
        with recording() as (upstream, reached), passing(upstream, **named) as url, client(url) as wire:
            assert status(wire, "GET", "/v1/realtime", upgrade)[0] == 200 and reached == ["/v1/realtime"]


def test_a_watched_client_refuses_the_same() -> None:
    with recording() as (url, reached), anthropic.Anthropic(base_url=url, api_key="any", max_retries=0) as made:
        watched = watch(made, budget=Budget(tokens=1_000_000))
        for path in UNPRICED:
            with pytest.raises(BudgetExceeded, match="allow_unpriced=True") as caught:
                watched.post(path, body={"requests": []}, cast_to=object)
            assert "nothing was sent" in str(caught.value)
        with pytest.raises(BudgetExceeded, match="batches"):
            watched.messages.batches.create(requests=[])
        with pytest.raises(BudgetExceeded, match="batches"):
            watched.post("/v1/messages/batches", content=iter([b"{}"]), cast_to=object)
        assert not reached
        for method, path in FREE:
            (watched.get if method == "GET" else watched.delete if method == "DELETE" else watched.post)(
                path, cast_to=object
            )
        watched.beta.files.upload(file=("a.txt", b"hello", "text/plain"))
        assert len(reached) == len(FREE) + 1
        none_left = watch(made, budget=Budget(tokens=10), allow_unpriced=True)
        none_left.messages.batches.create(requests=[])
        for path in PRICED:
            with pytest.raises(BudgetExceeded, match="could cost up to"):
                none_left.post(path, body={"model": "claude-sonnet-5-5", "messages": []}, cast_to=object)
        assert len(reached) == len(FREE) + 2
    with pytest.raises(UsageError, match="give budget"):
        watch(anthropic.Anthropic(api_key="any"), allow_unpriced=True)


# Any JSON in the fields that a price depends on
# ------------------------------------------------------------------------------------------------------------------

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "2", " 900 ", "900", "1e999", "nan", "ephemeral", "flex", "claude-sonnet-5-5"]),
    st.text(max_size=5),
)
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["type", "ttl", "maxTokens", "maxOutputTokens", "candidateCount", "budget_tokens", "id", "text"]
            ),
            inner,
            max_size=2,
        )
    ),
    max_leaves=5,
)
FIELDS = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "n",
    "best_of",
    "model",
    "service_tier",
    "serviceTier",
    "speed",
    "inference_geo",
    "inferenceConfig",
    "generationConfig",
    "thinking",
    "prompt_cache_options",
    "prompt_cache_retention",
    "previous_response_id",
    "conversation",
    "stream",
    "cache_control",
    "messages",
    "system",
    "tools",
    "input",
    "prompt",
    "contents",
]
WHOLE: dict[str, dict[str, Any]] = {
    "/v1/messages": {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    "/v1/chat/completions": {"model": "gpt-6.1-sol", "messages": [{"role": "user", "content": "hi"}]},
    "/v1/responses": {"model": "gpt-6.1-sol", "input": "hi"},
    "/v1/completions": {"model": "gpt-6.1-sol", "prompt": "hi"},
    "/v1beta/models/gemini-2.5-pro:generateContent": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
    "/model/eu.amazon.nova-pro/converse": {"messages": [{"role": "user", "content": [{"text": "hi"}]}]},
    "/model/eu.anthropic.claude-haiku-4-5/invoke": {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
}
BODIES = st.tuples(st.sampled_from(sorted(WHOLE)), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3))


def test_any_json_in_a_priced_field_is_priced_or_passed_on() -> None:
    """By the proxy, and by a watched client."""
    with (
        warnings.catch_warnings(),
        recording() as (upstream, _),
        passing(upstream, budget=Budget(usd=1e6, tokens=10**15)) as url,
        client(url) as wire,
        openai.OpenAI(base_url=f"{upstream}/v1", api_key="any", max_retries=0) as made,
    ):
        warnings.simplefilter("ignore")  # a model without a price
        watched = watch(made, budget=Budget(usd=1e6, tokens=10**15))

        @settings(max_examples=n_examples(20, 2_000), deadline=None, suppress_health_check=list(HealthCheck))
        @given(BODIES)
        def holds(given: tuple[str, dict[str, Any]]) -> None:
            path, fields = given
            body = json.dumps({**WHOLE[path], **fields}).encode()
            wire.say(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            assert wire.request()[0].split()[1] in (b"200", b"402")
            with suppress(BudgetExceeded):
                watched.post(f"{upstream}{path}", content=body, cast_to=object)

        holds()


def test_a_number_as_text_is_reserved_as_the_number(server: LocalServer) -> None:
    """`n: "2"` asks for two answers, `max_tokens: "900"` for 900 tokens."""
    body = {"model": "gpt-6.1-sol", "messages": [{"role": "user", "content": "hi"}], "n": "2"}
    with passing(server.url, budget=Budget(tokens=1)) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="any") as gpt:
        for asked in (900, "900", " 900", 900.0):
            with pytest.raises(openai.APIStatusError, match="and 1,800 of output") as caught:
                gpt.post("/chat/completions", body={**body, "max_completion_tokens": asked}, cast_to=object)
            assert caught.value.status_code == 402
        with pytest.raises(openai.APIStatusError, match="the rest of the window"):
            gpt.post("/chat/completions", body={**body, "max_completion_tokens": ["9"]}, cast_to=object)
