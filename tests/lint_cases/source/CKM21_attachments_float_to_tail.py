"""Attachments added to whatever is newest, and to what they came with."""


def as_block(file):
    return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": file}}


class Session:
    def prepare(self, messages):
        messages[-1]["content"] += [as_block(file) for file in self.attachments]  # expect: CKM21
        return messages


class Once:
    def say(self, messages, text, files):
        messages.append({"role": "user", "content": [*[as_block(file) for file in files], {"type": "text", "text": text}]})
        return messages

    def note(self, messages, text):
        messages[-1]["content"] += [{"type": "text", "text": text}]
