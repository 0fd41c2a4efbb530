"""A breakpoint behind the question of a request, and breakpoints behind what stays."""

from pathlib import Path

import anthropic

client = anthropic.Anthropic()
EPHEMERAL = {"type": "ephemeral"}
INSTRUCTIONS = Path("instructions.md").read_text()
DOCUMENT = Path("document.md").read_text()
ASKED = {"model": "claude-sonnet-5-5", "max_tokens": 1000}


def ask(question):
    content = [{"type": "text", "text": question, "cache_control": EPHEMERAL}]  # expect: CKB02
    return client.messages.create(system=INSTRUCTIONS, messages=[{"role": "user", "content": content}], **ASKED)


def ask_in_the_system_text(question):
    system = [{"type": "text", "text": f"{INSTRUCTIONS} It is about {question}.", "cache_control": EPHEMERAL}]  # expect: CKB02
    return client.messages.create(system=system, messages=[{"role": "user", "content": "Answer."}], **ASKED)


def blocks_for(query):
    text = f"<document>{DOCUMENT}</document>\n{query}"
    return [{"type": "text", "text": text, "cache_control": EPHEMERAL}]  # expect: CKB02


def ask_with_blocks(query):
    return client.messages.create(messages=[{"role": "user", "content": blocks_for(query)}], **ASKED)


class Desk:
    def ask(self, user_input):
        messages = [{"role": "user", "content": "Answer in one sentence."}]
        system = [
            {"type": "text", "text": INSTRUCTIONS},
            {"type": "text", "text": "The user asks: " + user_input, "cache_control": EPHEMERAL},  # expect: CKB02
        ]
        return client.messages.create(system=system, messages=messages, **ASKED)


def answer(user_question):
    prompt = "\n\n".join([DOCUMENT, user_question])
    block = {"type": "text", "text": prompt, "cache_control": EPHEMERAL}  # expect: CKB02
    return client.messages.create(messages=[{"role": "user", "content": [block]}], **ASKED)


def ask_on_bedrock(bedrock, question):
    messages = [{"role": "user", "content": [{"text": "Answer."}]}]
    system = [{"text": INSTRUCTIONS + question, "cachePoint": {"type": "default"}}]  # expect: CKB02
    return bedrock.converse(modelId="anthropic.claude-sonnet-5-5", system=system, messages=messages)


def ask_behind_the_document(question):
    content = [{"type": "text", "text": DOCUMENT, "cache_control": EPHEMERAL}, {"type": "text", "text": question}]
    return client.messages.create(system=INSTRUCTIONS, messages=[{"role": "user", "content": content}], **ASKED)


def ask_in_a_conversation(messages, question):
    block = {"type": "text", "text": question, "cache_control": EPHEMERAL}
    messages.append({"role": "user", "content": [block]})
    return client.messages.create(system=INSTRUCTIONS, messages=messages, **ASKED)


def ask_behind_the_system_text(question):
    system = [{"type": "text", "text": INSTRUCTIONS, "cache_control": EPHEMERAL}]
    return client.messages.create(system=system, messages=[{"role": "user", "content": question}], **ASKED)


def ask_and_mark_the_request(messages, question):
    messages.append({"role": "user", "content": question})
    return client.messages.create(system=INSTRUCTIONS, messages=messages, cache_control=EPHEMERAL, **ASKED)


def ask_by_language(messages, language):
    system = [{"type": "text", "text": f"{INSTRUCTIONS} Answer in {language}.", "cache_control": EPHEMERAL}]
    return client.messages.create(system=system, messages=messages, **ASKED)


class Reader:
    def __init__(self, document):
        self.document = document

    def ask(self, question):
        block = {"type": "text", "text": self.document, "cache_control": EPHEMERAL}
        content = [block, {"type": "text", "text": question}]
        return client.messages.create(messages=[{"role": "user", "content": content}], **ASKED)


def ask_in_front_of_a_conversation(messages, question):
    system = [{"type": "text", "text": question, "cache_control": EPHEMERAL}]  # expect: CKB02
    return client.messages.create(system=system, messages=messages, **ASKED)
