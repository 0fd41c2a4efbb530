"""Trimmed to the cap, and to a low mark."""

CAP, HIGH, LOW = 100_000, 100_000, 50_000


def n_tokens(messages):
    return sum(len(message["content"]) for message in messages) // 4


def fit(messages):
    while n_tokens(messages) > CAP:  # expect: CKM05
        messages.pop(0)


def fit_with_slack(messages):
    if n_tokens(messages) > HIGH:
        while n_tokens(messages) > LOW:
            messages.pop(0)


def work(queue):
    while len(queue) > 0:
        queue.pop(0)()
