"""Cached tokens of Responses added."""


def billed(usage):
    return usage.input_tokens + usage.input_tokens_details.cached_tokens  # expect: CKA02
