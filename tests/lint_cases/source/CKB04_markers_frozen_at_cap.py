"""Markers that are only ever added."""

MARK = {"type": "ephemeral"}
MAX_BREAKPOINTS = 4


def mark_newest(messages):
    if count_markers(messages) < 4:  # expect: CKB04
        messages[-1]["content"][-1]["cache_control"] = MARK


class Marker:
    def mark(self, block):
        if self.used < MAX_BREAKPOINTS:  # expect: CKB04
            block["cache_control"] = MARK
            self.used += 1


def mark_sliding(messages):
    for message in messages:
        message["content"][-1].pop("cache_control", None)
    if count_markers(messages) < 4:
        messages[-1]["content"][-1]["cache_control"] = MARK


def mark_tail(messages):
    if len(messages) > 4:
        messages[-3]["content"][-1]["cache_control"] = MARK
    messages[-1]["content"][-1]["cache_control"] = MARK


def count_markers(messages):
    return sum("cache_control" in block for message in messages for block in message["content"])


def mark_where_there_is_room(request):
    used = sum("cache_control" in block for message in request["messages"] for block in message["content"])
    if used < MAX_BREAKPOINTS:  # expect: CKB04
        request["messages"][-1]["content"][-1]["cache_control"] = MARK
    return request
