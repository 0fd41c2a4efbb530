"""Today's date, taken per request and taken once."""

import time
from datetime import date, datetime
from functools import lru_cache

import anthropic
import openai

INSTRUCTIONS = "You plan journeys."
client = anthropic.Anthropic()
gpt = openai.AsyncOpenAI()
TODAY = date.today()
PROMPT = "You plan journeys. Date: %(date)s. Be brief."


class PerRequest:
    def __init__(self):
        self.client = anthropic.Anthropic()

    def ask(self, messages):
        system = f"{INSTRUCTIONS} Today is {date.today().isoformat()}."  # expect: CKS02
        return self.client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


class PerSession:
    def __init__(self):
        self.client = anthropic.Anthropic()
        self.system = f"{INSTRUCTIONS} The session began on {date.today().isoformat()}."

    def ask(self, messages):
        return self.client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=self.system, messages=messages)


def ask_with_a_formatted_day(messages):
    system = PROMPT % {"date": datetime.now().strftime("%A, %d %B %Y")}  # expect: CKS02
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


async def ask_with_a_day_in_the_format(history):
    head = {"role": "developer", "content": f"{INSTRUCTIONS} It is {datetime.now():%Y-%m-%d}."}  # expect: CKS02
    return await gpt.chat.completions.create(model="gpt-5", messages=[head] + history)


def todays_line():
    return time.strftime("Today: %Y-%m-%d")  # expect: CKS02


def ask_with_a_line(messages):
    blocks = [{"type": "text", "text": INSTRUCTIONS}, {"type": "text", "text": todays_line()}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=blocks, messages=messages)


class Planner:
    def __init__(self):
        self.messages = []

    @property
    def instructions(self):
        now = datetime.now()  # expect: CKS02
        return f"{INSTRUCTIONS} The year is {now.year}."

    async def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        return await gpt.responses.create(model="gpt-5", instructions=self.instructions, input=self.messages)


def ask_in_a_loop(messages):
    while True:
        system = INSTRUCTIONS + " " + datetime.today().date().isoformat()  # expect: CKS02
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
        messages.append({"role": "user", "content": input()})


@lru_cache(maxsize=1)
def first_day():
    return date.today().isoformat()


def ask_with_the_first_day(messages):
    system = f"{INSTRUCTIONS} The first day is {first_day()}."
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_with_the_day_of_the_journey(messages, journey):
    system = f"{INSTRUCTIONS} The journey begins on {journey.start.strftime('%Y-%m-%d')}."
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_in_one_conversation(question):
    messages = [{"role": "user", "content": question}]
    system = f"{INSTRUCTIONS} Today is {date.today()}."
    for _ in range(5):
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
    return messages
