"""Older messages by number."""


def prune(messages):
    for n in range(len(messages) - 6):
        messages[n]["content"] = "[cleared]"  # expect: CKM06
