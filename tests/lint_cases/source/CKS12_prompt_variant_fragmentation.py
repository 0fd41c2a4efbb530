"""A variant of the prompt chosen per request, and per session."""

import random

import anthropic

client = anthropic.Anthropic()
VARIANTS = ["You are brief.", "You are thorough."]


def ask(messages):
    return client.messages.create(
        model="claude-opus-4-5", max_tokens=1024, system=random.choice(VARIANTS), messages=messages,  # expect: CKS12
    )


class Session:
    def __init__(self):
        self.system = random.choice(VARIANTS)

    def ask(self, messages):
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=self.system, messages=messages)
