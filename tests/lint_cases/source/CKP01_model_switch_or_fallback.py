"""Another model in mid-conversation, and the same one again."""

import random

import anthropic
from langchain_anthropic import ChatAnthropic

client = anthropic.Anthropic()
MAIN, SMALL = "claude-opus-4-5", "claude-haiku-4-5"
llm = ChatAnthropic(model=MAIN)


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


def ask_with_a_dict(messages, step):
    request = {"model": SMALL if step else MAIN, "max_tokens": 9, "messages": messages}  # expect: CKP01
    return client.messages.create(**request)


def title_with_a_dict(text, is_simple):
    request = {"model": SMALL if is_simple else MAIN, "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    return client.messages.create(**request)


def title_of_one_text(text, is_simple):
    return client.messages.create(model=SMALL if is_simple else MAIN, max_tokens=9, messages=[{"role": "user", "content": text}])


def node(state):
    try:
        return {"messages": [llm.invoke(state["messages"])]}
    except anthropic.APIStatusError:
        return {"messages": [ChatAnthropic(model=SMALL).invoke(state["messages"])]}  # expect: CKP01


def node_or_fall_back(state, fallback_llm):
    try:
        return {"messages": [llm.invoke(state["messages"])]}
    except anthropic.APIStatusError:
        return {"messages": [fallback_llm.invoke(state["messages"])]}  # expect: CKP01


def node_without_schema(state, structured, schema):
    try:
        return {"messages": [llm.with_structured_output(schema).invoke(state["messages"])]}
    except ValueError:
        return {"messages": [llm.invoke(state["messages"])]}
