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
