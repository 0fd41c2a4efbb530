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
