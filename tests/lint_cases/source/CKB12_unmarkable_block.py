"""Markers on what cannot carry one."""

MARK = {"type": "ephemeral"}


def reply(answer):
    return {"role": "assistant", "content": [{"type": "text", "text": answer or "", "cache_control": MARK}]}  # expect: CKB12


def thought(text, signature):
    return {"type": "thinking", "thinking": text, "signature": signature, "cache_control": MARK}  # expect: CKB12


def placeholder():
    return {"type": "text", "text": "", "cache_control": MARK}  # expect: CKB12


def checked(answer):
    return {"role": "assistant", "content": [{"type": "text", "text": answer or "(nothing)", "cache_control": MARK}]}


def unmarked(answer):
    return {"type": "text", "text": answer or ""}


def marked_thought(blocks):
    last = {"type": "redacted_thinking", "data": blocks[-1].data, "cache_control": MARK}  # expect: CKB12
    return [*blocks[:-1], last]


def text_behind_a_thought(text, signature, answer):
    thought = {"type": "thinking", "thinking": text, "signature": signature}
    return [thought, {"type": "text", "text": answer, "cache_control": MARK}]
