"""A text called messages."""


def fit(messages: str):
    while len(messages) > 9:
        messages = messages[1:]
    return messages
