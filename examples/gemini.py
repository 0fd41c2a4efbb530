"""Gemini through google-genai: what is cached unasked, and a stored content that is shown with its price, used, and
deleted.
"""

from __future__ import annotations

import os
from typing import Any

from provider import SYSTEM, asks, says

from contextkit import Context, tool
from contextkit.providers import Gemini
from contextkit.server import LocalServer

REPLIES = [asks(("price", {"item": "apple"})), says("An apple costs $0.50."), says("A pear costs $0.70.")]


@tool
def price(item: str) -> float:
    """The price of an item in dollars."""
    return {"apple": 0.5, "pear": 0.7}[item]


def converse(client: Any) -> None:
    """Two questions; before the second the tools and the system prompt are stored, since many more are expected."""
    provider = Gemini("gemini-2.5-flash", max_tokens=1024, cached_content="auto")
    context = Context(provider, system=SYSTEM * 4, tools=[price])
    try:
        for question in ("What does an apple cost?", "And a pear?"):
            context.user(question)
            if len(context.log) > 3:
                print(provider.open(client, context.request().layout, reads=100, ttl_seconds=600))
            while not context.finished:
                for call in context.calls:
                    context.result(call, call.run())
                request = context.request()
                print(f"{len(request.body):,} bytes; {request.predicted.read} tokens should be read from cache")
                context.receive(request.send(client))
    finally:
        provider.close()  # storage is billed until then
    print(context.summary())


def main() -> None:
    """The real API where a key is set, else a local one that bills like it."""
    try:
        from google import genai
    except ImportError:
        print("google-genai is not installed: pip install 'contextkit-sdk[gemini]' (0 tokens read from cache)")
        return
    if os.environ.get("GEMINI_API_KEY"):
        converse(genai.Client())
        return
    print("GEMINI_API_KEY is not set: using the local provider with scripted replies")
    with LocalServer(REPLIES) as server, genai.Client(api_key="local", http_options={"base_url": server.url}) as client:
        converse(client)


if __name__ == "__main__":
    main()
