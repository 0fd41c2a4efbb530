"""Bedrock Converse through boto3: the cachePoints are placed, and what is read from cache is predicted before each
call.
"""

from __future__ import annotations

import os
from typing import Any

from provider import SYSTEM, asks, says

from contextkit import Context, tool
from contextkit.providers import BedrockConverse
from contextkit.server import LocalServer

REPLIES = [asks(("price", {"item": "apple"})), says("An apple costs $0.50.")]


@tool
def price(item: str) -> float:
    """The price of an item in dollars."""
    return {"apple": 0.5, "pear": 0.7}[item]


def converse(client: Any) -> None:
    """The loop, as for every provider; `head_ttl="1h"` would keep tools and system for an hour."""
    provider = BedrockConverse("anthropic.claude-sonnet-5-5", max_tokens=1024)
    context = Context(provider, system=SYSTEM, tools=[price])
    context.user("What does an apple cost?")
    while not context.finished:
        for call in context.calls:
            context.result(call, call.run())
        request = context.request()
        points = [array for array in ("system", "messages") if "cachePoint" in str(request[array])]
        print(f"cachePoints in {' and '.join(points)}; {request.predicted.read} tokens should be read from cache")
        context.receive(client.converse(**request))
    print(context.summary())


def main() -> None:
    """The real Bedrock where a region is named, else a local one that bills like it."""
    try:
        import boto3
    except ImportError:
        print("boto3 is not installed: pip install 'contextkit-sdk[bedrock]' (0 tokens read from cache)")
        return
    if os.environ.get("AWS_REGION"):
        converse(boto3.client("bedrock-runtime"))
        return
    print("AWS_REGION is not set: using the local provider with scripted replies")
    keys = {"region_name": "us-east-1", "aws_access_key_id": "local", "aws_secret_access_key": "local"}
    with LocalServer(REPLIES) as server:
        converse(boto3.client("bedrock-runtime", endpoint_url=server.url, **keys))


if __name__ == "__main__":
    main()
