"""A conversation with the local provider, over one endpoint, through the real SDK clients: what is said, and what must
hold afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import openai

from contextkit import AnthropicMessages, Context, OpenAIChat, OpenAIResponses, Usage
from contextkit.providers.provider import Provider
from contextkit.providers.request import Request
from contextkit.server import LocalServer
from tests.context.head import SYSTEM, add, shout


@dataclass(frozen=True)
class Wire:
    """One endpoint as a user meets it."""

    provider: Callable[..., Provider]
    client: Callable[..., Any]
    async_client: Callable[..., Any]
    create: Callable[[Any], Callable[..., Any]]
    output: str


WIRES: dict[str, Wire] = {
    "anthropic": Wire(
        lambda **more: AnthropicMessages("claude-sonnet-5-5", **{"max_tokens": 1024, **more}),
        anthropic.Anthropic,
        anthropic.AsyncAnthropic,
        lambda client: client.messages.create,
        "max_tokens",
    ),
    "chat": Wire(
        lambda **more: OpenAIChat("gpt-6.1-sol", **{"max_tokens": 1024, **more}),
        openai.OpenAI,
        openai.AsyncOpenAI,
        lambda client: client.chat.completions.create,
        "max_completion_tokens",
    ),
    "responses": Wire(
        lambda **more: OpenAIResponses("gpt-6.1-sol", **{"max_output_tokens": 1024, **more}),
        openai.OpenAI,
        openai.AsyncOpenAI,
        lambda client: client.responses.create,
        "max_output_tokens",
    ),
}


CLIENTS: dict[Any, Any] = {}
"""Endpoint and place → the client of this process; closed with the server."""


@dataclass
class Desk:
    """Where one conversation takes place."""

    wire: Wire
    server: LocalServer

    @property
    def url(self) -> str:
        return self.server.url if self.wire.client is anthropic.Anthropic else f"{self.server.url}/v1"

    @contextmanager
    def client(self, max_retries: int = 0) -> Iterator[Any]:
        """A client, made once: each loads the system's certificates, which takes longer than a conversation."""
        key = self.wire.client, self.url
        if key not in CLIENTS:
            CLIENTS[key] = self.wire.client(base_url=self.url, api_key="any", max_retries=0)
        yield CLIENTS[key].with_options(max_retries=max_retries)

    def async_client(self, max_retries: int = 0) -> Any:
        return self.wire.async_client(base_url=self.url, api_key="any", max_retries=max_retries)

    def context(self, *said: str, **options: Any) -> Context:
        """A conversation on the server's clock, in which `said` was said."""
        made = Context(
            self.wire.provider(), **{"system": SYSTEM, "tools": [add, shout], "clock": self.server.clock.now, **options}
        )
        for text in said:
            made.user(text)
        return made

    def open(self, folder: Any, **options: Any) -> Context:
        given = {"system": SYSTEM, "tools": [add, shout], "clock": self.server.clock.now, **options}
        return Context.open(folder, self.wire.provider(), **given)

    def send(self, request: Request, way: str, max_retries: int = 0) -> Any:
        """The reply to `request`: by `send`, `create` (the typed method), `stream` or `asend`."""
        if way == "asend":
            return asyncio.run(self._asend(request, max_retries))
        with self.client(max_retries) as client:
            return self.wire.create(client)(**request) if way == "create" else getattr(request, way)(client)

    async def _asend(self, request: Request, max_retries: int) -> Any:
        async with self.async_client(max_retries) as client:
            return await request.asend(client)

    def ask(self, context: Context, *scripts: Any) -> Request:
        """One turn: the next request goes out, the answer is kept."""
        self.server.script(scripts)
        request = context.request()
        with self.client() as client:
            context.receive(request.send(client), request)
        return request


def says(text: str = "ok", **more: Any) -> Any:
    """A script that says `text`."""
    return {"parts": [{"type": "text", "text": text}], **more}


def asks(*calls: tuple[str, dict[str, Any]], text: str = "", **more: Any) -> Any:
    """A script that calls tools."""
    spoken = [{"type": "text", "text": text}] if text else []
    return {
        "parts": [*spoken, *({"type": "call", "name": name, "arguments": arguments} for name, arguments in calls)],
        **more,
    }


def refuses(status: int, **more: Any) -> Any:
    """A script that answers with an HTTP error."""
    return {"fault": {"kind": "status", "status": status, **more}}


CUT_BEFORE: Any = {"fault": {"kind": "never"}}


def bill(usage: Usage | None) -> tuple[Any, ...] | None:
    """What was sent, as it was billed."""
    return None if usage is None else (usage.fresh, usage.read, usage.write_5m, usage.write_1h)


def honest(desk: Desk, context: Context) -> None:
    """Every reply the server completed is in the ledger with its bill, once; nothing is there that it did not do."""
    kept = [call for call in context.ledger if call.error is None]
    served = {call.id: call for call in desk.server.ledger if call.error is None}
    assert [call.id for call in kept] == list(served)
    for call in kept:
        assert call.usage is not None and served[call.id].usage is not None
        assert (bill(call.usage), call.usage.output) == (
            bill(served[call.id].usage),
            served[call.id].usage.output,
        )
        assert not call.usage.estimated


def goes_on(desk: Desk, context: Context, *, says_something: bool = True) -> Request:
    """The next request is valid, is billed as predicted, and is an honest line in the ledger."""
    if says_something:
        context.user("And then?")
    request = desk.ask(context, says("That is all."))
    served, kept = desk.server.ledger[len(desk.server.ledger) - 1], context.ledger[len(context.ledger) - 1]
    assert served.error is None and kept.error is None and kept.id == served.id
    assert bill(kept.usage) == bill(served.usage) == bill(request.predicted)
    assert request.predicted.estimated and request.predicted.output is None
    assert context.finished and context.stop == "done" and context.calls == []
    return request
