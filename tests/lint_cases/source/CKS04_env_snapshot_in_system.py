"""The machine in the system prompt, and in the first message."""

import os
import shutil
from pathlib import Path

import anthropic

client = anthropic.Anthropic()
INSTRUCTIONS = "You write code."


def ask(messages):
    system = f"{INSTRUCTIONS} Folder: {os.getcwd()}."  # expect: CKS04
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, system=system, messages=messages)


def ask_with_files(messages):
    files = "\n".join(os.listdir("."))  # expect: CKS04
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, system=f"{INSTRUCTIONS}\n{files}", messages=messages)


def ask_with_modules(messages):
    modules = [path.stem for path in Path("src").iterdir()]  # expect: CKS04
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, system=f"{INSTRUCTIONS} {modules}", messages=messages)


def ask_with_the_width(messages):
    system = f"{INSTRUCTIONS} In lines of {shutil.get_terminal_size().columns} columns."  # expect: CKS04
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, system=system, messages=messages)


def ask_with_guides(messages):
    guides = "\n".join(path.read_text() for path in sorted(Path("guides").glob("*.md")))
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, system=guides, messages=messages)


def ask_with_files_at_the_end(messages, question):
    messages.append({"role": "user", "content": f"{question}\nFiles: {os.listdir('.')}"})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, system=INSTRUCTIONS, messages=messages)


class Session:
    def __init__(self):
        self.files = ", ".join(sorted(os.listdir(".")))

    def ask(self, messages):
        return client.messages.create(model="claude-opus-4-5", max_tokens=4096, system=INSTRUCTIONS + self.files, messages=messages)


def ask_in_one_breath(messages):
    return client.messages.create(
        model="claude-opus-4-5",
        max_tokens=4096,
        system=f"You run in {os.getcwd()}. {LONG_INSTRUCTIONS}",  # expect: CKS04
        messages=messages,
    )


LONG_INSTRUCTIONS = Path("handbook.txt").read_text()


def ask_with_the_folder_last(messages):
    system = [
        {"type": "text", "text": LONG_INSTRUCTIONS, "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": f"Folder: {os.getcwd()}."},
    ]
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, system=system, messages=messages)
