"""Fast mode for some steps, and for the session."""

import anthropic

client = anthropic.Anthropic()
FAST = {"anthropic-beta": "fast-mode-2026-02-01"}


def step(messages, user_waiting):
    headers = {"anthropic-beta": "fast-mode-2026-02-01"} if user_waiting else {}
    return client.messages.create(
        model="claude-opus-4-8",
        max_tokens=9,
        extra_headers=headers,  # expect: CKP06
        messages=messages,
    )


def reply(messages, attempt):
    speed = "fast" if attempt == 0 else "standard"
    return client.beta.messages.create(model="claude-opus-4-8", max_tokens=9, speed=speed, messages=messages)  # expect: CKP06


def step_evenly(messages, attempt):
    headers = {"x-attempt": str(attempt)} if attempt else {}
    return client.messages.create(model="claude-opus-4-8", max_tokens=9, extra_headers=headers, messages=messages)


def step_fast(messages):
    return client.messages.create(model="claude-opus-4-8", max_tokens=9, extra_headers=FAST, messages=messages)
