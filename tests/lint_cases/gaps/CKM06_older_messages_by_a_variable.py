"""Older messages by a variable."""


def prune(messages):
    older = messages[:-6]
    for one in older:
        one["content"] = "[cleared]"  # expect: CKM06
