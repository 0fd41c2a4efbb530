"""A credential per call, and one for the session."""

import random

import anthropic
import openai
from google import genai

KEYS = ["a", "b"]
base = anthropic.Anthropic()


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


class Rotating:
    def __init__(self, pool):
        self.keys, self.pool, self.index, self.calls = KEYS, iter(pool), 0, 0

    def ask(self, messages):
        client = openai.OpenAI(api_key=self.keys[self.calls % len(self.keys)])  # expect: CKR08
        self.calls += 1
        return client.chat.completions.create(model="gpt-6.1-sol", messages=messages)

    def ask_again(self, messages):
        for _ in self.keys:
            try:
                client = openai.OpenAI(api_key=self.keys[self.index])  # expect: CKR08
                return client.chat.completions.create(model="gpt-6.1-sol", messages=messages)
            except openai.RateLimitError:
                self.index = (self.index + 1) % len(self.keys)

    def ask_the_next(self, messages):
        client = openai.OpenAI(api_key=next(self.pool))  # expect: CKR08
        return client.chat.completions.create(model="gpt-6.1-sol", messages=messages)

    def ask_gemini(self, contents):
        client = genai.Client(api_key=next(self.pool))  # expect: CKR08
        return client.models.generate_content(model="gemini-3-pro", contents=contents)


def ask_with_options(messages):
    client = base.with_options(api_key=random.choice(KEYS))  # expect: CKR08
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, messages=messages)  # also: CKR01


def ask_for_a_session(messages, session, n_shards):
    client = openai.OpenAI(api_key=KEYS[session.number % len(KEYS)])
    first = openai.OpenAI(api_key=next(iter(KEYS)))
    usable = openai.OpenAI(api_key=next(key for key in KEYS if key))
    patient = base.with_options(timeout=n_shards)
    return client.chat.completions.create(model="gpt-6.1-sol", messages=messages), first, usable, patient


class Accounts:
    def __init__(self, keys, index):
        self.keys, self.index = keys, index

    def ask(self, messages):
        client = openai.OpenAI(api_key=self.keys[self.index])
        return client.chat.completions.create(model="gpt-6.1-sol", messages=messages)
