"""A budget per step or by what is said, and one for the session."""

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


def chat(messages):
    said = input("> ")
    messages.append({"role": "user", "content": said})
    thinking = THINKING if "think hard" in said else {"type": "disabled"}
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, thinking=thinking, messages=messages)  # expect: CKP03


def chat_as_wanted(messages):
    is_wanted = input("Think first? ")
    thinking = THINKING if is_wanted else {"type": "disabled"}
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, thinking=thinking, messages=messages)


def counted_down(messages, remaining_tokens):
    budget = {"task_budget": {"type": "tokens", "total": remaining_tokens // 2}}
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, messages=messages, output_config=budget)  # expect: CKP03


def not_counted_down(messages, remaining_tokens, total):
    budget = {"task_budget": {"type": "tokens", "total": total}}
    return client.messages.create(model="claude-opus-4-5", max_tokens=remaining_tokens // 2, messages=messages, output_config=budget)
