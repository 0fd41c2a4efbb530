"""An instruction file read per request, and read once."""

from pathlib import Path

INSTRUCTIONS = "You write code. "


def build_system_prompt():
    return INSTRUCTIONS + Path("AGENTS.md").read_text()  # expect: CKS07


def ask(client, messages):
    rules = {"role": "system", "content": INSTRUCTIONS + open("AGENTS.md").read()}  # expect: CKS07
    return client.chat.completions.create(model="gpt-5", messages=[rules, *messages])


def ask_claude(client, messages):
    return client.messages.create(
        model="claude-opus-4-5",
        max_tokens=1024,
        system=INSTRUCTIONS + Path("CLAUDE.md").read_text(),  # expect: CKS07
        messages=messages,
    )


def as_a_message(client, messages):
    messages.append({"role": "user", "content": "The rules: " + open("AGENTS.md").read()})
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages)


class Session:
    def __init__(self):
        self.system_prompt = INSTRUCTIONS + Path("AGENTS.md").read_text()


def show_rules():
    print(Path("AGENTS.md").read_text())


def build_template_prompt():
    return INSTRUCTIONS + Path("template.txt").read_text()
