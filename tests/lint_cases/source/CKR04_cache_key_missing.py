"""A loop without a cache key, and loops that have one or need none."""

import openai

client = openai.OpenAI()


def converse(messages):
    while True:
        messages.append({"role": "user", "content": input()})
        client.chat.completions.create(model="gpt-5.1", messages=messages)  # expect: CKR04


def converse_with_key(messages, conversation):
    while True:
        messages.append({"role": "user", "content": input()})
        client.chat.completions.create(model="gpt-5.1", messages=messages, prompt_cache_key=f"support:{conversation}")


def converse_with_marks(messages):
    while True:
        messages.append({"role": "user", "content": input()})
        client.chat.completions.create(model="gpt-6.1-sol", messages=messages)


def ask_once(messages):
    return client.chat.completions.create(model="gpt-5.1", messages=messages)
