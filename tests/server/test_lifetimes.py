"""Lifetimes through the real SDK clients: what an adapter asks for, what the local provider bills, and what is learned
from a bill that contradicts the assumed rule of mixed lifetimes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import openai
import pytest

from contextkit import AnthropicMessages, Context, FileMemory, OpenAIChat, OpenAIResponses
from contextkit.providers.bedrock.converse import BedrockConverse
from contextkit.providers.provider import Provider
from contextkit.server import LocalServer

START = 1_795_500_000.0
"""A day whose prices are known."""
SYSTEM = "You answer questions about orders. " * 900
PROVIDERS: dict[str, tuple[Callable[[str], Provider], int, int]] = {
    "anthropic": (lambda ttl: AnthropicMessages("claude-sonnet-5-5", max_tokens=64, ttl=ttl), 300, 3600),
    "responses": (lambda ttl: OpenAIResponses("gpt-6.1-sol", max_output_tokens=64, ttl=ttl), 1800, 43200),
    "chat": (lambda ttl: OpenAIChat("gpt-6.1-sol", max_tokens=64, ttl=ttl), 1800, 43200),
    "bedrock": (lambda ttl: BedrockConverse("anthropic.claude-sonnet-5-5", max_tokens=64, ttl=ttl), 300, 3600),
}
"""Adapter with a `ttl`, the short lifetime and the long one."""


def client_for(name: str, server: LocalServer) -> Any:
    if name == "anthropic":
        return anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0)
    if name == "bedrock":
        boto3 = pytest.importorskip("boto3", reason="the SDK of the extra `bedrock` is not installed")
        return boto3.client(
            "bedrock-runtime",
            endpoint_url=server.url,
            region_name="us-east-1",
            aws_access_key_id="any",
            aws_secret_access_key="any",
        )
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0)


@pytest.fixture(scope="module")
def dated() -> Iterator[LocalServer]:
    with LocalServer(now=START) as server:
        yield server


class Conversation:
    """Turns of one conversation with a real client, at the server's clock."""

    def __init__(self, name: str, server: LocalServer, ttl: str = "auto") -> None:
        server.reset()
        self.server = server
        self.client = client_for(name, server)
        self.context = Context(PROVIDERS[name][0](ttl), system=SYSTEM, clock=server.clock.now)

    def ask(self, text: str, pause: float = 0.0) -> Any:
        """The usage that was billed; it must be what was predicted."""
        self.server.clock.advance(pause)
        self.context.user(text)
        request = self.context.request()
        self.context.receive(request.send(self.client), request)
        billed = self.server.ledger.calls[-1].usage
        recorded = self.context.ledger.calls[-1].usage
        for usage in (billed, recorded):
            assert (usage.fresh, usage.read, dict(usage.writes)) == (
                request.predicted.fresh,
                request.predicted.read,
                dict(request.predicted.writes),
            )
        return billed


@pytest.mark.parametrize("name", PROVIDERS)
def test_auto_asks_for_the_long_lifetime_where_it_pays_and_reads_it_after_a_long_pause(
    name: str, dated: LocalServer
) -> None:
    short, long = PROVIDERS[name][1:]
    talk = Conversation(name, dated)
    for pause in (0.0, 20.0, 20.0, 1.5 * short, 20.0, 1.5 * short):
        talk.ask("Where is my order? " * 20, pause)
    lifetimes = {ttl for call in dated.ledger.calls for ttl, _ in call.usage.writes}
    assert long in lifetimes
    usage = talk.ask("And now?", 0.9 * long)
    assert usage.read > 4_000 and usage.read > 0.9 * usage.prompt


@pytest.mark.parametrize(
    "provider",
    [
        BedrockConverse("amazon.nova-pro-v1:0", ttl="auto"),
        OpenAIResponses("gpt-5.4", ttl="auto"),
        OpenAIChat("gpt-6.1-sol", ttl="auto", prompt_cache_options={"mode": "explicit"}),
    ],
)
def test_auto_takes_the_only_lifetime_of_a_model_that_has_one(provider: Provider) -> None:
    context = Context(provider, system=SYSTEM)
    context.user("Where is my order?")
    assert context.plan.explain()
    assert provider.plan.long_ttl_seconds in (0, 43200)


