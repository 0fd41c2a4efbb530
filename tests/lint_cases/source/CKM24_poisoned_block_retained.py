"""A block left out of one request, and taken out for good."""

import anthropic

client = anthropic.Anthropic()


def ask(messages):
    try:
        return client.messages.create(model="claude-opus-4-5", max_tokens=2048, messages=messages)
    except anthropic.BadRequestError:
        without = [{**m, "content": [b for b in m["content"] if b["type"] != "image"]} for m in messages]  # expect: CKM24
        return client.messages.create(model="claude-opus-4-5", max_tokens=2048, messages=without)


def ask_and_keep(messages):
    try:
        return client.messages.create(model="claude-opus-4-5", max_tokens=2048, messages=messages)
    except anthropic.BadRequestError:
        messages[:] = [m for m in messages if not m.get("poisoned")]
        return client.messages.create(model="claude-opus-4-5", max_tokens=2048, messages=messages)
