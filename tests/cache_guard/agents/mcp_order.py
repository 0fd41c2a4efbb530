"""Servers list their tools, in the order in which they answer."""

import asyncio
import itertools

import openai
from parts import GPT, GUIDE, reply, user

SERVERS = {"files": ["read", "write"], "web": ["fetch", "search"], "mail": ["send", "inbox"]}
_delays = itertools.cycle([0.0, 0.03, 0.06, 0.04, 0.02, 0.0])


async def listed(server):
    await asyncio.sleep(next(_delays))
    return [f"{server}__{name}" for name in SERVERS[server]]


async def talk():
    async with openai.AsyncOpenAI() as client:
        messages = [{"role": "system", "content": GUIDE}]
        for question in ("What broke?", "Since when?", "Who knows?"):
            messages.append(user(question))
            names = [name for ready in asyncio.as_completed(map(listed, SERVERS)) for name in await ready]
            tools = [{"type": "function", "function": {"name": name, "description": GUIDE[:300]}} for name in names]
            answer = await client.chat.completions.create(model=GPT, messages=messages, tools=tools)
            messages.append(reply(answer.choices[0].message.content))


def test_answers():
    asyncio.run(talk())
