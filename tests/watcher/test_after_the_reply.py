"""What is told after a reply has come never takes the reply away."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable
from typing import Any

import anthropic
import pytest

from contextkit import watch
from contextkit.lint.finding import Finding
from contextkit.server import LocalServer
from contextkit.watcher import PrefixWarning
from tests.watcher.talk import CLAUDE, HEAD

ASKED: dict[str, Any] = {
    "model": CLAUDE,
    "max_tokens": 64,
    "system": [{"type": "text", "text": HEAD * 3, "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "hi"}],
}


def refusing(finding: Finding) -> None:
    raise RuntimeError("no")


def whole(client: Any) -> Any:
    return client.messages.create(**ASKED)


def streamed(client: Any) -> Any:
    with client.messages.stream(**ASKED) as stream:
        return stream.get_final_message()


def events(client: Any) -> Any:
    return [event.type for event in client.messages.create(**ASKED, stream=True)]


async def whole_async(client: Any) -> Any:
    return await client.messages.create(**ASKED)


async def streamed_async(client: Any) -> Any:
    async with client.messages.stream(**ASKED) as stream:
        return await stream.get_final_message()


def twice(server: LocalServer, on_break: Any, call: Callable[[Any], Any]) -> list[Any]:
    """Two equal calls, between which the provider has lost its cache: the second reads less than it should."""
    if asyncio.iscoroutinefunction(call):

        async def run() -> list[Any]:
            async with watch(anthropic.AsyncAnthropic(base_url=server.url, api_key="any"), on_break=on_break) as client:
                first = await call(client)
                server.reset()
                return [first, await call(client)]

        return asyncio.run(run())
    with watch(anthropic.Anthropic(base_url=server.url, api_key="any"), on_break=on_break) as client:
        first = call(client)
        server.reset()
        return [first, call(client)]


@pytest.mark.parametrize("call", [whole, streamed, events, whole_async, streamed_async])
def test_a_callable_that_raises_after_the_reply_is_logged(
    call: Any, server: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "contextkit.watch"):
        assert len(twice(server, refusing, call)) == 2
    assert [record.message.partition(" for ")[0] for record in caplog.records] == [
        "after a reply, which is kept: on_break raised RuntimeError"
    ]


def test_raise_only_warns_after_the_reply(server: LocalServer) -> None:
    with pytest.warns(PrefixWarning, match="prefix intact"):
        assert len(twice(server, "raise", whole)) == 2


def test_a_filter_that_makes_errors_of_warnings_takes_no_reply_away(
    server: LocalServer, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(), caplog.at_level(logging.ERROR, "contextkit.watch"):
        warnings.simplefilter("error")
        assert len(twice(server, "warn", whole)) == 2
    assert "prefix intact" in caplog.text
