"""Messages in brief once they are old, and in brief from the beginning."""


def full(message):
    return message


def brief(message):
    return {**message, "content": message["content"][:80]}


def render(messages):
    n = len(messages)
    return [full(m) if n - i <= 5 else brief(m) for i, m in enumerate(messages)]  # expect: CKM08


def fade(messages):
    for message in messages[:-8]:
        message["content"] = message["content"][:500]  # expect: CKM08


def numbered(messages):
    return [f"{len(messages) - i} turns ago: {m['role']}" for i, m in enumerate(messages)]


def add(messages, message):
    messages.append(brief(message) if len(message["content"]) > 10_000 else message)
