"""An object where none is given."""

from datetime import datetime

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


class Text:
    def build(self):
        return str(datetime.now())  # expect: CKS01


class A:
    def __init__(self, text=None):
        self.text = text or Text()

    def ask(self, messages):
        return client.messages.create(system=self.text.build(), messages=messages, **GIVEN)
