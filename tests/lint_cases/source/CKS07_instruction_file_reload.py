"""An instruction file read per request, and read once."""

import os
from pathlib import Path

import aiofiles

INSTRUCTIONS = "You write code. "


def build_system_prompt():
    return INSTRUCTIONS + Path("AGENTS.md").read_text()  # expect: CKS07


def ask(client, messages):
    rules = {"role": "system", "content": INSTRUCTIONS + open("AGENTS.md").read()}  # expect: CKS07
    return client.chat.completions.create(model="gpt-5", messages=[rules, *messages])


def as_a_message(client, messages):
    messages.append({"role": "user", "content": "The rules: " + open("AGENTS.md").read()})
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages)


class Session:
    def __init__(self):
        self.system_prompt = INSTRUCTIONS + Path("AGENTS.md").read_text()


def show_rules():
    print(Path("AGENTS.md").read_text())


RULES = "docs/AGENTS.md"
SOURCES = ("AGENTS.md", ".cursorrules")
PAGES = ("index.md", "about.md")


def ask_if_there_are_rules(client, messages):
    rules = Path("AGENTS.md")
    system = INSTRUCTIONS + rules.read_text() if rules.exists() else INSTRUCTIONS  # expect: CKS07
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


class Agent:
    def __init__(self, root):
        self.root = root
        self.opening = Path(RULES).read_text()
        self.messages = []

    def ask(self, client, text):
        self.messages.append({"role": "user", "content": text})
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=self.instructions(), messages=self.messages)

    def instructions(self):
        path = os.path.join(self.root, "CLAUDE.md")
        with open(path) as file:  # expect: CKS07
            return file.read()


async def ask_with_a_constant(client, messages):
    async with aiofiles.open(RULES) as file:  # expect: CKS07
        rules = await file.read()
    return await client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=rules, messages=messages)


def ask_with_all(client, messages, root):
    system = "".join((root / name).read_text() for name in SOURCES)  # expect: CKS07
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_with_pages(client, messages, root):
    system = "".join((root / name).read_text() for name in PAGES)
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def build_prompt_of_a_template():
    rules = Path("AGENTS.md")
    template = Path("template.md")
    return template.read_text() + (" There are rules." if rules.exists() else "")


def announced(client, messages, seen):
    rules = Path(RULES).read_text()
    if rules != seen:
        messages.append({"role": "user", "content": "The rules have changed: " + rules})
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages)


def from_folder(folder, make_agent):
    rules = folder / "AGENTS.md"
    instructions = rules.read_text()
    return make_agent(instructions)
