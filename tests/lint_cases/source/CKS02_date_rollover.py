"""Today's date, taken per request and taken once."""

from datetime import date

import anthropic

INSTRUCTIONS = "You plan journeys."


class PerRequest:
    def __init__(self):
        self.client = anthropic.Anthropic()

    def ask(self, messages):
        system = f"{INSTRUCTIONS} Today is {date.today().isoformat()}."  # expect: CKS02
        return self.client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


class PerSession:
    def __init__(self):
        self.client = anthropic.Anthropic()
        self.system = f"{INSTRUCTIONS} The session began on {date.today().isoformat()}."

    def ask(self, messages):
        return self.client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=self.system, messages=messages)
