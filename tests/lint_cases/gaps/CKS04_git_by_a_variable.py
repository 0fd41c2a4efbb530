"""Git by a variable."""

import subprocess

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


def ask(messages):
    command = ["git", "diff"]
    text = subprocess.check_output(command, text=True)  # expect: CKS04
    return client.messages.create(system=text, messages=messages, **GIVEN)
