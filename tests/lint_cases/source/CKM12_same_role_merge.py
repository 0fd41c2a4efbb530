"""Messages of one role merged behind others that were left out; merged as they came; and told apart."""


def merge_consecutive(messages, known):
    out = []
    for message in messages:
        if message.get("tool_call_id") not in known:
            continue
        if out and out[-1]["role"] == message["role"]:  # expect: CKM12
            out[-1] = {**out[-1], "content": out[-1]["content"] + "\n\n" + message["content"]}
        else:
            out.append(message)
    return out


def as_they_came(messages):
    out = []
    for message in messages:
        if out and out[-1]["role"] == message["role"]:
            out[-1] = {**out[-1], "content": out[-1]["content"] + "\n\n" + message["content"]}
        else:
            out.append(message)
    return out


def alternates(messages):
    for one, other in zip(messages, messages[1:]):
        if one["role"] == other["role"]:
            raise ValueError(f"two messages of {one['role']}: {one['content']!r}")
