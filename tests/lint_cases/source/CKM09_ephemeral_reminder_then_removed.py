"""A reminder in a copy that is sent, and one that stays."""

import copy

import anthropic

client = anthropic.Anthropic()


def turn(messages, reminder):
    outgoing = copy.deepcopy(messages)
    outgoing[-1]["content"].append({"type": "text", "text": f"<system-reminder>{reminder}</system-reminder>"})  # expect: CKM09
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=outgoing)


def turn_item_by_item(messages, reminder):
    outgoing = [dict(message) for message in messages]
    outgoing[-1]["content"] += reminder  # expect: CKM09
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=outgoing)


def turn_kept(messages, reminder):
    messages[-1]["content"].append({"type": "text", "text": f"<system-reminder>{reminder}</system-reminder>"})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


def logged(messages):
    shown = copy.deepcopy(messages)
    shown[-1]["content"] = "…"
    print(shown)
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


def turn_moved(messages, reminder):
    messages = [message for message in messages if message["content"] != reminder]  # expect: CKM09
    messages.append({"role": "user", "content": reminder})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


def turn_without_empty_ones(messages, text):
    messages = [message for message in messages if message["content"]]
    messages.append({"role": "user", "content": text})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


def turn_without_another(messages, draft, text):
    messages = [message for message in messages if message["content"] != draft]
    messages.append({"role": "user", "content": text})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


def without_errors(messages, text):
    messages = [message for message in messages if not message.get("is_error")]
    messages.append({"role": "user", "content": text, "is_error": False})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


class Chat:
    def __init__(self):
        self.messages = []

    def turn_in_a_copy_that_is_kept(self, reminder):
        outgoing = copy.deepcopy(self.messages)
        outgoing[-1]["content"] += reminder
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=outgoing)
        outgoing.append({"role": "assistant", "content": reply.content})
        self.messages = outgoing
        return reply

    def turn_in_a_copy_that_is_dropped(self, reminder):
        outgoing = [*self.messages]
        outgoing[-1] = {"role": "user", "content": f"{reminder} {outgoing[-1]['content']}"}  # expect: CKM09
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=outgoing)
        self.messages.append({"role": "assistant", "content": reply.content})
        return reply

    def turn_with_a_marker(self):
        outgoing = self.messages[:]
        outgoing[-1] = {**outgoing[-1], "cache_control": {"type": "ephemeral"}}
        return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=outgoing)


def answer(history, question, notes):
    sent = history[:-1] + [{"role": "user", "content": f"{notes}\n\n{question}"}]  # expect: CKM09
    reply = client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=sent)
    history.append({"role": "assistant", "content": reply.content})
    return reply


def answer_and_keep(history, question, notes):
    sent = history[:-1] + [{"role": "user", "content": f"{notes}\n\n{question}"}]
    reply = client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=sent)
    history[-1] = sent[-1]
    history.append({"role": "assistant", "content": reply.content})
    return reply


def answer_once(history, question, notes):
    sent = history[:-1] + [{"role": "user", "content": f"{notes}\n\n{question}"}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=sent)


def turn_in_a_list_of_the_same_messages(messages, reminder):
    outgoing = list(messages)
    outgoing[-1]["content"].append({"type": "text", "text": reminder})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=outgoing)


def turn_with_one_taken_out_and_put_behind(messages):
    if REMINDER in messages:
        messages.remove(REMINDER)  # expect: CKM09
    messages.append(REMINDER)
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


def turn_with_one_taken_out(messages, refused, text):
    if refused in messages:
        messages.remove(refused)
    messages.append({"role": "user", "content": text})
    return client.messages.create(model="claude-opus-4-5", max_tokens=4096, messages=messages)


REMINDER = {"role": "user", "content": "Keep answers short."}
