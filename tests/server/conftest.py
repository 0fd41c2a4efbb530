"""One server for all of these tests, and the real SDK clients pointed at it; every test starts from a reset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from contextkit.server import LocalServer

CLAUDE, GPT = "claude-sonnet-5-5", "gpt-6.1-sol"
HEAD = "You are careful. " * 300
"""Long enough to be cached by every model used here."""


@pytest.fixture(scope="session")
def running() -> Iterator[LocalServer]:
    with LocalServer(now=1000.0) as server:
        yield server


@pytest.fixture
def server(running: LocalServer) -> LocalServer:
    running.reset()
    return running


@pytest.fixture(scope="session")
def clients(running: LocalServer) -> Iterator[tuple[anthropic.Anthropic, openai.OpenAI, httpx2.Client]]:
    with (
        anthropic.Anthropic(base_url=running.url, api_key="any", max_retries=0) as claude,
        openai.OpenAI(base_url=f"{running.url}/v1", api_key="any", max_retries=0) as gpt,
        httpx2.Client(base_url=running.url, timeout=30.0) as http,  # the first request may load an SDK
    ):
        yield claude, gpt, http


@pytest.fixture
def claude(server: LocalServer, clients: tuple[anthropic.Anthropic, Any, Any]) -> anthropic.Anthropic:
    return clients[0]


@pytest.fixture
def gpt(server: LocalServer, clients: tuple[Any, openai.OpenAI, Any]) -> openai.OpenAI:
    return clients[1]


@pytest.fixture
def http(server: LocalServer, clients: tuple[Any, Any, httpx2.Client]) -> httpx2.Client:
    return clients[2]


ALL_PARTS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Let me see. " * 8},
    {"type": "text", "text": "Zwölf Sätze 🙂. " * 8},
    {"type": "call", "name": "search", "arguments": {"query": "gpu", "n": 10**20, "a": [1.5, None, {"z": 1, "b": 2}]}},
    {"type": "call", "name": "search", "arguments": {}},
]


def saying(text: str = "ok", **more: Any) -> dict[str, Any]:
    """A script that says `text`."""
    return {"parts": [{"type": "text", "text": text}], **more}


def asking(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The arguments of `client.messages.create`."""
    system = [{"type": "text", "text": HEAD, "cache_control": {"type": "ephemeral"}}]
    return {
        "model": CLAUDE,
        "max_tokens": 100,
        "system": system,
        "messages": list(messages) or [{"role": "user", "content": "hello"}],
        **more,
    }
