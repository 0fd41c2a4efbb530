"""Tools added around a function that sends."""

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}
READ = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}
TOOLS = [READ, {"name": "write", "description": "Writes.", "input_schema": {"type": "object"}}]


def run(task):
    messages, tools = [{"role": "user", "content": task}], list(TOOLS)
    for step in range(9):
        reply = ask(messages, tools)
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason == "tool_use":
            tools.append(READ)  # expect: CKT03


def ask(messages, tools):
    return client.messages.create(tools=tools, messages=messages, **GIVEN)
