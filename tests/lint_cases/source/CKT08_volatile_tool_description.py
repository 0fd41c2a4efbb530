"""A clock or an id in the description or schema of a tool, and in what a tool gives."""

import time
import uuid
from datetime import date, datetime

import anthropic

client = anthropic.Anthropic()
ASKED = {"model": "claude-opus-4-5", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}
STARTED = datetime.now()


def clock_tool():
    return {
        "name": "wait",
        "description": f"Wait until a time. It is {datetime.now():%H:%M}.",  # expect: CKT08
        "input_schema": {"type": "object"},
    }


def calendar_tool():
    start = {"type": "string", "description": f"ISO time; now is {datetime.now().isoformat()}"}  # expect: CKT08
    return {"name": "create_event", "description": "Creates an event.", "parameters": {"type": "object", "properties": {"start": start}}}


def upload_tool():
    token = uuid.uuid4().hex  # expect: CKT08
    return {"name": "upload", "description": "Uploads under " + token, "input_schema": {"type": "object"}}


def ask_with_a_stamped_tool(messages):
    stamp = int(time.time())  # expect: CKT08
    tools = [{"name": "poll", "description": f"Polls changes since {stamp}.", "input_schema": {"type": "object"}}]
    return client.messages.create(tools=tools, messages=messages, **ASKED)


class Toolbox:
    def describe(self, name):
        return f"Runs {name} in sandbox {uuid.uuid4()}."  # expect: CKT08

    def definition(self, name):
        return {"name": name, "description": self.describe(name), "input_schema": {"type": "object"}}



def news_tool():
    today = date.today()
    return {"name": "news", "description": "News up to " + str(today), "input_schema": {"type": "object"}}


def constant_tool(log):
    log(datetime.now())
    return {"name": "run_shell", "description": "Run a command in the session's folder.", "input_schema": {"type": "object"}}


def calendar_call(call, calendar):
    started = datetime.now()
    calendar.create(**call.arguments)
    start = {"type": "string", "description": "ISO time; ask for the time where it is not known."}
    print(datetime.now() - started)
    return {"name": "create_event", "description": "Creates an event.", "parameters": {"type": "object", "properties": {"start": start}}}


def tell_time():
    """Tells the time."""
    return f"It is {datetime.now():%H:%M}."


def kept_tool():
    return {"name": "since", "description": f"Changes since {STARTED}.", "input_schema": {"type": "object"}}


def ask_with_an_id(messages, tools):
    messages.append({"role": "user", "content": f"Ticket {uuid.uuid4()}"})
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def result_of(call):
    return {"type": "tool_result", "tool_use_id": call.id, "content": f"{datetime.now()}"}
