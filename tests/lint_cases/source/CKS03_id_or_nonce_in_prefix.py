"""Ids in front of the prompt, and beside it."""

import uuid

import anthropic

client = anthropic.Anthropic()
INSTRUCTIONS = "You answer letters."


def ask(messages):
    request_id = uuid.uuid4().hex  # expect: CKS03
    system = f"[request {request_id}] {INSTRUCTIONS}"
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_with_header(messages):
    request_id = uuid.uuid4().hex
    return client.messages.create(
        model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages, extra_headers={"x-request-id": request_id},
    )
