"""The machine in the system prompt, and in the first message."""

import os

import anthropic

client = anthropic.Anthropic()
INSTRUCTIONS = "You write code."


def ask(messages):
    system = f"{INSTRUCTIONS} Folder: {os.getcwd()}."  # expect: CKS04
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, system=system, messages=messages)


def first(task):
    return [{"role": "user", "content": f"Folder: {os.getcwd()}. {task}"}]


def ask_plainly(messages):
    print("in", os.getcwd())
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, system=INSTRUCTIONS, messages=messages)
