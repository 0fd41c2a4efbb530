"""Reasoning taken out of the history, and left out of what is shown."""


def replay(history):
    for message in history:
        message.pop("reasoning_content", None)  # expect: CKM01
        message["content"] = [block for block in message["content"] if block["type"] != "thinking"]  # expect: CKM01
    return history


def shown(history):
    return [block["text"] for message in history for block in message["content"] if block["type"] != "thinking"]


def of_reply(reply):
    reply.pop("reasoning_content", None)
    return reply
