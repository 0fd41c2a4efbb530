"""The time of day in a prompt that is put together in parts, and the day, or a clock for somebody else."""

import time
from datetime import date, datetime
from functools import cached_property

import anthropic
from agents import Agent
from any_llm import amessages
from langchain_core.messages import SystemMessage
from langchain_openai import ChatOpenAI

client = anthropic.Anthropic()
llm = ChatOpenAI(model="gpt-5")
RULES = "You are kind."
CACHED = {"model": "claude-sonnet-5-5", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


class Parts:
    def __init__(self):
        self.parts = [RULES]

    def add(self, text):
        self.parts.append(text)
        return self

    def build(self):
        return "\n".join(self.parts)


def ask_with_parts(messages):
    prompt = Parts()
    prompt.add("Be brief.")
    prompt.add(f"It is {datetime.now():%H:%M}.")  # expect: CKS01
    return client.messages.create(system=prompt.build(), messages=messages, **CACHED)


def ask_with_parts_of_the_day(messages):
    prompt = Parts()
    prompt.add(f"Today is {date.today()}.")
    return client.messages.create(system=prompt.build(), messages=messages, **CACHED)


class Text:
    def __init__(self):
        self.text = RULES

    def write(self, text):
        self.text += text


def ask_with_text(messages):
    text = Text()
    text.write(f" Unix time: {time.time()}.")  # expect: CKS01
    return client.messages.create(system=text.text, messages=messages, **CACHED)


def ask_with_sections(messages):
    sections = {"rules": RULES, "time": f"It is {datetime.now():%H:%M}."}  # expect: CKS01
    system = "\n".join(sections.values())
    return client.messages.create(system=system, messages=messages, **CACHED)


def ask_with_one_section(messages, log):
    sections = {"rules": RULES, "time": f"It is {datetime.now():%H:%M}."}
    log.info(sections["time"])
    return client.messages.create(system=sections["rules"], messages=messages, **CACHED)


def ask_with_optional_sections(messages, is_timed):
    sections = [RULES]
    if is_timed:
        sections.append(f"It is {datetime.now():%H:%M}.")  # expect: CKS01
    return client.messages.create(system="\n".join(sections), messages=messages, **CACHED)


class Refreshed:
    def __init__(self):
        self.parts = [RULES]

    def refresh(self):
        self.parts = [RULES, f"It is {datetime.now():%H:%M}."]  # expect: CKS01

    def ask(self, messages):
        self.refresh()
        return client.messages.create(system="\n".join(self.parts), messages=messages, **CACHED)


class Base:
    def ask(self, messages):
        return client.messages.create(system=self.describe(), messages=messages, **CACHED)

    def describe(self):
        return RULES


class Timed(Base):
    def describe(self):
        return super().describe() + f" It is {datetime.now():%H:%M}."  # expect: CKS01


class Dated(Base):
    def describe(self):
        return super().describe() + f" Today is {datetime.now():%d %B %Y}."


async def ask_any(messages):
    system = f"{RULES} It is {datetime.now():%H:%M}."  # expect: CKS01
    return await amessages(model="claude-sonnet-5-5", provider="anthropic", system=system, messages=messages, max_tokens=9)


def ask_a_chain(history):
    head = SystemMessage(content=f"{RULES} It is {datetime.now()}.")  # expect: CKS01
    return llm.invoke([head, *history])


def ask_a_chain_with_the_day(history):
    head = SystemMessage(content=f"{RULES} It is {datetime.now().date().isoformat()}.")
    return llm.invoke([head, *history])


def timely(context, agent):
    return f"{RULES} It is {datetime.now():%H:%M}."  # expect: CKS01


helper = Agent(name="helper", instructions=timely)


class Kept:
    def __init__(self, history):
        self.history = history

    @cached_property
    def system(self):
        return f"{RULES} We began at {datetime.now():%H:%M}."

    def ask(self):
        return client.messages.create(system=self.system, messages=self.history, **CACHED)


def ask_in_a_loop(task):
    messages = [{"role": "user", "content": task}]
    system = f"{RULES} It is {datetime.now():%H:%M}."
    while True:
        reply = client.messages.create(system=system, messages=messages, **CACHED)
        messages.append({"role": "assistant", "content": reply.content})


def ask_with_the_question(messages, question):
    prompt = Parts().add("Be exact.")
    messages.append({"role": "user", "content": f"{question} (asked at {datetime.now():%H:%M})"})
    return client.messages.create(system=prompt.build(), messages=messages, **CACHED)


def ask_with_an_update(messages):
    request = dict(CACHED, messages=messages)
    request.update({"system": f"{RULES} It is {datetime.now()}."})  # expect: CKS01
    return client.messages.create(**request)


def sections():
    yield RULES
    yield f"It is {datetime.now():%H:%M}."  # expect: CKS01


def ask_with_a_generator(messages):
    return client.messages.create(system="\n".join(sections()), messages=messages, **CACHED)


def ask_with_the_first_message(messages):
    messages[0] = {"role": "system", "content": f"{RULES} It is {datetime.now()}."}  # expect: CKS01
    return llm.invoke(messages)


def ask_with_a_message_put_in_front(messages):
    messages.insert(0, {"role": "system", "content": f"{RULES} It is {datetime.now()}."})  # expect: CKS01
    return llm.invoke(messages)


def post(http, messages):
    head = {"role": "system", "content": f"{RULES} It is {datetime.now()}."}  # expect: CKS01
    return http.post("https://api.example.org/v1/chat/completions", json={"model": "m", "messages": [head, *messages]})


def ask_with_a_message_at_the_end(messages):
    messages.append({"role": "system", "content": f"It is {datetime.now()}."})
    return llm.invoke(messages)


def ask_with_what_a_model_said(messages):
    said = llm.invoke(f"Summarize the news of {datetime.now()}.").content
    return client.messages.create(system=said, messages=messages, **CACHED)


class Reloaded:
    def reload(self):
        self.system = f"{RULES} Reloaded at {datetime.now()}."

    def ask(self, messages):
        return client.messages.create(system=self.system, messages=messages, **CACHED)


class Lines:
    def __init__(self):
        self.lines = []

    def put(self, line):
        self.lines.append(line)
        return self

    def text(self):
        return "\n".join(self.lines)


START = Lines().put(f"The process began at {datetime.now()}.")


def ask_with_lines_beside_those_of_the_process(messages):
    prompt = Lines()
    prompt.put(f"It is {datetime.now()}.")  # expect: CKS01
    return client.messages.create(system=prompt.text(), messages=messages, **CACHED)


class Notes:
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)

    def written(self):
        return "".join(self.notes)


def new_notes():
    return Notes()


def ask_with_notes_made_elsewhere(messages):
    notes = new_notes()
    notes.note(str(datetime.now()))  # expect: CKS01
    return client.messages.create(system=notes.written(), messages=messages, **CACHED)


class Stamped:
    def build(self):
        return str(datetime.now())  # expect: CKS01


class Desk:
    def __init__(self, text=None):
        self.text = text or Stamped()

    def ask(self, messages):
        return client.messages.create(system=self.text.build(), messages=messages, **CACHED)


def ask_with_keywords_of_an_update(messages):
    request = dict(CACHED, messages=messages)
    request.update(system=str(datetime.now()))  # expect: CKS01
    return client.messages.create(**request)


def stamped_text(now=None):
    if now is None:
        now = datetime.now()
    return f"It is {now}."


def ask_with_the_time_of_the_first_message(messages):
    return client.messages.create(system=stamped_text(now=messages[0]["at"]), messages=messages, **CACHED)
