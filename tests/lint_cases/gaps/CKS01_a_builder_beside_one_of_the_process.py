"""A builder beside one of the process."""

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


STARTED = Parts().add(f"The process began at {datetime.now()}.")


def ask(messages):
    prompt = Parts()
    prompt.add(f"It is {datetime.now()}.")  # expect: CKS01
    return client.messages.create(system=prompt.build(), messages=messages, **GIVEN)
