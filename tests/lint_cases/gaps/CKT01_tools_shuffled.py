"""Tools shuffled."""

import random

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


def ask(messages, tools):
    random.shuffle(tools)  # expect: CKT01
    return client.messages.create(tools=tools, messages=messages, **GIVEN)
