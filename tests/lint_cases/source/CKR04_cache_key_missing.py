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


def ask_in_turn(messages):
    return client.chat.completions.create(model="gpt-5.1", messages=messages).choices[0].message  # expect: CKR04


def converse_through_a_function(messages):
    for _ in range(9):
        messages.append({"role": "user", "content": input()})
        messages.append(ask_in_turn(messages))


def title_of(messages):
    return client.chat.completions.create(model="gpt-5.1", messages=messages).choices[0].message


def titles_of(conversations):
    return [title_of(messages) for messages in conversations] + [title_of(one) for one in conversations]


def name_each(conversations):
    for messages in conversations:
        print(title_of(messages))


class Bot:
    MODEL = "gpt-4.1"
    NEW = "gpt-6.1-sol"

    def run(self, messages):
        while True:
            messages.append({"role": "user", "content": input()})
            client.chat.completions.create(model=self.MODEL, messages=messages)  # expect: CKR04

    def run_the_new(self, messages):
        while True:
            messages.append({"role": "user", "content": input()})
            client.chat.completions.create(model=self.NEW, messages=messages)


def converse_with_grok(messages):
    xai = openai.OpenAI(base_url="https://api.x.ai/v1")
    while True:
        messages.append({"role": "user", "content": input()})
        xai.chat.completions.create(model="grok-4.5", messages=messages)  # expect: CKR04
