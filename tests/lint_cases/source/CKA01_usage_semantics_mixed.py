"""Counters of two conventions in one sum."""


def total_tokens(usage):
    return usage.input_tokens + usage.input_tokens_details.cached_tokens  # expect: CKA01


def total_of_chat(reply):
    usage = reply["usage"]
    return usage["prompt_tokens"] + usage["prompt_tokens_details"]["cached_tokens"]  # expect: CKA01


def hit_rate(usage):
    return usage.cache_read_input_tokens / usage.input_tokens  # expect: CKA01


def fresh(usage):
    return usage.input_tokens - usage.input_tokens_details.cached_tokens


def anthropic_prompt(usage):
    return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


def share(usage):
    return usage.cache_read_input_tokens / (usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens)


def normalised(input_tokens, cached_tokens):
    return input_tokens + cached_tokens
