"""The time of day in the system prompt, and where it does no harm."""

import time
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from functools import partial
from string import Template

import anthropic
import jinja2
import openai

client = anthropic.Anthropic()
CACHED = {"cache_control": {"type": "ephemeral"}}
async_client = anthropic.AsyncAnthropic()
gpt = openai.OpenAI()
HANDBOOK = "Answer in one sentence."
STARTED = datetime.now().isoformat()
GREETING = Template("You are $name. The clock says $now.")
PAGE = jinja2.Environment().from_string("You are an assistant. It is {{ now }}.")


def system_text():
    return f"You are a support agent. The time is {datetime.now():%H:%M:%S}. {HANDBOOK}"  # expect: CKS01


def ask(messages):
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system_text(), messages=messages, **CACHED)


def ask_in_the_tail(messages, question):
    messages.append({"role": "user", "content": f"[{datetime.now():%H:%M}] {question}"})
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=HANDBOOK, messages=messages)


def timed(messages):
    began = datetime.now()
    reply = client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=f"{HANDBOOK} Began {STARTED}.", messages=messages)
    return reply, datetime.now() - began


def ask_with_a_rounded_clock(messages):
    stamp = round(time.time())  # expect: CKS01
    system = "%s Unix time: %d." % (HANDBOOK, stamp)
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


class Elapsed:
    def __init__(self):
        self.began = time.monotonic()
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        minutes = int((time.monotonic() - self.began) / 60)  # expect: CKS01
        system = {"role": "system", "content": HANDBOOK + f" The session is {minutes} minutes old."}
        return gpt.chat.completions.create(model="gpt-5", messages=[system, *self.messages])


def ask_with_a_template(history, name):
    system = GREETING.substitute(name=name, now=datetime.now(timezone.utc).isoformat(timespec="minutes"))  # expect: CKS01
    return gpt.responses.create(model="gpt-5", instructions=system, input=history)


def ask_with_a_page(messages):
    system = PAGE.render(now=datetime.now())  # expect: CKS01
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


class Prompts:
    def __init__(self, base):
        self.base = base

    def compose(self):
        parts = [self.base]
        parts.append("Current time: {}".format(time.strftime("%H:%M")))  # expect: CKS01
        return "\n".join(parts)


class Assistant:
    def __init__(self):
        self.prompts = Prompts(HANDBOOK)
        self.messages = []

    async def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        params = {"model": "claude-opus-4-5", "max_tokens": 1024, "system": self.prompts.compose()}
        return await async_client.messages.create(**params, messages=self.messages)


@dataclass
class Session:
    client: openai.OpenAI
    started: str = field(default_factory=lambda: datetime.now().isoformat())
    messages: list = field(default_factory=list)

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        system = f"{HANDBOOK} The session began at {self.started}."
        return self.client.chat.completions.create(model="gpt-5", messages=[{"role": "system", "content": system}, *self.messages])


class Lazy:
    def __init__(self):
        self._system = None
        self.messages = []

    def ask(self, text):
        if self._system is None:
            self._system = f"{HANDBOOK} We began at {datetime.now():%H:%M}."
        self.messages.append({"role": "user", "content": text})
        return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=self._system, messages=self.messages)


send = partial(client.messages.create, model="claude-opus-4-5", max_tokens=1024)


def ask_with_what_is_sent(messages):
    system = [{"type": "text", "text": HANDBOOK + str(datetime.utcnow())}]  # expect: CKS01
    return client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=system, messages=messages)


def ask_and_log(messages, log):
    log.info("asked at %s", datetime.now())
    return send(system=HANDBOOK, messages=messages, metadata={"sent_at": time.time()})


async def ask_when_it_is_late(messages):
    if datetime.now().hour > 22:
        messages.append({"role": "user", "content": "(It is late.)"})
    return await async_client.messages.create(model="claude-opus-4-5", max_tokens=1024, system=HANDBOOK, messages=messages)


def ask_with_the_day(messages):
    return send(system=f"{HANDBOOK} Today is {date.today().isoformat()}.", messages=messages)


def ask_with_the_day_of_a_clock(messages):
    now = datetime.now()
    return send(system=f"{HANDBOOK} Today is {now.year}-{now.month}-{now.day}.", messages=messages)


def ask_with_a_written_day(messages):
    return send(system=HANDBOOK + datetime.now().strftime(" Today is %A, %d %B."), messages=messages)


def ask_in_the_heading_of_a_summary(text):
    asked = [{"role": "user", "content": text}]
    return gpt.chat.completions.create(model="gpt-5", messages=asked, user=str(datetime.now()))
