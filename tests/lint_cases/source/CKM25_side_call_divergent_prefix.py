"""A summary of the retold transcript, and one that goes on from the session."""

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
