"""A function that makes the builder."""

from datetime import datetime

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


class Parts:
    def __init__(self):
        self.parts = []

    def add(self, text):
        self.parts.append(text)
        return self

    def build(self):
        return "".join(self.parts)


def make():
    return Parts()


def ask(messages):
    parts = make()
    parts.add(str(datetime.now()))  # expect: CKS01
    return client.messages.create(system=parts.build(), messages=messages, **GIVEN)
