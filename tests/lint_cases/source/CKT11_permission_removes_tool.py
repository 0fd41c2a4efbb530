"""A mode that takes tools out, and a mode that is said."""

import anthropic

client = anthropic.Anthropic()
TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]
READ_ONLY_TOOLS = TOOLS[:1]


def step(messages, permission_mode):
    tools = [tool for tool in TOOLS if permission_mode.allows(tool["name"])]  # expect: CKT11
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def respond(messages, plan_mode):
    tools = TOOLS
    if plan_mode:  # expect: CKT11
        tools = READ_ONLY_TOOLS
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


class Agent:
    def __init__(self, permission_mode):
        self.tools = [tool for tool in TOOLS if permission_mode.allows(tool["name"])]

    def respond(self, messages):
        names = [tool["name"] for tool in self.tools if tool["name"]]
        return client.messages.create(model="claude-opus-4-5", max_tokens=len(names), tools=self.tools, messages=messages)


class Fixed:
    def __init__(self, permission_mode):
        self.tools = self.create_toolset(permission_mode)

    @staticmethod
    def create_toolset(permission_mode):
        return [tool for tool in TOOLS if permission_mode.allows(tool["name"])]


class Changing:
    def __init__(self, permission_mode):
        self.tools = self.request_tools(permission_mode)

    @staticmethod
    def request_tools(permission_mode):
        return [tool for tool in TOOLS if permission_mode.allows(tool["name"])]  # expect: CKT11

    def respond(self, messages, permission_mode):
        self.tools = self.request_tools(permission_mode)
        return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=self.tools, messages=messages)


def say(messages, permission_mode):
    messages.append({"role": "user", "content": f"You are in {mode} permission_mode."})
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)


def counted(messages, eval_mode, server):
    if eval_mode:
        listed_tools = server.names()
        print(len(listed_tools))
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)


def answer(messages, plan_mode):
    tools = READ_ONLY_TOOLS if plan_mode else TOOLS  # expect: CKT11
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def answer_of_the_session(messages):
    tools = READ_ONLY_TOOLS if DEFAULT_MODE == "plan" else TOOLS
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


DEFAULT_MODE = "act"


def answer_in_a_form(messages, answer_format):
    tools = READ_ONLY_TOOLS if answer_format == "tool_output" else TOOLS
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def answer_by_mode(messages, permission_mode):
    tools = READ_ONLY_TOOLS if permission_mode == "plan" else TOOLS  # expect: CKT11
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def tools_for(permission_mode):
    return [tool for tool in TOOLS if permission_mode.allows(tool["name"])]  # expect: CKT11


def answer_by_helper(session, messages):
    tools = tools_for(session.permission_mode)
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def matching_tools(kind):
    match kind:
        case "architect":
            return READ_ONLY_TOOLS
        case _:
            return TOOLS


def answer_by_match(messages, permission_mode):
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=matching_tools(permission_mode), messages=messages)  # expect: CKT11


def answer_by_table(session, messages):
    tools = TOOLS_BY_MODE[session.permission_mode]  # expect: CKT11
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


TOOLS_BY_MODE = {"plan": READ_ONLY_TOOLS, "act": TOOLS}


def written_tools(tools, wire_format):
    return [{"type": "function", "function": tool} if wire_format == "json" else tool for tool in tools]


def answer_in_a_wire_format(messages, wire_format):
    tools = written_tools(TOOLS, wire_format)
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


class Seated:
    def __init__(self, permission_mode):
        self.permission_mode = permission_mode
        self.tools = tools_for(permission_mode)

    def answer(self, messages):
        tools = tools_for(self.permission_mode)
        return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)
