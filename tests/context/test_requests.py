"""What a request is: a mapping for the typed method and bytes for the fast road, with overrides, extra fields and a
prediction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai
import pytest

from contextkit import AnthropicMessages, AssumedModelWarning, Context, OpenAIChat, OpenAICompatible
from contextkit.canonical import parse
from contextkit.errors import UsageError
from tests.context.desk import Desk, asks, bill, goes_on, honest, says


@contextmanager
def listened(client: Any) -> Iterator[list[Any]]:
    """The HTTP requests that leave a client."""
    leaving: list[Any] = []
    client._client.event_hooks = {"request": [leaving.append]}
    yield leaving
    client._client.event_hooks = {}


def test_overrides_are_for_one_request_and_none_leaves_a_field_out(desk: Desk) -> None:
    context = desk.context("one")
    limited = context.request(**{desk.wire.output: 77})
    assert parse(limited.body)[desk.wire.output] == 77 and limited[desk.wire.output] == 77
    assert parse(context.request().body)[desk.wire.output] == 1024
    assert "store" not in context.request(store=None) and "temperature" not in parse(
        context.request(temperature=None).body
    )
    goes_on(desk, context)


@pytest.mark.parametrize("is_typed", [True, False], ids=["create", "send"])
def test_fields_the_typed_method_lacks_and_headers_reach_the_provider(desk: Desk, is_typed: bool) -> None:
    context = desk.context("one")
    request = context.request(
        extra_headers={"x-trace": 7},
        extra_body={"service_tier": "auto", "no_such_field": [1]},
        metadata={"user_id": "u"},
    )
    assert request["extra_body"]["no_such_field"] == [1] and request["extra_headers"] == {"x-trace": "7"} == dict(
        request.headers
    )
    assert parse(request.body)["service_tier"] == "auto" and "extra_body" not in parse(request.body)
    with desk.client() as client, listened(client) as seen:
        context.receive(desk.wire.create(client)(**request) if is_typed else request.send(client), request)
    [leaving] = seen
    assert leaving.headers["x-trace"] == "7" and b"no_such_field" in leaving.content
    goes_on(desk, context)


def test_a_parameter_that_is_misspelled_or_unknown_is_refused_with_the_nearest_name(claude: Desk) -> None:
    context = claude.context("one")
    with pytest.raises(
        UsageError, match=r"temprature: .* did you mean 'temperature'\?.*extra_body=\{'temprature': …\}"
    ):
        context.request(temprature=1)
    with pytest.raises(UsageError, match=r"no_such_field: .* no parameter of this name"):
        context.request(no_such_field=1)
    assert context.request(extra_body={"no_such_field": 1}, no_such_other=None)["extra_body"] == {"no_such_field": 1}


def test_a_request_before_anything_was_said_says_what_to_call() -> None:
    provider = AnthropicMessages("claude-opus-5-5", max_tokens=9)
    with pytest.raises(UsageError, match=r"no message yet: call context\.user"):
        Context(provider, system="x").request()
    with pytest.raises(UsageError, match="did you mean 'temperature'"):
        AnthropicMessages("claude-opus-5-5", max_tokens=9, temprature=1)
    assert OpenAICompatible("m", host="vllm", window_tokens=9_000, no_such_field=1).params["no_such_field"] == 1


def test_a_model_that_is_misspelled_or_of_another_provider_warns_and_says_what_to_use() -> None:
    with pytest.warns(AssumedModelWarning, match=r"a model of openai, .* use OpenAIResponses or OpenAIChat"):
        AnthropicMessages("gpt-5.6-sol", max_tokens=9)
    with pytest.warns(AssumedModelWarning, match="Did you mean 'claude-sonnet-5-5'"):
        AnthropicMessages("claude-sonet-5-5", max_tokens=9)
    with pytest.warns(AssumedModelWarning, match=r"a model of anthropic, .* use AnthropicMessages"):
        OpenAIChat("claude-opus-5-5")


def test_both_roads_send_the_same_body(desk: Desk) -> None:
    context = desk.context("one")
    desk.ask(context, asks(("add", {"b": 1, "a": 2}), text="Zwölf"))
    context.result(context.calls[0], 3)
    request = context.request()
    with desk.client() as client, listened(client) as seen:
        request.send(client)
        desk.wire.create(client)(**request)
    bodies = [leaving.content for leaving in seen]
    assert bodies[0] == request.body and parse(bodies[1]) == parse(bodies[0])
    assert (
        parse(bodies[0]).keys()
        == dict(request).keys() - {"extra_body", "extra_headers"} | request.get("extra_body", {}).keys()
    )


def test_a_request_that_does_not_fit_says_so(claude: Desk) -> None:
    context = claude.context("one")
    assert context.request().overflow is None
    over = context.request(**{claude.wire.output: 2_000_000}).overflow
    assert (
        over is not None
        and over.n_tokens == context.request().predicted.prompt
        and "context.compact(summary)" in str(over)
    )
    goes_on(claude, context)


def test_predictions_hold_turn_by_turn_as_time_passes(desk: Desk) -> None:
    context = desk.context("one")
    lifetime = max(context.provider.model.ttls_seconds)
    for wait in (0, 200, 299, 301, 1799, 1801, lifetime + 1, 10):
        desk.server.clock.advance(wait)
        request = desk.ask(context, asks(("add", {"a": 1, "b": 2}), text="wait", seconds=2))
        assert bill(request.predicted) == bill(desk.server.ledger[len(desk.server.ledger) - 1].usage)
        context.result(context.calls[0], "a longer result, so that something grows " * 30)
    goes_on(desk, context, says_something=False)
    honest(desk, context)


def test_a_client_of_another_kind_is_refused_before_anything_is_sent(desk: Desk) -> None:
    context = desk.context("one")
    request = context.request()
    strangers = {"anthropic": openai.OpenAI(api_key="x"), "openai": anthropic.Anthropic(api_key="x")}
    stranger = strangers[request.provider]
    rewriting = {
        "anthropic": lambda: anthropic.AnthropicBedrock(aws_region="nowhere", aws_access_key="x", aws_secret_key="x"),
        "openai": lambda: openai.AzureOpenAI(api_key="x", api_version="v", azure_endpoint="http://127.0.0.1:9"),
    }[request.provider]()
    with stranger, rewriting:
        for client, said in ((stranger, "nothing was sent"), (rewriting, "typed method")):
            for act in (request.send, request.stream):
                with pytest.raises(UsageError, match=said):
                    act(client)
    assert len(context.ledger) == 0
    goes_on(desk, context)


def test_a_prewarm_is_billed_and_says_nothing(claude: Desk) -> None:
    context = claude.context("one")
    assert context.receive(claude.send(context.request(max_tokens=0), "send")) is None
    assert len(context.log) == 2 and not context.finished and context.stop is None
    [warmed] = context.ledger
    assert warmed.usage is not None and (warmed.usage.write_5m or 0) > 1000 and warmed.usage.output == 0
    request = claude.ask(context, says())
    assert request.predicted.read == warmed.usage.write_5m and context.finished
    assert context.ledger[1].usage is not None and context.ledger[1].usage.read == warmed.usage.write_5m


def test_headers_and_fields_given_to_a_provider_leave_as_those_given_to_a_call(claude: Desk) -> None:
    provider = claude.wire.provider(
        extra_headers={"authorization": "tok123", "X-Trace": 7}, extra_body={"service_tier": "auto", "user": "u"}
    )
    context = Context(provider, clock=claude.server.clock.now)
    context.user("hello")
    request = context.request()
    assert dict(request.headers) == {"authorization": "tok123", "X-Trace": "7"} == request["extra_headers"]
    assert (parse(request.body)["service_tier"], parse(request.body)["user"]) == ("auto", "u")
    assert b"extra_" not in request.body and b"tok123" not in request.body
    asked = context.request(extra_headers={"x-trace": 8}, extra_body={"user": "v"})
    assert dict(asked.headers) == {"authorization": "tok123", "x-trace": "8"}
    assert (parse(asked.body)["service_tier"], parse(asked.body)["user"]) == ("auto", "v")
    for wrong in ({"extra_headers": 5}, {"extra_body": [1]}, {"extra_body": {"model": "another"}}):
        with pytest.raises(UsageError, match="model" if "model" in str(wrong) else next(iter(wrong))):
            claude.wire.provider(**wrong)


def test_beta_features_named_in_three_places_are_all_asked_for() -> None:
    provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=9, betas=["a"], extra_headers={"Anthropic-Beta": "b"})
    context = Context(provider)
    context.user("hello")
    assert dict(context.request(extra_headers={"anthropic-beta": "c"}).headers) == {"anthropic-beta": "a,b,c"}
