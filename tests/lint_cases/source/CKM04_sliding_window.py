"""The last messages only, and a look at the last ones."""

from collections import deque

import anthropic

client = anthropic.Anthropic()


class Chat:
    def __init__(self):
        self.messages = []
        self.history = deque(maxlen=20)  # expect: CKM04

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=self.messages[-20:])  # expect: CKM04

    def shrink(self):
        self.messages = self.messages[-10:]  # expect: CKM04


def trim_messages_to(messages, n):
    return [messages[0], *messages[-n:]]  # expect: CKM04


class Whole:
    def __init__(self):
        self.messages = []
        self.latencies = deque(maxlen=20)

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        for message in self.messages[-3:]:
            print(message["role"])
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=self.messages)


def preview(messages):
    return ", ".join(message["role"] for message in messages[-5:])
