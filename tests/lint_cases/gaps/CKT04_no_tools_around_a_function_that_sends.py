"""No tools around a function that sends."""

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}
READ = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}
TOOLS = [READ, {"name": "write", "description": "Writes.", "input_schema": {"type": "object"}}]


def run(task):
    messages, tools = [{"role": "user", "content": task}], list(TOOLS)
    for step in range(9):
        reply = ask(messages, tools if step < 8 else None)  # expect: CKT04
        messages.append({"role": "assistant", "content": reply.content})


def ask(messages, tools):
    return client.messages.create(tools=tools, messages=messages, **GIVEN)
