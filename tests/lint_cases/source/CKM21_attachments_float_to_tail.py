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


def with_files(messages, files):
    bare = [{**m, "content": [b for b in m["content"] if b["type"] != "document"]} for m in messages]
    bare[-1]["content"] += [document(file) for file in files]  # expect: CKM21
    return bare


def float_images(history):
    images = []
    for m in history:
        images += [p for p in m["content"] if p["type"] == "image_url"]
        m["content"] = [p for p in m["content"] if p["type"] != "image_url"]  # also: CKM18
    history[-1]["content"] = history[-1]["content"] + images  # expect: CKM21
    return history


def with_note(messages, note):
    bare = [{**m, "content": [b for b in m["content"] if b["type"] != "thinking"]} for m in messages]  # also: CKM01
    bare[-1]["content"] += [{"type": "text", "text": note}]  # also: CKM09
    return bare


def say(messages, files, question):
    messages.append({"role": "user", "content": [{"type": "text", "text": question}]})
    messages[-1]["content"] += [document(file) for file in files]
