"""A variant of the prompt chosen per request, and per session."""

import random

import anthropic

client = anthropic.Anthropic()
VARIANTS = ["You are brief.", "You are thorough."]


def ask(messages):
    return client.messages.create(
        model="claude-opus-4-5", max_tokens=1024, system=random.choice(VARIANTS), messages=messages,  # expect: CKS12
    )


class Session:
    def __init__(self):
        self.system = random.choice(VARIANTS)

    def ask(self, messages):
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=self.system, messages=messages)


def ask_with_shuffled_examples(history, examples):
    shown = random.sample(examples, 3)  # expect: CKS12
    system = "You are brief.\n" + "\n".join(shown)
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=history)


class Varied:
    def __init__(self):
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        tone = "Use short words." if random.random() < 0.5 else random.choice(("Be kind.", "Be exact."))  # expect: CKS12
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=VARIANTS[0] + tone, messages=self.messages)


def ask_by_account(messages, account):
    system = VARIANTS[account.number % 2]
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_with_a_warm_answer(messages):
    temperature = random.choice((0.2, 0.8))
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=VARIANTS[0], temperature=temperature, messages=messages)
