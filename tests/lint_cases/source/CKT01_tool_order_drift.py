"""Tools in an order that nobody promised, and in one that somebody did."""

import asyncio
import os
import random

import anthropic

client = anthropic.AsyncAnthropic()
CACHED = {"cache_control": {"type": "ephemeral"}}


async def ask_as_they_come(servers, messages):
    tools = []
    for listing in asyncio.as_completed([server.describe() for server in servers]):  # expect: CKT01
        tools.extend((await listing).tools)
    return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages, **CACHED)


async def ask_from_a_folder(folder, messages):
    tools = [load(name) for name in os.listdir(folder)]
    return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


async def ask_in_order(names, messages):
    tools = [load(name) for name in sorted(set(names))]
    return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


async def ask_with_all(registry, messages):
    tools = list(registry.tools)
    return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def load(name):
    return {"name": name, "description": "A plugin.", "input_schema": {"type": "object"}}


async def ask_with_named(registry, names, messages):
    tools = [registry[name] for name in {*names}]  # expect: CKT01
    return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)



async def ask_with_shuffled_examples(tools, examples, messages):
    random.shuffle(examples)
    messages.append({"role": "user", "content": examples})
    return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


async def ask_with_gathered(skills, registry, messages):
    names = set()  # expect: CKT01
    for skill in skills:
        names.update(skill.tools)
    tools = [registry[name] for name in names]
    return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


async def ask_with_sorted_in_place(skills, registry, messages):
    names = set()
    for skill in skills:
        names.update(skill.tools)
    tools = [registry[name] for name in names]
    tools.sort(key=lambda tool: tool["name"])
    return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


SPECS = {"read": {"name": "read", "input_schema": {}}, "write": {"name": "write", "input_schema": {}}}
NAMES = {"read", "write", "run"}  # expect: CKT01
ORDERED = ("read", "write")


def ask_with_specs(gpt, history):
    return gpt.responses.create(model="gpt-5", input=history, tools=[SPECS[name] for name in NAMES])


def ask_with_ordered_specs(gpt, history):
    return gpt.responses.create(model="gpt-5", input=history, tools=[SPECS[name] for name in ORDERED if name in NAMES])


class Toolbox:
    def __init__(self, plugins):
        self.plugins = plugins

    def allowed(self, denied):
        return list({plugin.name for plugin in self.plugins} - set(denied))  # expect: CKT01

    def ask(self, messages, denied):
        request = {"model": "claude-opus-4-5", "max_tokens": 9, "messages": messages}
        request["tools"] = [SPECS[name] for name in self.allowed(denied)]
        return client.messages.create(**request)


async def ask_without_doubles(messages, tools):
    by_name = {tool["name"]: tool for tool in tools}
    return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=list(by_name.values()), messages=messages)


async def ask_gathered_in_order(servers, messages):
    listings = await asyncio.gather(*(server.describe() for server in servers))
    tools = [tool for listing in listings for tool in listing.tools]
    return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


class Enabled:
    def __init__(self):
        self.names = set()  # expect: CKT01

    def ask(self, messages):
        tools = [SPECS[name] for name in self.names]
        return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def ask_with_allowed(messages, tools, names):
    allowed = [tool for tool in tools if tool["name"] in set(names)]
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=allowed, messages=messages)


def ask_with_as_many(messages, tools, names):
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools[: len(set(names))], messages=messages)


def ask_with_each_once(messages, given):
    seen, tools = set(), []
    for tool in given:
        if tool["name"] not in seen:
            seen.add(tool["name"])
            tools.append(tool)
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)
