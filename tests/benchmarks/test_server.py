"""How many requests a second the local provider answers, from a process of its own; it reads and bills whole bodies.

pytest tests/benchmarks/test_server.py -n 0 -s --benchmark-enable
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from contextkit import AnthropicMessages, OpenAIChat
from contextkit.providers.provider import Provider
from tests.benchmarks.conversations import Talk

pytest.importorskip("uvicorn", reason="the local server is the extra `server`")

SERVE = "from contextkit.server import serve; serve(port=0, announce=lambda url: print(url, flush=True))"


def anthropic_client(url: str) -> Any:
    import anthropic

    return anthropic.Anthropic(base_url=url, api_key="any", max_retries=0)


def openai_client(url: str) -> Any:
    import openai

    return openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)


CASES: dict[str, tuple[Provider, Callable[[str], Any]]] = {
    "anthropic": (AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), anthropic_client),
    "openai chat": (OpenAIChat("gpt-6.1-sol"), openai_client),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("turn", [1, 100, 1000])
@pytest.mark.parametrize("name", CASES)
def test_requests_a_second(benchmark: BenchmarkFixture, name: str, turn: int, url: str) -> None:
    """The column OPS: one caller, one request after another, the conversation of that many turns sent whole each time."""
    speaker, client_of = CASES[name]
    request, client = Talk(speaker, 400, seed=turn).until(turn).request(), client_of(url)
    benchmark.group = name
    benchmark.extra_info["n_bytes"] = len(request.body)
    reply = benchmark.pedantic(lambda: request.send(client), rounds=30, warmup_rounds=2)
    assert reply.id and reply.usage
