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


def ask_with_a_brief_front(client, messages):
    view = [brief(m) for m in messages[:-6]] + messages[-6:]  # expect: CKM08
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=view)


def copied(messages):
    return [dict(m) for m in messages[:-6]] + messages[-6:]


def fade_when_it_is_too_much(messages, n_tokens):
    if n_tokens(messages) > 100_000:
        messages[:] = [brief(m) for m in messages[:-6]] + messages[-6:]


def render_by_age(messages):
    total, out = len(messages), []
    for i, m in enumerate(messages):
        age = len(messages) - i
        out.append(m if age <= 10 else brief(m))  # expect: CKM08
    return out


def render_by_place(messages):
    out = []
    for i, m in enumerate(messages):
        place = i + 1
        out.append(m if place <= 10 else brief(m))
    return out


def render_in_branches(messages):
    n, out = len(messages), []
    for i, m in enumerate(messages):
        if len(messages) - i <= 5:
            out.append(m)
        else:
            out.append(brief(m))  # expect: CKM08
    return out


def show_in_branches(messages):
    lines = []
    for i, m in enumerate(messages):
        if len(messages) - i <= 5:
            lines.append(m["content"])
        else:
            lines.append(m["content"][:80])
    return "\n".join(lines)


def render_backwards(messages):
    out = []
    for age, m in enumerate(reversed(messages)):
        out.append(m if age < 5 else brief(m))  # expect: CKM08
    return out[::-1]


def ask_with_split_results(client, messages):
    sent = []
    for message in messages:
        parts = message["content"] if isinstance(message["content"], list) else []
        for i, call in enumerate(message.get("tool_calls") or []):
            sent.append({"role": "tool", "tool_call_id": call["id"], "content": parts[i] if i < len(parts) else call["content"]})
    return client.chat.completions.create(model="gpt-5", messages=sent)
