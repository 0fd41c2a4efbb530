"""A budget per step, and one for the session."""

import anthropic

client = anthropic.Anthropic()
THINKING = {"type": "enabled", "budget_tokens": 4096}


def step(messages, remaining):
    budget = max(1024, remaining // 4)
    return client.messages.create(
        model="claude-opus-4-5",
        max_tokens=9,
        thinking={"type": "enabled", "budget_tokens": budget},  # expect: CKP03
        messages=messages,
    )


def run(messages, is_last):
    thinking = THINKING
    if is_last:
        thinking = {"type": "disabled"}
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, thinking=thinking, messages=messages)  # expect: CKP03


def run_evenly(messages, remaining):
    if remaining < 1024:
        raise RuntimeError("out of tokens")
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, thinking=THINKING, messages=messages)
