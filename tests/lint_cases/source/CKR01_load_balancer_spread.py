"""Calls spread over deployments, and calls tied to one."""

import itertools
import random

import anthropic
import boto3
import litellm
import openai

DEPLOYMENTS = [{"model_name": "main", "litellm_params": {"model": "azure/a"}}, {"model_name": "main", "litellm_params": {"model": "azure/b"}}]
clients = [anthropic.Anthropic(base_url=url) for url in ("https://a.example", "https://b.example")]


def ask(messages):
    return random.choice(clients).messages.create(model="claude-opus-4-5", max_tokens=9, messages=messages)  # expect: CKR01


def routed(messages):
    router = litellm.Router(model_list=DEPLOYMENTS, routing_strategy="simple-shuffle")  # expect: CKR01
    return router.completion(model="main", messages=messages)


def routed_with_affinity(messages):
    router = litellm.Router(model_list=DEPLOYMENTS, optional_pre_call_checks=["prompt_caching"])
    return router.completion(model="main", messages=messages)


def ask_one(messages, session):
    client = clients[session.number % len(clients)]
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, messages=messages)


REGIONS = itertools.cycle(["us-east-1", "eu-west-1"])
REPLICAS = ["http://a.example/v1", "http://b.example/v1"]
others = [openai.OpenAI(base_url=url) for url in REPLICAS]


def ask_any(messages):
    client = random.choice(others)  # expect: CKR01
    return client.chat.completions.create(model="gpt-5.1", messages=messages, prompt_cache_key="a")  # also: CKR05


def ask_a_persona(personas):
    persona = random.choice(personas)
    return persona.client.chat.completions.create(model="gpt-6.1-sol", messages=persona.messages)


def converse_anywhere(messages):
    runtime = boto3.client("bedrock-runtime", region_name=next(REGIONS))  # expect: CKR01
    return runtime.converse(modelId="claude", messages=messages)


def converse_here(messages, regions):
    runtime = boto3.client("bedrock-runtime", region_name=next(iter(regions)))
    bucket = boto3.client("s3", region_name=next(REGIONS))
    return runtime.converse(modelId="claude", messages=messages), bucket


def ask_a_replica(messages):
    client = openai.OpenAI(base_url=random.choice(REPLICAS))  # expect: CKR01
    return client.chat.completions.create(model="qwen", messages=messages)


class Pool:
    def __init__(self):
        self.mine = others[random.randrange(len(others))]
        self.clients = [*others]

    def pick(self):
        return self.clients[random.randrange(len(self.clients))]  # expect: CKR01

    def of(self, session):
        return self.clients[session.number % len(self.clients)]

    def example(self, examples):
        return examples[random.randrange(len(examples))]
