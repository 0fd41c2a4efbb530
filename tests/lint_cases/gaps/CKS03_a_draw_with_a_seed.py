"""A draw with a seed."""

import random

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


def ask(messages):
    system = random.Random(1).choice(["Be kind.", "Be brief."])
    return client.messages.create(system=system, messages=messages, **GIVEN)
