"""One key for everybody, and one for each conversation."""

from dataclasses import dataclass

import openai
from agents import ModelSettings
from openai import NOT_GIVEN

client = openai.OpenAI()
CACHE_KEY = "my-app"


def ask(history):
    return client.responses.create(model="gpt-5.5", prompt_cache_key="my-app", input=history)  # expect: CKR05


def ask_by_name(history):
    return client.responses.create(model="gpt-5.5", prompt_cache_key=CACHE_KEY, input=history)  # expect: CKR05


def ask_without(history):
    return client.responses.create(model="gpt-5.5", prompt_cache_key=NOT_GIVEN, input=history)


def ask_for(history, conversation):
    return client.responses.create(model="gpt-5.5", prompt_cache_key=f"my-app:{conversation}", input=history)


class Agent:
    def __init__(self, conversation):
        self.cache_key = f"agent:{conversation}"

    def ask(self, history):
        return client.responses.create(model="gpt-5.5", prompt_cache_key=self.cache_key, input=history)


NAME = "helpdesk"


class Bot:
    cache_key = f"{NAME}-v2"
    key_of_one = ""

    def __init__(self, conversation):
        self.key_of_one = f"{NAME}:{conversation}"

    def ask(self, history):
        return client.responses.create(model="gpt-5.5", prompt_cache_key=self.cache_key, input=history)  # expect: CKR05

    def ask_one(self, history):
        return client.responses.create(model="gpt-5.5", prompt_cache_key=self.key_of_one, input=history)


def ask_by_a_variable(history):
    key = f"{NAME}-v2"
    return client.responses.create(model="gpt-5.5", prompt_cache_key=key, input=history)  # expect: CKR05


def ask_by_a_tenant(history, tenant):
    key = f"{NAME}-{tenant}"
    return client.responses.create(model="gpt-5.5", prompt_cache_key=key, input=history)


def make(conversation):
    one = ModelSettings(extra_args={"prompt_cache_key": f"support:{conversation}"})
    return one, ModelSettings(extra_args={"prompt_cache_key": "support"})  # expect: CKR05


def describe():
    return {"prompt_cache_key": "string"}


@dataclass
class Settings:
    cache_key: str = "support"

    def ask(self, history):
        return client.responses.create(model="gpt-5.5", prompt_cache_key=self.cache_key, input=history)
