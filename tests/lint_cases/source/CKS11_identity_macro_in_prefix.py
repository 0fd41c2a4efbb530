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


def ask_in_blocks(user, messages):
    system = [
        {"type": "text", "text": f"You help {user.user_name}."},  # expect: CKS11
        {"type": "text", "text": HANDBOOK, "cache_control": {"type": "ephemeral"}},
    ]
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_behind_the_marker(user, messages):
    system = [
        {"type": "text", "text": HANDBOOK, "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": f"You help {user.user_name}, in {user.locale}."},
    ]
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_for_somebody(user, tenant, messages):
    system = f"You help {user.name} of {tenant.name}. {HANDBOOK}"  # expect: CKS11
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_as_somebody(agent, product, messages):
    system = f"You are {agent.name} and know {product.name}. {HANDBOOK}"
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


class ForOne:
    def __init__(self, user):
        self.system = f"You help {user.name}. {HANDBOOK}"

    def ask(self, messages):
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=self.system, messages=messages)
