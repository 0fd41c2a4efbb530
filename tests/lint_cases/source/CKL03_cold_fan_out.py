"""All at once, none ahead."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
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


async def all_in_a_group(tasks):
    async with asyncio.TaskGroup() as group:
        started = [group.create_task(ask(task)) for task in tasks]  # expect: CKL03
    return [one.result() for one in started]


async def one_ahead_of_a_group(tasks):
    await ask(tasks[0])
    async with asyncio.TaskGroup() as group:
        return [group.create_task(ask(task)) for task in tasks[1:]]


def grade(answer):
    return anthropic.Anthropic().messages.create(
        model="claude-sonnet-5-5", max_tokens=50, system=SYSTEM, messages=[{"role": "user", "content": answer}]
    )


def grade_all(answers):
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(grade, answers))  # expect: CKL03


def grade_behind_one(answers):
    first = grade(answers[0])
    with ThreadPoolExecutor(8) as pool:
        return [first, *pool.map(grade, answers[1:])]


def grade_submitted(answers):
    with ThreadPoolExecutor(8) as pool:
        return [pool.submit(grade, answer) for answer in answers]  # expect: CKL03


def grade_aside(answer):
    with ThreadPoolExecutor(8) as pool:
        return pool.submit(grade, answer)
