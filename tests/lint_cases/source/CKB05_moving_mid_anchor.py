"""An anchor at a share of the conversation's length."""

MARK = {"type": "ephemeral"}


def mark_middle(messages):
    anchor = len(messages) // 2
    messages[anchor]["content"][-1]["cache_control"] = MARK  # expect: CKB05
    messages[-1]["content"][-1]["cache_control"] = MARK


def mark_most(self, history):
    history[int(len(history) * 0.8)]["content"][0]["cache_control"] = MARK  # expect: CKB05


def mark_ends(messages):
    for index in (0, len(messages) - 1):
        messages[index]["content"][-1]["cache_control"] = MARK


def mark_boundary(messages, boundary):
    messages[boundary]["content"][-1]["cache_control"] = MARK
    messages[len(messages) - 2]["content"][-1]["cache_control"] = MARK


class Anchored:
    def __init__(self):
        self.messages = []

    def mark(self):
        half = round(len(self.messages) / 2)
        self.messages[half]["content"][-1]["cache_control"] = MARK  # expect: CKB05
        return self.messages


def mark_the_first_question(messages):
    first = next((i for i, message in enumerate(messages) if message["role"] == "user"), 0)
    messages[first]["content"][-1]["cache_control"] = MARK
    messages[-1]["content"][-1]["cache_control"] = MARK
