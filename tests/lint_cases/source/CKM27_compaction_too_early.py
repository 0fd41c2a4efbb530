"""Folded at half the window, and near its end."""

WINDOW = 200_000


def n_tokens(messages):
    return sum(len(message["content"]) for message in messages) // 4


def summarise(messages):
    return {"role": "user", "content": f"{len(messages)} messages"}


def before_request(messages):
    if n_tokens(messages) > 0.5 * WINDOW:  # expect: CKM27
        messages[:-4] = [summarise(messages[:-4])]


def near_the_end(messages):
    if n_tokens(messages) > 0.92 * WINDOW:
        messages[:-4] = [summarise(messages[:-4])]


def warn(messages):
    if n_tokens(messages) > 0.5 * WINDOW:
        print("half full")
