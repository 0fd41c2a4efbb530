"""A summary of the retold transcript, and one that goes on from the session."""

import json

import anthropic

client = anthropic.Anthropic()
SYSTEM = "You write code."


def summarise(messages):
    transcript = "\n".join(f"{m['role']}: {m['content']}" for m in messages)
    return client.messages.create(  # expect: CKM25
        model="claude-opus-4-5", max_tokens=2000, system="You summarise conversations.",
        messages=[{"role": "user", "content": transcript}],
    )


def summarise_from_the_prefix(messages):
    asked = [*messages, {"role": "user", "content": "Summarise what was done."}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=2000, system=SYSTEM, messages=asked)


def export(messages):
    return "\n".join(f"{m['role']}: {m['content']}" for m in messages)


def compact_as_json(history):
    text = json.dumps(history)
    return client.messages.create(  # expect: CKM25
        model="claude-opus-4-5", max_tokens=900, system="You condense conversations.", messages=[{"role": "user", "content": text}]
    )


def title(messages):
    text = ""
    for message in messages:
        text += f"{message['role']}: {message['content']} "
    return client.messages.create(  # expect: CKM25
        model="claude-opus-4-5", max_tokens=90, system="You name conversations.", messages=[{"role": "user", "content": text}]
    )


def summarise_behind(messages, log):
    log.info("%d bytes", len(json.dumps(messages)))
    ask = {"role": "user", "content": "Summarise our work so far."}
    return client.messages.create(model="claude-opus-4-5", max_tokens=900, system=SYSTEM, messages=[*messages, ask])


def summarise_document(document, messages):
    text = json.dumps(document)
    messages.append({"role": "user", "content": text})
    return client.messages.create(
        model="claude-opus-4-5", max_tokens=900, system="You condense documents.", messages=[{"role": "user", "content": text}]
    )
