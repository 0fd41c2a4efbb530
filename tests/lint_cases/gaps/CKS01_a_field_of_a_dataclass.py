"""A field of a dataclass."""

from dataclasses import dataclass, field
from datetime import datetime

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


@dataclass
class P:
    now: str = field(default_factory=lambda: str(datetime.now()))  # expect: CKS01


def ask(messages):
    return client.messages.create(system=P().now, messages=messages, **GIVEN)
