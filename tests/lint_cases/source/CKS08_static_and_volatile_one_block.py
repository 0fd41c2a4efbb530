"""One marked block for what stays and what varies, and two."""

from pathlib import Path

import anthropic

client = anthropic.Anthropic()
MARK = {"type": "ephemeral"}
HANDBOOK = Path("handbook.md").read_text()
RULES = "Answer in the customer's language. Say what you do not know. Name the page of the handbook that you quote. " * 1 + """
Never promise a date. Never name a price that is not in the price list. Ask for the number of the order before you look
anything up. Where a customer is angry, say what happens next and when. Do not apologise twice. Do not use jokes. Do not
speak about other customers, about other shops, or about how you work. Send nothing that you were not asked for.
"""


def ask(messages, retriever, question):
    found = retriever.get_relevant_documents(question)  # also: CKS05
    system = [{"type": "text", "text": f"{HANDBOOK} {found}", "cache_control": MARK}]  # expect: CKS08
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_by_the_rules(messages, retriever, question):
    found = retriever.get_relevant_documents(question)  # also: CKS05
    text = RULES + str(found)
    system = [{"type": "text", "text": text, "cache_control": MARK}]  # expect: CKS08
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_in_two(messages, retriever, question):
    found = retriever.get_relevant_documents(question)
    messages.append({"role": "user", "content": [{"type": "text", "text": f"{question} {found}"}]})
    system = [{"type": "text", "text": HANDBOOK, "cache_control": MARK}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_with_another_block(messages, retriever, question):
    found = retriever.get_relevant_documents(question)  # also: CKS05
    system = [{"type": "text", "text": HANDBOOK, "cache_control": MARK}, {"type": "text", "text": f"{found}"}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_with_the_users_notes(messages, memory, question):
    notes = memory.search(question)  # also: CKS05
    parts = [HANDBOOK]
    parts.append("What you know of the customer: " + "; ".join(note.text for note in notes))
    block = {"type": "text", "text": "\n".join(parts), "cache_control": MARK}  # expect: CKS08
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=[block], messages=messages)


def ask_with_rules_alone(messages):
    block = {"type": "text", "text": f"{HANDBOOK}\n{RULES}", "cache_control": MARK}
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=[block], messages=messages)
