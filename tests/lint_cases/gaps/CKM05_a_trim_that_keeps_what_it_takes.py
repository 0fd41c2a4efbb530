"""A trim that keeps what it takes."""


def fit(messages, limit):
    total = sum(len(one["content"]) for one in messages)
    while total > limit:
        taken = messages.pop(0)  # expect: CKM05
        total -= len(taken["content"])
    return messages
