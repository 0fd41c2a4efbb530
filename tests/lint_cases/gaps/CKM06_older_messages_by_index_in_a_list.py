"""Older messages by index in a list."""

import openai

gpt = openai.OpenAI()
CLEARED = "[cleared]"


def prune_by_index(messages, cutoff):
    return [{**m, "content": CLEARED} if m["role"] == "tool" and i < cutoff else m for i, m in enumerate(messages)]  # expect: CKM06


def ask_with_old_results_cleared(history):
    n = len(history)
    sent = [
        {**message, "content": CLEARED} if message["role"] == "tool" and n - i > 8 else message  # expect: CKM06
        for i, message in enumerate(history)
    ]
    return gpt.chat.completions.create(model="gpt-5", messages=sent)
