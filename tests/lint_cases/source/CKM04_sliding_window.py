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
        self.shrink()
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=self.messages[-20:])  # expect: CKM04

    def shrink(self):
        self.messages = self.messages[-10:]  # expect: CKM04


class Compacted:
    def __init__(self):
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        self._compact()
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=self.messages)

    def _compact(self):
        self.messages = self.messages[-10:]  # expect: CKM04


def trim_messages_to(messages, n):
    return [messages[0], *messages[-n:]]  # expect: CKM04


class Whole:
    def __init__(self):
        self.messages = []
        self._history = []
        self.latencies = deque(maxlen=20)

    def prune(self, keep):
        """Offered to whoever wants to start over."""
        self.messages = self.messages[-keep:]

    def note(self, event):
        self._history.append(event)
        self._history = self._history[-100:]

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        for message in self.messages[-3:]:
            print(message["role"])
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=self.messages)


def preview(messages):
    return ", ".join(message["role"] for message in messages[-5:])


def note_habits(habits, messages):
    return habits.weigh(messages=messages[-10:])


def classification_state(messages, call):
    return {"messages": messages[-30:], "call": call}


def request_state(messages, model):
    return {"messages": messages[-30:], "model": model}  # expect: CKM04


def build_summary(messages):
    messages = messages[-20:]
    return "\n".join(message["content"] for message in messages)
