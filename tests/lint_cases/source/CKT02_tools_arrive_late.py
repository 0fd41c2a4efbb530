"""Tools of a server listed per request, and once."""

import anthropic

client = anthropic.AsyncAnthropic()


class Agent:
    def __init__(self, session):
        self.session = session
        self.tools = []

    async def connect(self):
        self.tools = sorted(await self.session.list_tools(), key=lambda tool: tool.name)

    async def step(self, messages):
        return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=self.tools, messages=messages)


async def ask(session, messages):
    tools = [tool.definition for tool in await session.list_tools()]  # expect: CKT02
    return await client.messages.create(
        model="claude-opus-4-5",
        max_tokens=9,
        tools=tools,
        messages=messages,
    )


def request_step(session, messages):
    return {"model": "claude-opus-4-5", "messages": messages, "tools": session.list_tools_sync()}  # expect: CKT02


def describe(session):
    return {"kind": "report", "tools": session.list_tools_sync()}


async def process_query(session, messages):
    response = await session.list_tools()  # expect: CKT02
    available = [{"name": tool.name, "description": tool.description, "input_schema": tool.inputSchema} for tool in response.tools]
    return await client.messages.create(
        model="claude-opus-4-5",
        max_tokens=9,
        tools=available,
        messages=messages,
    )


async def process_when_alive(session, messages, tools):
    alive = await session.list_tools()
    if not alive.tools:
        raise RuntimeError("the server has gone")
    return await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


async def chat_from_one_listing(session, question):
    messages = [{"role": "user", "content": question}]
    response = await session.list_tools()
    available = [{"name": tool.name, "description": tool.description, "input_schema": tool.inputSchema} for tool in response.tools]
    while messages[-1]["role"] == "user":
        reply = await client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=available, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
