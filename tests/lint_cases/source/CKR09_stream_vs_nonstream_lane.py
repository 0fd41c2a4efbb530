"""Two ways to call of which one forgets the key, and two that do not."""

import boto3
import openai

client, runtime = openai.OpenAI(), boto3.client("bedrock-runtime")


def ask(messages, on_terminal, key):
    if on_terminal:
        return client.chat.completions.create(model="gpt-5.1", messages=messages, stream=True)  # expect: CKR09
    else:
        return client.chat.completions.create(model="gpt-5.1", messages=messages, prompt_cache_key=key)


def ask_alike(messages, on_terminal, key):
    if on_terminal:
        return client.chat.completions.create(model="gpt-5.1", messages=messages, prompt_cache_key=key, stream=True)
    else:
        return client.chat.completions.create(model="gpt-5.1", messages=messages, prompt_cache_key=key)


def ask_without_else(messages, on_terminal, key):
    if on_terminal:
        return client.chat.completions.create(model="gpt-5.1", messages=messages, stream=True)  # expect: CKR09
    return client.chat.completions.create(model="gpt-5.1", messages=messages, prompt_cache_key=key)


def ask_of_bedrock(messages, tools, stream):
    if stream:
        return runtime.converse_stream(modelId="claude", messages=messages)  # expect: CKR09
    return runtime.converse(modelId="claude", messages=messages, system=tools)


def ask_and_go_on(messages, on_terminal, key):
    if on_terminal:
        client.chat.completions.create(model="gpt-5.1", messages=messages, prompt_cache_key=key, stream=True)
    return client.chat.completions.create(model="gpt-5.1", messages=messages, prompt_cache_key=key)


def ask_or_title(messages, on_terminal, key):
    if on_terminal:
        return client.chat.completions.create(model="gpt-5.1", messages=messages, prompt_cache_key=key, stream=True)
    messages.append({"role": "user", "content": "Go on."})
    return client.chat.completions.create(model="gpt-5.1", messages=messages, prompt_cache_key=key)
