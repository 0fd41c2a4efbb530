"""A list only for the marker, and a list always."""


def mark_last(messages):
    out = [dict(message) for message in messages]
    if isinstance(out[-1]["content"], str):
        out[-1]["content"] = [{"type": "text", "text": out[-1]["content"], "cache_control": {"type": "ephemeral"}}]  # expect: CKM10
    return out


def mark_system(messages):
    for message in messages:
        if message["role"] == "system":
            mark(message)


def mark(message):
    if isinstance(message["content"], str):
        message["content"] = [{"type": "text", "text": message["content"], "cache_control": {"type": "ephemeral"}}]


def as_blocks(messages):
    out = [dict(message) for message in messages]
    for message in out:
        if isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    out[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return out


def mark_the_newest(client, messages):
    last = messages[-1]
    if isinstance(last["content"], str):
        last = {**last, "content": [{"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}]}  # expect: CKM10
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=[*messages[:-1], last])
