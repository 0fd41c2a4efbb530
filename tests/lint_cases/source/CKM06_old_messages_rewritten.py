"""Older messages rewritten before each request, and messages rewritten once or for somebody else."""

import copy
import json

import openai

gpt = openai.OpenAI()
CLEARED = "[cleared]"
CAP = 100_000


def prune(messages):
    for message in messages[:-6]:
        for block in message["content"]:
            if block["type"] == "tool_result":
                block["content"] = "[cleared]"  # expect: CKM06


def prune_in_words(messages):
    for message in messages[:-6]:
        if message["role"] == "tool":
            message["content"] = "[Old tool result content cleared]"  # expect: CKM06


def prune_to_nothing(messages):
    for message in messages[:-6]:
        message["content"] = ""  # expect: CKM06


class Pruning:
    def __init__(self):
        self.messages = []

    def prune(self):
        for message in self.messages[:-4]:
            if message["role"] == "tool":
                message["content"] = CLEARED  # expect: CKM06

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        self.prune()
        return gpt.chat.completions.create(model="gpt-5", messages=self.messages)


def sent_and_written_to_a_trace(messages, path):
    sent = copy.deepcopy(messages)
    for message in sent[:-4]:
        for block in message["content"]:
            block["content"] = "[omitted]"  # expect: CKM06
    path.write_text(json.dumps(sent))
    return gpt.chat.completions.create(model="gpt-5", messages=sent)


def prune_above_a_size(messages):
    if sum(len(message["content"]) for message in messages) > CAP:
        for message in messages[:-6]:
            message["content"] = CLEARED


def prune_from_the_beginning(messages):
    return [{**m, "content": "[Old tool output removed]"} if m["role"] == "tool" else m for m in messages]


def ingest(messages, call, output):
    text = output if len(output) < 10_000 else "[output omitted: too long]"
    messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


def filled(messages):
    for message in messages:
        if message["content"] is None:
            message["content"] = ""
    return messages


def stripped(messages):
    for message in messages[:-1]:
        message["content"] = message["content"].strip()
    return messages


def written_to_a_trace(messages, path):
    shown = copy.deepcopy(messages)
    for message in shown[:-4]:
        for block in message["content"]:
            block["content"] = "[omitted]"
    path.write_text(json.dumps(shown))


def ask_with_short_results(history):
    sent = [{**message, "content": message["content"][:2000]} if message["role"] == "tool" else message for message in history]
    return gpt.chat.completions.create(model="gpt-5", messages=sent)


def compact(messages):
    for message in messages[:-6]:
        message["content"] = CLEARED
    return messages


def prune_by_a_variable(messages):
    older = messages[:-6]
    for one in older:
        one["content"] = CLEARED  # expect: CKM06
