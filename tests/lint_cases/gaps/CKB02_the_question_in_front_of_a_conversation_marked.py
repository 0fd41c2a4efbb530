"""The question in front of a conversation, marked."""

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


def ask(messages, question):
    system = [{"type": "text", "text": question, "cache_control": {"type": "ephemeral"}}]  # expect: CKB02
    return client.messages.create(system=system, messages=messages, **GIVEN)
