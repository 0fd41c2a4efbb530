"""A reminder in a copy that is sent, and one that stays."""

import copy

import anthropic

client = anthropic.Anthropic()


def turn(messages, reminder):
    outgoing = copy.deepcopy(messages)
    outgoing[-1]["content"].append({"type": "text", "text": f"<system-reminder>{reminder}</system-reminder>"})  # expect: CKM09
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=outgoing)


def turn_item_by_item(messages, reminder):
    outgoing = [dict(message) for message in messages]
    outgoing[-1]["content"] += reminder  # expect: CKM09
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=outgoing)


def turn_kept(messages, reminder):
    messages[-1]["content"].append({"type": "text", "text": f"<system-reminder>{reminder}</system-reminder>"})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


def logged(messages):
    shown = copy.deepcopy(messages)
    shown[-1]["content"] = "…"
    print(shown)
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


def turn_moved(messages, reminder):
    messages = [message for message in messages if message["content"] != reminder]  # expect: CKM09
    messages.append({"role": "user", "content": reminder})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


def turn_without_empty_ones(messages, text):
    messages = [message for message in messages if message["content"]]
    messages.append({"role": "user", "content": text})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


def turn_without_another(messages, draft, text):
    messages = [message for message in messages if message["content"] != draft]
    messages.append({"role": "user", "content": text})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


def without_errors(messages, text):
    messages = [message for message in messages if not message.get("is_error")]
    messages.append({"role": "user", "content": text, "is_error": False})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)
