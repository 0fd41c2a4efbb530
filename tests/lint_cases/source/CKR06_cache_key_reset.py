"""A key drawn anew, and one derived from the conversation."""

import hashlib
import json
import uuid

import openai

client = openai.OpenAI()


class Agent:
    def __init__(self):
        self.key = str(uuid.uuid4())  # expect: CKR06

    def ask(self, history):
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


class Restarted:
    def __init__(self, conversation):
        self.cache_key = f"agent:{conversation.number}"

    def clear(self):
        self.cache_key = str(uuid.uuid4())

    def ask(self, history):
        return client.responses.create(model="gpt-5.5", prompt_cache_key=self.cache_key, input=history)


def ask_by_all(messages):
    key = hashlib.sha256(json.dumps(messages).encode()).hexdigest()
    return client.responses.create(model="gpt-5.5", prompt_cache_key=key, input=messages)  # expect: CKR06


def make_cache_key(messages):
    return hashlib.sha256(json.dumps(messages).encode()).hexdigest()  # expect: CKR06


def make_cache_key_of_the_first(messages):
    return hashlib.sha256(json.dumps(messages[:2]).encode()).hexdigest()


def digest_of(messages):
    return hashlib.sha256(json.dumps(messages).encode()).hexdigest()


def answer_cache_key(messages):  # of a cache of answers, ours
    return hashlib.sha256(json.dumps(messages).encode()).hexdigest()


def ask_by_made(messages):
    return client.responses.create(model="gpt-5.5", prompt_cache_key=make_cache_key(messages), input=messages)


def stored_key(path):
    if path.exists():
        return path.read_text()
    key = uuid.uuid4().hex
    path.write_text(key)
    return key


def ask_by_a_stored_key(messages, path):
    return client.responses.create(model="gpt-5.5", prompt_cache_key=stored_key(path), input=messages)


def noted_key(path):
    key = uuid.uuid4().hex  # expect: CKR06
    path.write_text(key)
    return key


def ask_by_a_noted_key(messages, path):
    return client.responses.create(model="gpt-5.5", prompt_cache_key=noted_key(path), input=messages)


def key_of(messages):
    return hashlib.sha256(json.dumps(messages).encode()).hexdigest()  # expect: CKR06


def ask_by_a_key_of(messages):
    return client.responses.create(model="gpt-5.5", prompt_cache_key=key_of(messages), input=messages)
