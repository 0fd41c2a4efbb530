"""A budget shared out over what was sent, and a limit on what comes in."""


def fit(messages, budget):
    results = [message for message in messages if message["role"] == "tool"]
    share = budget // max(1, len(results))
    for message in messages:
        if message["role"] == "tool":
            message["content"] = message["content"][:share]  # expect: CKM07


def ingest(messages, call, output, budget, used):
    room = max(1_000, budget - used)
    messages.append({"role": "tool", "tool_call_id": call.id, "content": output[:room]})


def cut_to_what_is_left(messages, left):
    for message in reversed(messages):
        text = message["content"]
        if len(text) > left:
            message["content"] = text[: max(left, 0)]  # expect: CKM07
        left -= len(text)


def cut_what_comes_in(messages, outputs, left):
    for call, text in reversed(outputs):
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text[: max(left, 0)]})
        left -= len(text)
