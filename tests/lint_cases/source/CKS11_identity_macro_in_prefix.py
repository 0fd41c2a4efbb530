"""Who the user is, in front of the handbook and behind it."""

import anthropic

client = anthropic.Anthropic()
HANDBOOK = "A long handbook."


def ask(user, messages):
    system = f"You help {user.user_name}. {HANDBOOK}"  # expect: CKS11
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_behind(user, messages, question):
    messages.append({"role": "user", "content": f"{user.user_name} asks: {question}"})
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=HANDBOOK, messages=messages)
