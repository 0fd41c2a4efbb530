"""Another form on loading, and before the first sending."""

import json
import unicodedata


def load_messages(path):
    messages = json.loads(path.read_text())
    for message in messages:
        message["content"] = unicodedata.normalize("NFC", message["content"])  # expect: CKM29
    return messages


def say(messages, text):
    messages.append({"role": "user", "content": unicodedata.normalize("NFC", text)})


def load_names(path):
    return [unicodedata.normalize("NFC", line) for line in path.read_text().splitlines()]


def load_session(path):
    messages = json.loads(path.read_text())
    index = {unicodedata.normalize("NFKC", message["content"]).casefold(): at for at, message in enumerate(messages)}
    return messages, index


def restore_session(rows):
    return [{"role": row["role"], "content": unicodedata.normalize("NFKC", row["content"])} for row in rows]  # expect: CKM29
