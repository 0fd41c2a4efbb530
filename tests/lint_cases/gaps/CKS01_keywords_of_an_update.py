"""Keywords of an update."""

from datetime import datetime

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


def ask(messages):
    request = dict(GIVEN, messages=messages)
    request.update(system=str(datetime.now()))  # expect: CKS01
    return client.messages.create(**request)
