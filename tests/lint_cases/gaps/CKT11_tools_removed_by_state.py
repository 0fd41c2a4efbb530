"""Tools removed by state."""

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}
READ = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}
TOOLS = [READ, {"name": "write", "description": "Writes.", "input_schema": {"type": "object"}}]


def ask(messages, state):
    tools = list(TOOLS)
    if state == "plan":
        tools.remove(READ)  # expect: CKT11
    return client.messages.create(tools=tools, messages=messages, **GIVEN)
