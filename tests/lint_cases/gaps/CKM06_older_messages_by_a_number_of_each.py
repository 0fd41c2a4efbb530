"""Older messages by a number of each."""


def prune(messages):
    for n, one in enumerate(messages):
        if n < len(messages) - 6:
            one["content"] = "[cleared]"  # expect: CKM06
