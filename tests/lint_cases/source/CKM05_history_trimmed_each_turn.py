"""Trimmed to the cap, and to a low mark."""

CAP, HIGH, LOW = 100_000, 100_000, 50_000


def n_tokens(messages):
    return sum(len(message["content"]) for message in messages) // 4


def fit(messages):
    while n_tokens(messages) > CAP:
        messages.pop(0)  # expect: CKM05


def fit_with_slack(messages):
    if n_tokens(messages) > HIGH:
        while n_tokens(messages) > LOW:
            messages.pop(0)


def work(queue):
    while len(queue) > 0:
        queue.pop(0)()


def fit_in_slices(messages):
    system, rest = messages[0], messages[1:]
    while rest and n_tokens([system, *rest]) > CAP:
        rest = rest[2:]  # expect: CKM05
    return [system, *rest]


def from_the_first_question(messages):
    while messages and messages[0]["role"] != "user":
        messages = messages[1:]
    return messages


def fit_from_the_newest(messages):
    kept, used = [], 0
    for message in reversed(messages):
        used += len(message["content"]) // 4
        if used > CAP:
            break
        kept.insert(0, message)  # expect: CKM05
    return kept


def what_was_asked_last(messages):
    asked, n = [], 0
    for message in reversed(messages):
        n += 1
        if message["role"] == "assistant":
            break
        asked.append(message)
    return asked


def split_at_the_newest(messages):
    kept, used = [], 0
    for message in reversed(messages):
        used += len(message["content"]) // 4
        if used > CAP:
            break
        kept.append(message)
    return messages[: -len(kept)], kept[::-1]


def end_of_texts(messages: list[str]):
    kept, used = [], 0
    for message in reversed(messages):
        used += len(message)
        if used > CAP:
            break
        kept.insert(0, message)
    return kept


def drop_what_is_too_old(history, now):
    while history and now - history[0]["at"] >= CAP:
        history.pop(0)
    return history


class Budgeted:
    def __init__(self, client, counter):
        self.client, self.counter = client, counter
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        while self.counter.count(self.messages) > self.counter.max_tokens and len(self.messages) > 1:
            del self.messages[0]  # expect: CKM05
        return self.client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=self.messages)


SYSTEM = {"role": "system", "content": "Be brief."}
