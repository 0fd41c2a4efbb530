"""A credential per call, and one for the session."""

import random

import anthropic
import openai

KEYS = ["a", "b"]


def ask(messages):
    client = anthropic.Anthropic(api_key=random.choice(KEYS))  # expect: CKR08
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, messages=messages)  # also: CKR01


def ask_next(messages, pool):
    client = openai.OpenAI(api_key=pool.next_key())  # expect: CKR08
    return client.chat.completions.create(model="gpt-5.1", messages=messages)


class Session:
    def __init__(self):
        self.client = anthropic.Anthropic(api_key=random.choice(KEYS))

    def ask(self, messages, key):
        own = openai.OpenAI(api_key=key)
        return self.client.messages.create(model="claude-opus-4-5", max_tokens=9, messages=messages) or own
