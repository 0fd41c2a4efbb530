"""A plan recited in front, and at the tail."""

import anthropic

client = anthropic.Anthropic()
INSTRUCTIONS = "You work step by step."


def step(state, messages):
    system = INSTRUCTIONS + "\n".join(f"- {todo}" for todo in state.todos)  # expect: CKS06
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def step_at_the_tail(state, messages):
    messages.append({"role": "user", "content": "Still to do: " + "; ".join(state.todos)})
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages)
