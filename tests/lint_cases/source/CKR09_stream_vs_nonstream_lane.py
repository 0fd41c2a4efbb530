"""Two ways to call of which one forgets the key, and two that do not."""

import openai

client = openai.OpenAI()


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
