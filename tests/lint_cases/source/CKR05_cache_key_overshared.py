"""One key for everybody, and one for each conversation."""

import openai
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
