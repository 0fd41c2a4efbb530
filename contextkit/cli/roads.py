"""Two ways to the local provider: the real SDK client over HTTP, or its core in this process.

Takes a request and a script, gives what the provider billed. Both see only the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from contextkit.canonical import Json, parse
from contextkit.cli.replaying import Road
from contextkit.context import Context
from contextkit.errors import UnreadableReply
from contextkit.ledger.calls import Exchange
from contextkit.providers.request import Request
from contextkit.server.answer import CHAT, MESSAGES, RESPONSES, answer
from contextkit.server.local import LocalServer
from contextkit.server.state import Clock, State

_WIRES = {"anthropic_messages": MESSAGES, "openai_chat": CHAT, "openai_responses": RESPONSES}
_HEADERS = {"authorization": "Bearer local", "anthropic-version": "2023-06-01"}


class Direct:
    """The provider's core, without HTTP and without an SDK."""

    def __init__(self) -> None:
        self._state = State(Clock(0.0, is_frozen=True))

    def send(self, context: Context, request: Request, script: Json, now: float) -> Exchange:
        """Body in, body out."""
        self._state.clock.set(max(now, self._state.clock.now()))
        self._state.replies.extend([script])
        outcome = answer(self._state, _WIRES[request.wire], _HEADERS, request.body)
        bill = self._state.ledger[-1]
        if outcome.status == 200 and outcome.is_whole:
            context.receive(parse(b"".join(outcome.chunks)), request)
        elif bill.error is None:
            raise UnreadableReply(f"the local provider refused a replayed request (status {outcome.status})")
        else:
            context.failed(bill.error, request, has_begun=bill.first_byte_at is not None)
        return bill


class Sdk:
    """The real client, over real HTTP; replies that break off are streamed, so that their beginning arrives."""

    def __init__(self, server: LocalServer, client: Any, errors: tuple[type[Exception], ...]) -> None:
        self._server, self._client, self._errors = server, client, errors

    def send(self, context: Context, request: Request, script: Json, now: float) -> Exchange:
        """Through `client.post`."""
        self._server.clock.set(max(now, self._server.clock.now()))
        self._server.script([script])
        n = len(self._server.ledger)
        try:
            if script["fault"] is None:
                context.receive(request.send(self._client), request)
            else:
                for _ in context.stream(request.stream(self._client), request):
                    pass
        except self._errors:
            if len(self._server.ledger) == n or script["fault"] is None:
                raise
        return self._server.ledger[-1]


@contextmanager
def direct(wire: str) -> Iterator[Road]:
    """The short road."""
    yield Direct()


@contextmanager
def sdk(wire: str) -> Iterator[Road]:
    """The long one: a server on loopback, and the client that speaks `wire`."""
    with LocalServer(now=0.0, is_frozen=True) as server:
        client, errors = _CLIENTS[wire](server)
        with client:
            yield Sdk(server, client, errors)


def _anthropic(server: LocalServer) -> tuple[Any, tuple[type[Exception], ...]]:
    import anthropic
    import httpx2

    client = anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0)
    return client, (anthropic.APIError, httpx2.HTTPError, UnreadableReply)


def _openai(server: LocalServer) -> tuple[Any, tuple[type[Exception], ...]]:
    import httpx2
    import openai

    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="local", max_retries=0)
    return client, (openai.APIError, httpx2.HTTPError, UnreadableReply)


_CLIENTS: dict[str, Callable[[LocalServer], tuple[Any, tuple[type[Exception], ...]]]] = {
    "anthropic_messages": _anthropic,
    "openai_chat": _openai,
    "openai_responses": _openai,
}
ROADS = {"sdk": sdk, "direct": direct}
"""`--via` → how requests travel."""
