"""Blocks put in on loading, and on beginning."""

import json


def list_skills():
    return "skills: " + ", ".join(["a", "b"])


def load(path):
    messages = json.loads(path.read_text())
    messages[0]["content"].insert(0, {"type": "text", "text": list_skills()})  # expect: CKM22
    return messages


def load_as_stored(path):
    messages = json.loads(path.read_text())
    return messages


def begin(task):
    messages = [{"role": "user", "content": [{"type": "text", "text": task}]}]
    messages[0]["content"].insert(0, {"type": "text", "text": list_skills()})
    return messages


def restore_with_environment(path):
    history = json.loads(path.read_text())
    return [environment()] + history  # expect: CKM22


def resume_with_a_system_prompt(path):
    history = json.loads(path.read_text())
    return [{"role": "system", "content": SYSTEM}] + history


def resume_with_context(store, session, collect):
    history = json.loads(store.get(session))
    history[0]["content"] = collect() + history[0]["content"]  # expect: CKM22
    return history


def resume_with_hook(path, run):
    messages = json.loads(path.read_text())
    hook = run("session-start")
    messages[0]["content"].insert(0, {"type": "text", "text": hook})  # expect: CKM22
    return messages


def resume_in_order(path):
    messages = json.loads(path.read_text())
    first = messages.pop()
    messages.insert(0, first)
    return messages


def restore_with_skills(path):
    history = json.loads(path.read_text())
    return [{"role": "user", "content": list_skills()}, *history]  # expect: CKM22


def restore_and_go_on(path, ask):
    history = json.loads(path.read_text())
    return [*history, {"role": "user", "content": ask()}]
