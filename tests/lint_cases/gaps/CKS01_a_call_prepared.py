"""A call prepared."""

import functools
from datetime import datetime

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


send = functools.partial(client.messages.create, **GIVEN)


def ask(messages):
    return send(system=str(datetime.now()), messages=messages)  # expect: CKS01
