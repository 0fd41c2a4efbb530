"""Git by a helper."""

import subprocess

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, text=True).stdout


def ask(messages):
    return client.messages.create(system=git("status", "--short"), messages=messages, **GIVEN)  # expect: CKS04
