"""Tools if in a mode that a method changes."""

import anthropic

client = anthropic.Anthropic()
GIVEN = {"model": "m", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}
READ = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}
TOOLS = [READ, {"name": "write", "description": "Writes.", "input_schema": {"type": "object"}}]


class Agent:
    def __init__(self):
        self.mode, self.tools, self.messages = "plan", list(TOOLS), []

    def change(self):
        self.mode = "act"

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        return client.messages.create(
            tools=TOOLS if self.mode == "act" else TOOLS[:1], messages=self.messages, **GIVEN
        )  # expect: CKT11
