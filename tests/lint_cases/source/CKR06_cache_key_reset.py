"""A key drawn anew, and one derived from the conversation."""

import uuid

import openai

client = openai.OpenAI()


def ask_by_a_new_key(history):
    return client.responses.create(model="gpt-5.5", prompt_cache_key=str(uuid.uuid4()), input=history)  # expect: CKR06


class Agent:
    def __init__(self):
        self.key = ""

    def ask(self, history):
        self.key = f"agent:{uuid.uuid4().hex}"  # expect: CKR06
        return client.responses.create(model="gpt-5.5", prompt_cache_key=self.key, input=history)


class Steady:
    def __init__(self, conversation):
        self.key = f"agent:{conversation.number}"
        self.tag = str(uuid.uuid4())

    def ask(self, history):
        return client.responses.create(model="gpt-5.5", prompt_cache_key=self.key, input=history, metadata={"run": self.tag})


class Session:
    def __init__(self):
        self.session_id = str(uuid.uuid4())

    def ask(self, history):
        return client.responses.create(model="gpt-5.5", prompt_cache_key=f"agent:{self.session_id}", input=history)


class Lazy:
    def __init__(self):
        self._key = None

    def ask(self, history):
        if self._key is None:
            self._key = uuid.uuid4().hex
        return client.responses.create(model="gpt-5.5", prompt_cache_key=self._key, input=history)


def noted_key(path):
    key = uuid.uuid4().hex  # expect: CKR06
    path.write_text(key)
    return key


def ask_by_a_noted_key(messages, path):
    return client.responses.create(model="gpt-5.5", prompt_cache_key=noted_key(path), input=messages)


async def ask_with_settings(messages, run):
    settings = {"model": "gpt-5.5", "input": messages, "prompt_cache_key": f"{run.name}-{uuid.uuid4()}"}  # expect: CKR06
    return await client.responses.create(**settings)
