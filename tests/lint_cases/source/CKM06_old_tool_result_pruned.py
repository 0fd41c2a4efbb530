"""Old results cleared, and results cleared before they are sent."""


def prune(messages):
    for message in messages[:-6]:
        for block in message["content"]:
            if block["type"] == "tool_result":
                block["content"] = "[cleared]"  # expect: CKM06


def prune_copy(messages):
    return [{**m, "content": "[Old tool output removed]"} if m["role"] == "tool" else m for m in messages]  # expect: CKM06


def ingest(messages, call, output):
    text = output if len(output) < 10_000 else "[output omitted: too long]"
    messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


def filled(messages):
    for message in messages:
        if message["content"] is None:
            message["content"] = ""
    return messages
