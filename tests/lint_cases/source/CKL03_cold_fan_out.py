"""All at once, none ahead."""

import asyncio
from pathlib import Path

import anthropic

client = anthropic.AsyncAnthropic()
SYSTEM = [{"type": "text", "text": Path("handbook.md").read_text(), "cache_control": {"type": "ephemeral"}}]


async def ask(task):
    return await client.messages.create(
        model="claude-sonnet-5-5", max_tokens=900, system=SYSTEM, messages=[{"role": "user", "content": task}]
    )


async def all_tasks(tasks):
    return await asyncio.gather(*(ask(task) for task in tasks))  # expect: CKL03


async def all_started(tasks):
    started = [asyncio.create_task(ask(task)) for task in tasks]
    return await asyncio.gather(*started)  # expect: CKL03


async def one_ahead(tasks):
    first = await ask(tasks[0])
    return [first, *await asyncio.gather(*(ask(task) for task in tasks[1:]))]


async def fetch(url):
    return await client.get(url)


async def all_pages(urls):
    return await asyncio.gather(*(fetch(url) for url in urls))
