"""Ids and random text in front of the prompt, and beside it."""

import random
import secrets
import uuid
from dataclasses import dataclass, field

import anthropic
import openai

client = anthropic.Anthropic()
CACHED = {"cache_control": {"type": "ephemeral"}}
gpt = openai.AsyncOpenAI()
INSTRUCTIONS = "You answer letters."
PROCESS = uuid.uuid4().hex


def ask(messages):
    request_id = uuid.uuid4().hex  # expect: CKS03
    system = f"[request {request_id}] {INSTRUCTIONS}"
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_with_header(messages):
    request_id = uuid.uuid4().hex
    return client.messages.create(
        model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages, extra_headers={"x-request-id": request_id},
    )


def fenced(text):
    nonce = secrets.token_hex(8)  # expect: CKS03
    return f"<{nonce}>\n{text}\n</{nonce}>"


def ask_with_a_fence(messages):
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=fenced(INSTRUCTIONS), messages=messages, **CACHED)


async def ask_with_a_trace(history):
    first = {"role": "system", "content": "Trace: " + str(uuid.uuid1()) + "\n" + INSTRUCTIONS}  # expect: CKS03
    return await gpt.chat.completions.create(model="gpt-5", messages=[first, *history])


class Desk:
    def __init__(self):
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        request = {"model": "claude-opus-4-5", "max_tokens": 1024, "messages": self.messages}
        request["system"] = [{"type": "text", "text": f"Ticket {uuid.uuid4()}"}, {"type": "text", "text": INSTRUCTIONS}]  # expect: CKS03
        return client.messages.create(**request)


def ask_with_a_note_in_front(messages):
    note = {"role": "user", "content": f"Batch {secrets.token_urlsafe(6)}"}  # expect: CKS03
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=[note, *messages])


class Traced:
    def __init__(self):
        self.messages = []
        self.trace = None

    def ask(self, text):
        self.trace = uuid.uuid4()  # expect: CKS03
        self.messages.append({"role": "user", "content": text})
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=self.system(), messages=self.messages)

    def system(self):
        return "{0} (trace {1})".format(INSTRUCTIONS, self.trace)


@dataclass
class Letter:
    number: str = field(default_factory=lambda: uuid.uuid4().hex)
    messages: list = field(default_factory=list)

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        system = f"{INSTRUCTIONS} This is letter {self.number}."
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=self.messages)


class Numbered:
    def __init__(self):
        self.session_id = str(uuid.uuid4())
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        system = f"{INSTRUCTIONS} Session {self.session_id}."
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=self.messages)


def ask_with_a_stable_name(messages, customer):
    system = f"{INSTRUCTIONS} The customer is {uuid.uuid5(uuid.NAMESPACE_URL, customer.address)}."
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


TIPS = ("Be brief.", "Be kind.", "Be exact.")


def ask_with_a_tip(messages):
    system = f"{random.choice(TIPS)} {INSTRUCTIONS}"  # expect: CKS03
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_with_examples(history, examples):
    shown = "\n".join(random.sample(examples, 3))  # expect: CKS03
    return gpt.responses.create(model="gpt-5", instructions=f"{INSTRUCTIONS}\n{shown}", input=history)


def ask_with_the_process(messages):
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS + PROCESS, messages=messages)


def ask_with_a_tip_at_the_end(messages):
    messages.append({"role": "user", "content": random.choice(TIPS)})
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=INSTRUCTIONS, messages=messages)


def ask_with_a_drawn_model(messages):
    model = random.choice(["claude-opus-4-5", "claude-sonnet-5-5"])
    return client.messages.create(model=model, max_tokens=1024, system=INSTRUCTIONS, messages=messages)
