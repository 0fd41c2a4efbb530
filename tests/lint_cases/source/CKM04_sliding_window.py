"""The last messages only, and a look at the last ones."""

from collections import deque

import anthropic
from strands import Agent as StrandsAgent
from strands.agent.conversation_manager import SlidingWindowConversationManager, SummarizingConversationManager

client = anthropic.Anthropic()


class Chat:
    def __init__(self):
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        self.shrink()
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=self.messages[-20:])  # expect: CKM04

    def shrink(self):
        self.messages = self.messages[-10:]  # expect: CKM04


class Ring:
    def __init__(self):
        self.history = deque(maxlen=20)  # expect: CKM04

    def ask(self, text):
        self.history.append({"role": "user", "content": text})
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=list(self.history))


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


def request_state(messages, model):
    return {"messages": messages[-30:], "model": model}  # expect: CKM04


def build_summary(messages):
    messages = messages[-20:]
    return "\n".join(message["content"] for message in messages)


class Shortened:
    def __init__(self):
        self.messages = []

    def _add(self, text):
        self.messages.append({"role": "user", "content": text})
        del self.messages[:-20]  # expect: CKM04
        if len(self.messages) > 20:
            self.messages.pop(0)  # expect: CKM04

    def ask(self, text):
        self._add(text)
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=self.messages)


def ask_of_a_few(messages, text):
    messages.append({"role": "user", "content": text})
    messages[:] = messages[-20:]  # expect: CKM04
    messages = list(messages)[-20:]  # expect: CKM04
    messages = messages[len(messages) - 20 :]  # expect: CKM04
    if len(messages) >= 20:
        del messages[1:3]  # expect: CKM04
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)


def ask_without_its_system_message(messages, text):
    if messages and messages[0]["role"] == "system":
        if len(messages) == 1:
            raise ValueError(text)
        messages.pop(0)
    first = messages.pop(0) if len(messages) > 20 else None
    del messages[-1]
    if len(text) > 20:
        messages.pop(0)
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=[first, *messages])


def send_the_newest(self):
    messages = [SYSTEM, *self.messages[-20:]]  # expect: CKM04
    return client.chat.completions.create(model="gpt-5", messages=messages)


def ask_when_it_is_much(messages, n_tokens, summary_of):
    if n_tokens(messages) > HIGH:
        messages = [summary_of(messages[:-10]), *messages[-10:]]
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)


def ask_each_time_anew(messages, summary_of):
    messages = [summary_of(messages[:-10]), *messages[-10:]]  # expect: CKM04
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)


def ask_without_most_of_the_rest(messages, n_tokens):
    if n_tokens(messages) > HIGH:
        messages = [*[m for m in messages[:-10] if m["is_pinned"]], *messages[-10:]]  # expect: CKM04
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)


class Turns:
    def __init__(self):
        self.turns = []

    def add(self, role, text):
        self.turns.append({"role": role, "content": text})

    def as_messages(self):
        return [SYSTEM, *self.turns[-16:]]  # expect: CKM04

    def as_page(self):
        return [SYSTEM, *self.turns[-16:]]


def ask_turns(memory):
    print(memory.as_page())
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=memory.as_messages())


def keep_recent(messages):
    return messages[-5:] if len(messages) > 5 else messages  # expect: CKM04


def newest(messages):
    return messages[-5:] if len(messages) > 5 else messages


AGENT = Agent("anthropic:claude-opus-4-5", history_processors=[keep_recent])
WINDOWED = StrandsAgent("claude-opus-4-5", conversation_manager=SlidingWindowConversationManager(window_size=20))  # expect: CKM04
SUMMED_UP = StrandsAgent("claude-opus-4-5", conversation_manager=SummarizingConversationManager(summary_ratio=0.3))


def ask_with_the_newest_turns(history, question):
    messages = []
    for turn in history[-6:]:  # expect: CKM04
        messages.append({"role": turn["role"], "content": turn["text"]})
    messages.append({"role": "user", "content": question})
    return client.chat.completions.create(model="gpt-5", messages=messages)


class WithHysteresis:
    def __init__(self):
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        if len(self.messages) > 80:
            self.messages = self.messages[-40:]
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=self.messages)
