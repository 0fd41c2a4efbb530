"""The time of day in the system prompt, and where it does no harm."""

from datetime import datetime

import anthropic

client = anthropic.Anthropic()
HANDBOOK = "Answer in one sentence."
STARTED = datetime.now().isoformat()


def system_text():
    return f"You are a support agent. The time is {datetime.now():%H:%M:%S}. {HANDBOOK}"  # expect: CKS01


def ask(messages):
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system_text(), messages=messages)


def ask_in_the_tail(messages, question):
    messages.append({"role": "user", "content": f"[{datetime.now():%H:%M}] {question}"})
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=HANDBOOK, messages=messages)


def timed(messages):
    began = datetime.now()
    reply = client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=f"{HANDBOOK} Began {STARTED}.", messages=messages)
    return reply, datetime.now() - began
