"""Ids made up on replay, and where a call is made."""

import hashlib
import uuid

import anthropic
import boto3
import openai

client = openai.OpenAI()
claude = anthropic.Anthropic()
bedrock = boto3.client("bedrock-runtime")


def ask(history):
    messages = []
    for turn in history:
        messages.extend(to_wire(turn))
    return client.chat.completions.create(model="gpt-5", messages=messages)


def to_wire(turn):
    call_id = f"call_{uuid.uuid4().hex[:12]}"  # expect: CKM13
    return [
        {"role": "assistant", "tool_calls": [{"id": call_id, "type": "function", "function": turn.call}]},
        {"role": "tool", "tool_call_id": call_id, "content": turn.result},
    ]


def convert_dict_to_message(answer):
    calls = [{"id": str(uuid.uuid4()), "type": "function", "function": answer["function_call"]}]
    return {"role": "assistant", "tool_calls": calls, "finish_reason": answer["finish_reason"]}


def take_in(messages, text):
    call = {"id": f"call_{uuid.uuid4().hex[:12]}", "type": "function", "function": {"name": text, "arguments": "{}"}}
    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    return client.chat.completions.create(model="gpt-5", messages=messages)


def format_tool_message(call, tool_call_id=None):
    if tool_call_id is None:
        tool_call_id = str(uuid.uuid4())
    return {"role": "tool", "tool_call_id": tool_call_id, "content": call.result}


class Documents:
    def __init__(self):
        self.turns = []

    def ask(self, text):
        self.turns.append((text, []))
        messages = [{"role": "user", "content": [self.block(file) for file in files] + [{"text": text}]} for text, files in self.turns]
        return bedrock.converse(modelId="anthropic.claude-sonnet-4-5", messages=messages)

    def block(self, file):
        return {"document": {"name": uuid.uuid4().hex[:12], "format": "pdf", "source": {"bytes": file.data}}}  # expect: CKM13


class DocumentsByTheirBytes:
    def __init__(self):
        self.turns = []

    def ask(self, text):
        self.turns.append((text, []))
        messages = [{"role": "user", "content": [self.block(file) for file in files] + [{"text": text}]} for text, files in self.turns]
        return bedrock.converse(modelId="anthropic.claude-sonnet-4-5", messages=messages)

    def block(self, file):
        name = hashlib.sha256(file.data).hexdigest()[:12]
        return {"document": {"name": name, "format": "pdf", "source": {"bytes": file.data}}}


def ask_where_an_id_is_missing(messages):
    sent = [{"role": one.role, "content": one.text, "id": one.call_id or str(uuid.uuid4())} for one in messages]
    return client.chat.completions.create(model="gpt-5", messages=sent)


def attach(history, data):
    known = [message["id"] for message in history]
    document = {"document": {"name": uuid.uuid4().hex, "format": "pdf", "source": {"bytes": data}}}
    history.append({"role": "user", "content": [document], "after": known})


async def ask_claude(turns):
    return await claude.messages.create(
        model="claude-opus-4-5",
        max_tokens=1024,
        messages=[
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": str(uuid.uuid4()), "content": turn.text}]}  # expect: CKM13
            for turn in turns.messages
        ],
    )
