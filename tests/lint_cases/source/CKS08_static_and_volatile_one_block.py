"""One marked block for what stays and what varies, and two."""

import anthropic

client = anthropic.Anthropic()
HANDBOOK = "A long handbook."


def ask(messages, retriever, question):
    found = retriever.get_relevant_documents(question)  # also: CKS05
    system = [{"type": "text", "text": f"{HANDBOOK} {found}", "cache_control": {"type": "ephemeral"}}]  # expect: CKS08
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_in_two(messages, retriever, question):
    found = retriever.get_relevant_documents(question)
    messages.append({"role": "user", "content": [{"type": "text", "text": f"{question} {found}", "cache_control": {"type": "ephemeral"}}]})
    system = [{"type": "text", "text": HANDBOOK, "cache_control": {"type": "ephemeral"}}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_about_a_page(messages, page_title):
    text = HANDBOOK + f" The user is looking at {page_title}."
    system = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]  # expect: CKS08
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_as_somebody(messages, persona):
    system = [{"type": "text", "text": f"{HANDBOOK} You are {persona}.", "cache_control": {"type": "ephemeral"}}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


class OfOnePage:
    def __init__(self, page_title):
        self.system = [{"type": "text", "text": f"{HANDBOOK} About {page_title}.", "cache_control": {"type": "ephemeral"}}]
