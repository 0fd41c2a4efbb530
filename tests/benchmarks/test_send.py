"""What a call costs the caller: `request.send` against the SDK's typed method, real clients, the other side in a
process of its own.

pytest tests/benchmarks/test_send.py -n 0 -s
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from contextkit import AnthropicMessages, OpenAIChat, OpenAIResponses
from contextkit.providers.provider import Provider
from tests.benchmarks.clock import caller_cpu, medians
from tests.benchmarks.conversations import Talk
from tests.benchmarks.loopback import provider

ROUNDS = 11
N_TURNS = 1000
"""2,000 messages and more."""
N_LETTERS = 1900
"""Of each thing said, which makes more than 4 MB."""


@dataclass(frozen=True)
class Case:
    """One endpoint."""

    provider: Provider
    client: Callable[[str], Any]
    """Base URL → the SDK's client."""
    typed: Callable[[Any], Callable[..., Any]]
    """Client → its stock method."""
    share: float
    """Most of the stock method's CPU that sending may take."""


def anthropic_client(url: str) -> Any:
    import anthropic

    return anthropic.Anthropic(base_url=url, api_key="any", max_retries=0)


def openai_client(url: str) -> Any:
    import openai

    return openai.OpenAI(base_url=url, api_key="any", max_retries=0)


CASES = {
    "anthropic": Case(
        AnthropicMessages("claude-sonnet-5-5", max_tokens=9),
        anthropic_client,
        lambda client: client.messages.create,
        1 / 8,
    ),
    "openai chat": Case(
        OpenAIChat("gpt-6.1-sol"), openai_client, lambda client: client.chat.completions.create, 1 / 80
    ),
    "openai responses": Case(
        OpenAIResponses("gpt-6.1-sol"), openai_client, lambda client: client.responses.create, 1 / 80
    ),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with provider() as address:
        yield address


@pytest.mark.parametrize("name", CASES)
def test_sending_takes_a_small_share_of_the_stock_clients_cpu(name: str, url: str) -> None:
    case = CASES[name]
    context = Talk(case.provider, N_LETTERS, seed=9).until(N_TURNS)
    request, client = context.request(), case.client(url)
    fields: Mapping[str, Any] = dict(request)  # plain dicts, parsed before anything is measured
    stock, send, both = medians(
        caller_cpu,
        ROUNDS,
        lambda: case.typed(client)(**fields),
        lambda: request.send(client),
        lambda: context.request().send(client),
    )
    client.close()
    size = len(request.body)
    print(
        f"\n{name}: {size:,} bytes; stock {stock:.1f} ms CPU, send {send:.2f} (1/{stock / send:.0f}), request and send {both:.2f}"
    )
    assert size > 4_000_000
    assert send <= case.share * stock


@pytest.mark.parametrize("name", CASES)
def test_sending_takes_one_copy_of_the_body(name: str, url: str) -> None:
    case = CASES[name]
    request, client = Talk(case.provider, N_LETTERS, seed=10).until(300).request(), case.client(url)
    request.send(client)
    size = len(request.body)
    tracemalloc.start()
    try:
        request.send(client)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    client.close()
    print(f"\n{name}: peak {peak / size:.2f} bodies of {size:,} bytes")
    assert peak <= 1.2 * size
