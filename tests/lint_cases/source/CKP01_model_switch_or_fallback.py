"""Another model in mid-conversation, and the same one again."""

import random

import anthropic

client = anthropic.Anthropic()
MAIN, SMALL = "claude-opus-4-5", "claude-haiku-4-5"


def ask(messages):
    for model in (MAIN, SMALL):
        try:
            return client.messages.create(model=model, max_tokens=9, messages=messages)  # expect: CKP01
        except anthropic.APIStatusError:
            continue
    raise RuntimeError("no model answers")


def ask_or_fall_back(messages):
    try:
        return client.messages.create(model=MAIN, max_tokens=9, messages=messages)
    except anthropic.RateLimitError:
        return client.messages.create(model=SMALL, max_tokens=9, messages=messages)  # expect: CKP01


def step(messages, is_simple):
    return client.messages.create(model=SMALL if is_simple else MAIN, max_tokens=9, messages=messages)  # expect: CKP01


def ask_again(messages):
    for _ in range(3):
        try:
            return client.messages.create(model=MAIN, max_tokens=9, messages=messages)
        except anthropic.APIStatusError:
            continue
    return client.messages.create(model=MAIN, max_tokens=9, messages=messages)


def title(text):
    for model in (MAIN, SMALL):
        print(model)
    return client.messages.create(model=SMALL, max_tokens=9, messages=[{"role": "user", "content": text}])


def classify(text):
    for model in (MAIN, SMALL):
        try:
            return client.messages.create(model=model, max_tokens=9, messages=[{"role": "user", "content": text}])
        except anthropic.APIStatusError:
            continue
    raise RuntimeError("no model answers")


def ask_longer(messages):
    return client.messages.create(model=MAIN if len(messages) > 9 else SMALL, max_tokens=9, messages=messages)  # expect: CKP01


def ask_of_the_newest(messages):
    model = SMALL if messages[-1]["content"] == "hi" else MAIN
    return client.messages.create(model=model, max_tokens=9, messages=messages)  # expect: CKP01


def ask_of_a_file(messages, lines):
    return client.messages.create(model=MAIN if len(lines) > 9 else SMALL, max_tokens=9, messages=messages)


def ask_any(messages):
    return client.messages.create(model=random.choice([MAIN, SMALL]), max_tokens=9, messages=messages)  # expect: CKP01


class Arena:
    def __init__(self):
        self.model = random.choice([MAIN, SMALL])

    def ask(self, messages):
        return client.messages.create(model=self.model, max_tokens=9, messages=messages)


def label(rows):
    return [
        client.messages.create(model=random.choice([MAIN, SMALL]), max_tokens=9, messages=[{"role": "user", "content": row}]) for row in rows
    ]
