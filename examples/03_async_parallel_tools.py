"""Async: three calls of one reply run at the same time; their results stand in call order, whichever comes first."""

import asyncio
import time

from provider import SYSTEM, asks, async_anthropic_client, says

from contextkit import AnthropicMessages, Context, tool


@tool
async def fetch(page: str, seconds: float) -> str:
    """Fetch a page; takes some seconds."""
    await asyncio.sleep(seconds)
    return f"the text of {page}"


PAGES = (
    ("fetch", {"page": "a", "seconds": 0.3}),
    ("fetch", {"page": "b", "seconds": 0.2}),
    ("fetch", {"page": "c", "seconds": 0.1}),
)
REPLIES = [asks(*PAGES), says("I have read a, b and c.")]


async def main() -> None:
    """The loop."""
    context = Context(AnthropicMessages("claude-sonnet-5-5", max_tokens=1024), system=SYSTEM, tools=[fetch])
    context.user("Fetch the pages a (0.3 s), b (0.2 s) and c (0.1 s), all at once.")
    async with async_anthropic_client(REPLIES) as client:
        while not context.finished:
            started = time.monotonic()
            results = await context.run_calls(limit=8)
            if results:
                print(f"{len(results)} results in {time.monotonic() - started:.1f} s")
            context.receive(await context.request().asend(client))
    print([entry.kind for entry in context.log])
    print(context.summary())


asyncio.run(main())
