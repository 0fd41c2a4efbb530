"""Messages of one role merged on their way out, and told apart."""


def merge_consecutive(messages):
    out = []
    for message in messages:
        if out and out[-1]["role"] == message["role"]:  # expect: CKM12
            out[-1] = {**out[-1], "content": out[-1]["content"] + "\n\n" + message["content"]}
        else:
            out.append(message)
    return out


def alternates(messages):
    for one, other in zip(messages, messages[1:]):
        if one["role"] == other["role"]:
            raise ValueError(f"two messages of {one['role']}: {one['content']!r}")
