"""A growing conversation that nobody marks."""

from pathlib import Path

import anthropic

client = anthropic.Anthropic()
MODEL = "claude-sonnet-5-5"
SYSTEM = Path("system.md").read_text()


def chat(messages, question):
    messages.append({"role": "user", "content": question})
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=4096, system=SYSTEM, messages=messages)  # expect: CKB01


def agent(task):
    messages = [{"role": "user", "content": task}]
    while True:
        with client.messages.stream(model=MODEL, max_tokens=4096, system=SYSTEM, messages=messages) as stream:  # expect: CKB01
            reply = stream.get_final_message()
        messages.append({"role": "assistant", "content": reply.content})


def ask_bedrock(bedrock, messages):
    return bedrock.converse(modelId="anthropic.claude-sonnet-5-5", system=[{"text": SYSTEM}], messages=messages)  # expect: CKB01


def ask_another_on_bedrock(bedrock, messages):
    return bedrock.converse(modelId="meta.llama4-maverick", system=[{"text": SYSTEM}], messages=messages)


def ask_once(question):
    return client.messages.create(
        model="claude-sonnet-5-5", max_tokens=300, system=SYSTEM, messages=[{"role": "user", "content": question}]
    )


def run_with(messages, **options):
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=300, messages=messages, **options)


def send_text(twilio, messages):
    return [twilio.messages.create(body=one, to="+49") for one in messages]


def step_with_a_dict(messages, tools):
    request = {"model": "claude-opus-4-5", "max_tokens": 1024, "messages": messages}
    if tools:
        request["tools"] = tools
    return client.messages.create(**request)  # expect: CKB01


def step_with_more(messages, more):
    request = {"model": "claude-opus-4-5", "max_tokens": 1024, "messages": messages}
    request.update(more)
    return client.messages.create(**request)


def step_or_again(messages):
    try:
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)  # expect: CKB01
    except anthropic.APIConnectionError:
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=messages)


def step_by_provider(question, messages, is_known):
    if is_known:
        given = with_cache_control(messages)
    else:
        given = [{"role": "user", "content": question}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, messages=given)


class Agent:
    def __init__(self):
        self.client = anthropic.AsyncAnthropic()
        self.history = []

    async def turn(self, text):
        self.history.append({"role": "user", "content": text})
        params = self.parameters()
        return await self.client.messages.create(**params)  # expect: CKB01

    def parameters(self):
        sent = self.history
        return {"model": MODEL, "max_tokens": 1024, "messages": sent}
