"""Tools drawn."""

import random

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}
READ = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}
TOOLS = [READ, {"name": "write", "description": "Writes.", "input_schema": {"type": "object"}}]


def ask(messages, n):
    tools = random.sample(TOOLS, len(TOOLS))  # expect: CKT01
    return client.messages.create(tools=tools, messages=messages, **GIVEN)