def test_auto_together_with_memory_a_sub_agent_a_compaction_and_a_resumed_folder(
    tmp_path: Any, dated: LocalServer
) -> None:
    dated.reset()
    client = client_for("anthropic", dated)
    folder = tmp_path / "run"

    def opened(**more: Any) -> Context:
        provider = AnthropicMessages("claude-sonnet-5-5", max_tokens=64, ttl="auto")
        return Context.open(folder, provider, memory=FileMemory(tmp_path / "files"), clock=dated.clock.now, **more)

    def ask(context: Context, text: str, pause: float) -> None:
        dated.clock.advance(pause)
        context.user(text)
        request = context.request()
        context.receive(request.send(client), request)
        billed = dated.ledger.calls[-1].usage
        assert (billed.read, dict(billed.writes)) == (request.predicted.read, dict(request.predicted.writes))

    with opened(system=SYSTEM) as context:
        for pause in (0.0, 20.0, 20.0, 400.0):
            ask(context, "Where is my order? " * 20, pause)
        ask(context.spawn("Look up order A-1."), "Now.", 20.0)
        ask(context, "And now?", 400.0)
        explained, body = context.plan.explain(), context.request().body
    with opened() as context:
        assert (context.plan.explain(), context.request().body) == (explained, body)
        side = context.summarising()
        request = side.request()
        side.receive(request.send(client), request)
        context.compact(side)
        ask(context, "Go on.", 400.0)
        ask(context, "Go on.", 20.0)
        assert dated.ledger.calls[-1].usage.read > 4_000
    client.close()


# The rule of mixed lifetimes
# -----------------------------------------------------------------------------------------------------------------------------

PAUSES = (0.0, 20.0, 20.0, 20.0)
"""Over the second pause `auto` goes over to the long lifetime, which relies on the rule."""


@pytest.fixture(scope="module")
def separate() -> Iterator[LocalServer]:
    """A provider at which the rule does not hold."""
    with LocalServer(now=START, mixed_lifetimes=False) as server:
        yield server


def sent(talk: Conversation, text: str, pause: float) -> tuple[Any, Any]:
    """What was predicted and what was billed."""
    talk.server.clock.advance(pause)
    talk.context.user(text)
    request = talk.context.request()
    talk.context.receive(request.send(talk.client), request)
    return request.predicted, talk.server.ledger.calls[-1].usage


@pytest.mark.parametrize("name", ["anthropic", "responses", "bedrock"])
def test_one_contradicting_bill_teaches_the_account_and_the_planner(name: str, separate: LocalServer) -> None:
    short = PROVIDERS[name][1]
    talk = Conversation(name, separate)
    contradicted = 0
    for pause in (*PAUSES, 1.5 * short, 20.0, 1.5 * short, 20.0):
        predicted, billed = sent(talk, "Where is my order? " * 10, pause)
        contradicted += billed.read < predicted.read
        if contradicted:
            assert not talk.context.plan.choice.state.is_mixed
    assert contradicted == 1


def test_the_users_file_turns_the_rule_off_for_planner_prediction_and_provider(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = tmp_path / "facts.toml"
    facts.write_text('[[rules]]\nname = "mixed_lifetimes"\nprovider = "anthropic"\nholds = false\n')
    monkeypatch.setenv("CONTEXTKIT_MODELS", str(facts))
    with LocalServer(now=START) as server:
        talk = Conversation("anthropic", server)
        assert not talk.context.plan.choice.state.is_mixed
        for pause in (*PAUSES, 400.0, 20.0, 400.0, 20.0, 400.0):
            talk.ask("Where is my order? " * 10, pause)
        other = Conversation("responses", server)
        assert other.context.plan.choice.state.is_mixed
