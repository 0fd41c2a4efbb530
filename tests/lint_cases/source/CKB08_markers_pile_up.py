"""A marker with every turn, of which none is taken off."""

import anthropic

client = anthropic.Anthropic()
MARK = {"type": "ephemeral"}


class Chat:
    def __init__(self, guide):
        self.messages = []
        self.messages.append({"role": "user", "content": [{"type": "text", "text": guide, "cache_control": MARK}]})

    def ask(self, text):
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text, "cache_control": MARK}]})  # expect: CKB08
        return client.messages.create(model="claude-sonnet-5-5", max_tokens=900, messages=self.messages)

    def begin(self, text):
        if not self.messages:
            self.messages.append({"role": "user", "content": [{"type": "text", "text": text, "cache_control": MARK}]})
        return client.messages.create(model="claude-sonnet-5-5", max_tokens=900, messages=self.messages)

    def ask_anew(self, text):
        self.messages = []
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text, "cache_control": MARK}]})
        return client.messages.create(model="claude-sonnet-5-5", max_tokens=900, messages=self.messages)


def agent(run, task):
    messages = [{"role": "user", "content": task}]
    while True:
        reply = client.messages.create(model="claude-sonnet-5-5", max_tokens=900, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
        messages.append({"role": "user", "content": [{**run(reply), "cache_control": MARK}]})  # expect: CKB08


def each_alone(tasks):
    for task in tasks:
        messages = []
        messages.append({"role": "user", "content": [{"type": "text", "text": task, "cache_control": MARK}]})
        client.messages.create(model="claude-sonnet-5-5", max_tokens=900, messages=messages)
