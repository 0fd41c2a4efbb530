"""A marker for every part."""

MARK = {"type": "ephemeral"}


def mark_parts(system, memory, attachments):
    for block in [*system, *memory, *attachments]:
        block["cache_control"] = MARK  # expect: CKB08


def document_blocks(documents):
    return [{"type": "document", "source": document, "cache_control": MARK} for document in documents]  # expect: CKB08


def ask(client, a, b, c, d, e):
    return client.messages.create(  # expect: CKB08
        model="claude-sonnet-5-5",
        max_tokens=900,
        system=[
            {"type": "text", "text": a, "cache_control": MARK},
            {"type": "text", "text": b, "cache_control": MARK},
            {"type": "text", "text": c, "cache_control": MARK},
        ],
        messages=[
            {"role": "user", "content": [
                {"type": "text", "text": d, "cache_control": MARK},
                {"type": "text", "text": e, "cache_control": MARK},
            ]},
        ],
    )


def mark_chosen(blocks):
    for block in blocks:
        if block.get("is_boundary"):
            block["cache_control"] = MARK


def mark_newest(messages):
    users = [message for message in messages if message["role"] == "user"]
    for message in users[-2:]:
        message["content"][-1]["cache_control"] = MARK


def unmark(blocks):
    for block in blocks:
        block.pop("cache_control", None)


def mark_each_message(messages):
    for message in messages:
        message["content"][-1]["cache_control"] = MARK  # expect: CKB08


def blocks_of_five(a, b, c, d, e):
    return [{"type": "text", "text": part, "cache_control": MARK} for part in (a, b, c, d, e)]  # expect: CKB08


def blocks_of_two(a, b):
    return [{"type": "text", "text": part, "cache_control": MARK} for part in (a, b)]


def mark_another(messages, seen):
    for message in messages:
        seen[message["id"]]["cache_control"] = MARK


def parts_of(docs, question):
    content = []
    for text in docs:
        content.append({"type": "text", "text": text, "cache_control": MARK})  # expect: CKB08
    return [*content, {"type": "text", "text": question}]


def parts_marked_once(docs, question):
    content = []
    for text in docs:
        content.append({"type": "text", "text": text})
    content.append({"type": "text", "text": question, "cache_control": MARK})
    return content


def ask_automatically(client, a, b, c, d, messages):
    system = [
        {"type": "text", "text": a, "cache_control": MARK},
        {"type": "text", "text": b, "cache_control": MARK},
        {"type": "text", "text": c, "cache_control": MARK},
        {"type": "text", "text": d, "cache_control": MARK},
    ]
    client.messages.create(model="claude-sonnet-5-5", max_tokens=900, system=system, messages=messages)
    return client.messages.create(  # expect: CKB08
        model="claude-sonnet-5-5", max_tokens=900, cache_control=MARK, system=system, messages=messages
    )
