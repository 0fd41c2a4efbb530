"""An aggregator without a pinned route, and a provider of its own."""

import openai


def aggregated(history):
    client = openai.OpenAI(base_url="https://openrouter.ai/api/v1")  # expect: CKR03
    return client.chat.completions.create(model="deepseek/deepseek-v4-pro", messages=history)


def direct(history):
    client = openai.OpenAI(base_url="https://api.deepseek.com/v1")
    return client.chat.completions.create(model="deepseek-v4-pro", messages=history)
