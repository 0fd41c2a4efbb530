"""An instruction file read per request, and read once."""

from pathlib import Path

INSTRUCTIONS = "You write code. "


def build_system_prompt():
    return INSTRUCTIONS + Path("AGENTS.md").read_text()  # expect: CKS07


class Session:
    def __init__(self):
        self.system_prompt = INSTRUCTIONS + Path("AGENTS.md").read_text()


def show_rules():
    print(Path("AGENTS.md").read_text())


def build_template_prompt():
    return INSTRUCTIONS + Path("template.txt").read_text()
