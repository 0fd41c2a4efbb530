"""Trimmed to a cap, kept from the newest or sorted by a score, and trimmed with slack."""

import openai

gpt = openai.OpenAI()
CAP, HIGH, LOW = 100_000, 100_000, 50_000


def n_tokens(messages):
    return sum(len(message["content"]) for message in messages) // 4


def fit(messages):
    while n_tokens(messages) > CAP:
        messages.pop(0)  # expect: CKM05


def fit_in_slices(messages):
    system, rest = messages[0], messages[1:]
    while rest and n_tokens([system, *rest]) > CAP:
        rest = rest[2:]  # expect: CKM05
    return [system, *rest]


def fit_from_the_newest(messages):
    kept, used = [], 0
    for message in reversed(messages):
        used += len(message["content"]) // 4
        if used > CAP:
            break
        kept.insert(0, message)  # expect: CKM05
    return kept


def fit_and_reverse(messages):
    kept, used = [], 0
    for message in reversed(messages):
        used += len(message["content"]) // 4
        if used > CAP:
            break
        kept.append(message)  # expect: CKM05
    kept.reverse()
    return kept


class Budgeted:
    def __init__(self, counter):
        self.counter = counter
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        while self.counter.count(self.messages) > self.counter.max_tokens and len(self.messages) > 1:
            del self.messages[0]  # expect: CKM05
        return gpt.chat.completions.create(model="gpt-5", messages=self.messages)


def ask_by_relevance(history, question):
    chosen = sorted(history, key=lambda message: message["score"], reverse=True)  # expect: CKM05
    return gpt.chat.completions.create(model="gpt-5", messages=chosen)


def fit_by_a_count(messages):
    total = n_tokens(messages)
    while total > CAP and len(messages) > 2:
        total -= len(messages.pop(1)["content"]) // 4  # expect: CKM05
    return messages


def fit_with_slack(messages):
    if n_tokens(messages) > HIGH:
        while n_tokens(messages) > LOW:
            messages.pop(0)


def fit_to_half(messages):
    while n_tokens(messages) > CAP * 0.5:
        messages.pop(0)


def work(queue):
    while len(queue) > 0:
        queue.pop(0)()


def from_the_first_question(messages):
    while messages and messages[0]["role"] != "user":
        messages = messages[1:]
    return messages


def what_was_asked_last(messages):
    asked, n = [], 0
    for message in reversed(messages):
        n += 1
        if message["role"] == "assistant":
            break
        asked.append(message)
    return asked



def drop_what_is_too_old(history, now):
    while history and now - history[0]["at"] >= CAP:
        history.pop(0)
    return history


def ask_in_order(history):
    ordered = sorted(history, key=lambda message: message["created_at"])
    return gpt.chat.completions.create(model="gpt-5", messages=ordered)


def summarize(messages):
    while n_tokens(messages) > CAP:
        messages.pop(0)
    return gpt.chat.completions.create(model="gpt-5", messages=[*messages, {"role": "user", "content": "Summarize."}])


def fit_and_keep_what_is_taken(messages, limit):
    total = sum(len(one["content"]) for one in messages)
    while total > limit:
        taken = messages.pop(0)  # expect: CKM05
        total -= len(taken["content"])
    return messages


class Inbox:
    def drain(self):
        while len(self.messages) > 0:
            self.handle(self.messages.pop(0))


def shorten(messages: str):
    while len(messages) > 9:
        messages = messages[1:]
    return messages
