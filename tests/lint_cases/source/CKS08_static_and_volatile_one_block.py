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
