"""One agent on vLLM and on a hosted model: the host is a row of a table, the loop and the client stay what they are."""

import openai
from provider import SYSTEM, asks, says

from contextkit import Context, tool
from contextkit.providers.openai_compatible import OpenAICompatible
from contextkit.server import LocalServer


@tool
def price(item: str) -> float:
    """The price of an item in dollars."""
    return {"apple": 0.5, "pear": 0.7}[item]


PROVIDERS = [
    OpenAICompatible(
        "Qwen/Qwen3-8B", host="vllm", session="run-7", salt="tenant-1", call_format="qwen", block_tokens=16
    ),
    OpenAICompatible("deepseek-v4-pro", host="deepseek"),
]
"""With a server of your own: openai.OpenAI(base_url=provider.base_url, api_key=…)."""

for provider in PROVIDERS:
    print(f"\n{provider.host.title}: {provider.base_url}; sends {dict(provider.params)}")
    context = Context(provider, system=SYSTEM, tools=[price])
    context.user("What does a pear cost?")
    replies = [asks(("price", {"item": "pear"})), says("A pear costs $0.70.")]
    with (
        LocalServer(replies, cache="vllm") as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="local") as client,
    ):
        while not context.finished:
            for call in context.calls:
                context.result(call, call.run())
            context.receive(client.chat.completions.create(**context.request()))
    for call in context.ledger:
        print(f"  {call.provider} {call.model}: {call.usage}")
    print(f"  {context.summary()}")
