"""Blocks that are rebuilt from the fields somebody thought of."""

MARK = {"type": "ephemeral"}


def to_wire(block):
    return {"type": block["type"], "text": block["text"]}  # expect: CKB10


def clean(content):
    return [{"type": part["type"], "text": part.get("text")} for part in content]  # expect: CKB10


def copied(block):
    return {**block, "type": block["type"], "text": block["text"]}


def converted(part):
    return {"type": "text", "text": part["text"]}


def kept(block):
    wire = {"type": block["type"], "text": block["text"]}
    if "cache_control" in block:
        wire["cache_control"] = block["cache_control"]
    return wire


def mark(blocks):
    blocks[-1]["cache_control"] = MARK
