"""A loop over messages that are given."""

import anthropic

client = anthropic.Anthropic()


def run(messages):
    while True:
        reply = client.messages.create(model="claude-sonnet-5-5", max_tokens=9, messages=messages)  # expect: CKB01
        messages.append({"role": "assistant", "content": reply.content})
