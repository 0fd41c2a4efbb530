"""What a memory recalls for each question is put into the system prompt; asynchronous."""

import asyncio

import anthropic
from parts import CLAUDE, GUIDE, reply, text, user

MEMORY = {"build": "The build runs on two machines.", "tests": "Ada knows the tests.", "parser": "The parser is new."}


async def talk():
    async with anthropic.AsyncAnthropic() as client:
        messages = []
        for topic, memory in MEMORY.items():
            messages.append(user(f"Tell me about the {topic}."))
            system = [text(f"{GUIDE}\nRelevant memories:\n- {memory}\n", marked=True)]
            answer = await client.messages.create(model=CLAUDE, max_tokens=100, system=system, messages=messages)
            messages.append(reply(answer.content[0].text))


def test_answers():
    asyncio.run(talk())
