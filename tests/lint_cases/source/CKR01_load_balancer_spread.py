"""Calls spread over deployments, and calls tied to one."""

import random

import anthropic
import litellm

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
