"""The newest of a reversed slice."""


def fit(messages, limit):
    kept, used = [], 0
    for message in messages[::-1]:
        used += len(message["content"])
        if used > limit:
            break
        kept.insert(0, message)  # expect: CKM05
    return kept
