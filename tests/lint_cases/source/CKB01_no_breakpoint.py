"""Conversations that grow and mark nothing, and requests for which it makes no difference."""

from pathlib import Path

import anthropic
import boto3
import openai

client = anthropic.Anthropic()
bedrock = boto3.client("bedrock-runtime")
gpt = openai.OpenAI()
MODEL = "claude-sonnet-5-5"
SYSTEM = Path("system.md").read_text()
TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]


def chat(task):
    messages = [{"role": "user", "content": task}]
    for _ in range(20):
        reply = client.messages.create(model="claude-sonnet-5-5", max_tokens=4096, system=SYSTEM, messages=messages)  # expect: CKB01
        messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": input()}]


def run(task):
    messages = [{"role": "user", "content": task}]
    while True:
        with client.messages.stream(model=MODEL, max_tokens=4096, system=SYSTEM, messages=messages) as stream:  # expect: CKB01
            reply = stream.get_final_message()
        messages.append({"role": "assistant", "content": reply.content})


def step(messages):
    return client.messages.create(model=MODEL, max_tokens=1024, tools=TOOLS, messages=messages)  # expect: CKB01


def step_with_a_dict(messages, tools):
    request = {"model": "claude-opus-4-5", "max_tokens": 1024, "messages": messages}
    if tools:
        request["tools"] = tools
    return client.messages.create(**request)  # expect: CKB01


def steps(messages):
    return step_with_a_dict(messages, tools=TOOLS)


def run_on_bedrock(task):
    messages = [{"role": "user", "content": [{"text": task}]}]
    while True:
        reply = bedrock.converse(modelId="anthropic.claude-sonnet-5-5", system=[{"text": SYSTEM}], messages=messages)  # expect: CKB01
        messages.append(reply["output"]["message"])


class Agent:
    def __init__(self):
        self.client = anthropic.AsyncAnthropic()
        self.history = []

    async def ask(self, text):
        self.history.append({"role": "user", "content": text})
        params = self.parameters()
        return await self.client.messages.create(**params)  # expect: CKB01

    def parameters(self):
        sent = self.history
        return {"model": MODEL, "max_tokens": 1024, "messages": sent}


class TwoRequests:
    def __init__(self):
        self.history = []

    def plan(self, text):
        self.history.append({"role": "user", "content": text})
        return client.messages.create(model=MODEL, max_tokens=1024, system=SYSTEM, messages=self.history)  # expect: CKB01

    def act(self, text):
        self.history.append({"role": "user", "content": text})
        return client.messages.create(model=MODEL, max_tokens=1024, tools=TOOLS, messages=self.history)  # expect: CKB01


def ask_once(question):
    asked = [{"role": "user", "content": question}]
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=300, system=SYSTEM, messages=asked)


def ask_each(questions):
    for question in questions:
        asked = [{"role": "user", "content": question}]
        yield client.messages.create(model="claude-sonnet-5-5", max_tokens=300, system=SYSTEM, messages=asked)


def ask_again(question):
    asked = [{"role": "user", "content": question}]
    for _ in range(3):
        reply = client.messages.create(model="claude-sonnet-5-5", max_tokens=300, system=SYSTEM, messages=asked)
        if reply.stop_reason == "end_turn":
            return reply
    return None


def run_with_openai(task):
    messages = [{"role": "user", "content": task}]
    while True:
        reply = gpt.chat.completions.create(model="gpt-5", messages=messages)
        messages.append(reply.choices[0].message)



def summarize(messages):
    asked = [*messages, {"role": "user", "content": "Summarize the conversation."}]
    return client.messages.create(model="claude-haiku-4-5", max_tokens=1024, tools=TOOLS, messages=asked)


def run_with(messages):
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=300, messages=messages)


def send_texts(twilio, messages):
    return [twilio.messages.create(body=one, to="+49") for one in messages]


def run_given(messages):
    while True:
        reply = client.messages.create(model="claude-sonnet-5-5", max_tokens=4096, messages=messages)  # expect: CKB01
        messages.append({"role": "assistant", "content": reply.content})


def send(messages):
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=4096, messages=messages)  # expect: CKB01


def run_by_calls(task):
    messages = [{"role": "user", "content": task}]
    while True:
        reply = send(messages)
        messages.append({"role": "assistant", "content": reply.content})
