"""Tools by mode or phase, or taken away, and a mode that is said in a message."""

import anthropic

client = anthropic.Anthropic()
READ = {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}
WRITE = {"name": "write", "description": "Writes.", "input_schema": {"type": "object"}}
TOOLS = [READ, WRITE]
READ_ONLY_TOOLS = TOOLS[:1]
PHASES = {"plan": READ_ONLY_TOOLS, "act": TOOLS}
DEFAULT_MODE = "act"
ASKED = {"model": "claude-opus-4-5", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


def step(messages, permission_mode):
    tools = [tool for tool in TOOLS if permission_mode.allows(tool["name"])]  # expect: CKT11
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def respond(messages, plan_mode):
    tools = TOOLS
    if plan_mode:  # expect: CKT11
        tools = READ_ONLY_TOOLS
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def answer(messages, plan_mode):
    tools = READ_ONLY_TOOLS if plan_mode else TOOLS  # expect: CKT11
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def tools_for(mode):
    return [tool for tool in TOOLS if mode.allows(tool["name"])]  # expect: CKT11


def answer_by_helper(session, messages):
    tools = tools_for(session.permission_mode)
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def answer_by_phase(session, messages):
    tools = PHASES[session.phase]  # expect: CKT11
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def answer_by_match(messages, mode):
    match mode:  # expect: CKT11
        case "plan":
            tools = READ_ONLY_TOOLS
        case _:
            tools = TOOLS
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def answer_with_writing(messages, state):
    tools = [READ]
    if state == "approved":  # expect: CKT11
        tools.append(WRITE)
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def pop_in_a_loop(task):
    messages, tools = [{"role": "user", "content": task}], list(TOOLS)
    while True:
        reply = client.messages.create(tools=tools, messages=messages, **ASKED)
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason == "tool_use":
            tools.pop(0)  # expect: CKT11


def remove_in_a_loop(task):
    messages, tools = [{"role": "user", "content": task}], list(TOOLS)
    while True:
        reply = client.messages.create(tools=tools, messages=messages, **ASKED)
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason == "tool_use":
            tools.remove(WRITE)  # expect: CKT11


def delete_in_a_loop(task):
    messages, tools = [{"role": "user", "content": task}], list(TOOLS)
    while True:
        reply = client.messages.create(tools=tools, messages=messages, **ASKED)
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason == "tool_use":
            del tools[0]  # expect: CKT11


def states_in_a_loop(task):
    messages, state = [{"role": "user", "content": task}], "browser_"
    while True:
        tools = [tool for tool in TOOLS if tool["name"].startswith(state)]  # expect: CKT11
        reply = client.messages.create(tools=tools, messages=messages, **ASKED)
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason == "tool_use":
            state = "shell_"


class Agent:
    def __init__(self, session):
        self.session = session
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        tools = PHASES[self.session.mode]  # expect: CKT11
        return client.messages.create(tools=tools, messages=self.messages, **ASKED)


class TwoRequests:
    def __init__(self):
        self.messages = []

    def plan(self, text):
        self.messages.append({"role": "user", "content": text})
        return client.messages.create(tools=TOOLS, messages=self.messages, **ASKED)

    def act(self, text, mode):
        self.messages.append({"role": "user", "content": text})
        tools = READ_ONLY_TOOLS if mode == "plan" else TOOLS  # expect: CKT11
        return client.messages.create(tools=tools, messages=self.messages, **ASKED)


class Seated:
    def __init__(self, permission_mode):
        self.permission_mode = permission_mode
        self.tools = tools_of(permission_mode)

    def ask(self, messages):
        tools = tools_of(self.permission_mode)
        return client.messages.create(tools=tools, messages=messages, **ASKED)


def tools_of(kind):
    return [tool for tool in TOOLS if kind.allows(tool["name"])]


def say(messages, permission_mode):
    messages.append({"role": "user", "content": f"You are in {permission_mode} mode."})
    return client.messages.create(tools=TOOLS, messages=messages, **ASKED)


def counted(messages, eval_mode, server):
    if eval_mode:
        listed = server.names()
        print(len(listed))
    return client.messages.create(tools=TOOLS, messages=messages, **ASKED)


def answer_of_the_process(messages):
    tools = READ_ONLY_TOOLS if DEFAULT_MODE == "plan" else TOOLS
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def answer_in_a_form(messages, answer_format):
    tools = READ_ONLY_TOOLS if answer_format == "tool_output" else TOOLS
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def mode_in_the_question(messages, mode, text):
    allowed = [tool["name"] for tool in TOOLS if mode.allows(tool["name"])]
    messages.append({"role": "user", "content": f"{text}\n(You may use {', '.join(allowed)}.)"})
    return client.messages.create(tools=TOOLS, messages=messages, **ASKED)


def one_question_by_mode(question, mode):
    tools = READ_ONLY_TOOLS if mode == "plan" else TOOLS
    return client.messages.create(tools=tools, messages=[{"role": "user", "content": question}], **ASKED)


def pop_before_a_loop(task):
    messages, tools = [{"role": "user", "content": task}], list(TOOLS)
    tools.pop(0)
    while True:
        reply = client.messages.create(tools=tools, messages=messages, **ASKED)
        messages.append({"role": "assistant", "content": reply.content})


def answer_unless_read_only(messages, read_only):
    tools = [tool for tool in TOOLS if not read_only or tool["safe"]]  # expect: CKT11
    return client.messages.create(tools=tools, messages=messages, **ASKED)


class Settled:
    def __init__(self):
        self.mode = "plan"
        self.messages = []

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        return client.messages.create(tools=PHASES[self.mode], messages=self.messages, **ASKED)


def send(messages, tools):
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def run_through_a_function(task):
    messages, tools = [{"role": "user", "content": task}], list(TOOLS)
    while True:
        reply = send(messages, tools)
        messages.append({"role": "assistant", "content": reply.content})


class Planner:
    def __init__(self):
        self.mode, self.messages = "plan", []

    def change(self):
        self.mode = "act"

    def ask(self, text):
        self.messages.append({"role": "user", "content": text})
        return client.messages.create(tools=PHASES[self.mode], messages=self.messages, **ASKED)  # expect: CKT11

    def ask_if(self, text):
        self.messages.append({"role": "user", "content": text})
        tools = TOOLS if self.mode == "act" else READ_ONLY_TOOLS  # expect: CKT11
        return client.messages.create(tools=tools, messages=self.messages, **ASKED)


def answer_without_reading(messages, state):
    tools = list(TOOLS)
    if state == "plan":
        tools.remove(WRITE)  # expect: CKT11
    return client.messages.create(tools=tools, messages=messages, **ASKED)
