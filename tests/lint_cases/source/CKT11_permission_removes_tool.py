"""A mode that takes tools out, and a mode that is said."""

import anthropic

client = anthropic.Anthropic()
TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]
READ_ONLY_TOOLS = TOOLS[:1]


def step(messages, mode):
    tools = [tool for tool in TOOLS if mode.allows(tool["name"])]  # expect: CKT11
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def respond(messages, plan_mode):
    tools = TOOLS
    if plan_mode:
        tools = READ_ONLY_TOOLS  # expect: CKT11
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


class Agent:
    def __init__(self, mode):
        self.tools = [tool for tool in TOOLS if mode.allows(tool["name"])]

    def respond(self, messages):
        names = [tool["name"] for tool in self.tools if tool["name"]]
        return client.messages.create(model="claude-opus-4-5", max_tokens=len(names), tools=self.tools, messages=messages)


class Fixed:
    def __init__(self, mode):
        self.tools = self.create_toolset(mode)

    @staticmethod
    def create_toolset(mode):
        return [tool for tool in TOOLS if mode.allows(tool["name"])]


class Changing:
    def __init__(self, mode):
        self.tools = self.request_tools(mode)

    @staticmethod
    def request_tools(mode):
        return [tool for tool in TOOLS if mode.allows(tool["name"])]  # expect: CKT11

    def respond(self, messages, mode):
        self.tools = self.request_tools(mode)
        return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=self.tools, messages=messages)


def say(messages, mode):
    messages.append({"role": "user", "content": f"You are in {mode} mode."})
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)


def counted(messages, eval_mode, server):
    if eval_mode:
        listed_tools = server.names()
        print(len(listed_tools))
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)


def answer(messages, plan_mode):
    tools = READ_ONLY_TOOLS if plan_mode else TOOLS  # expect: CKT11
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def answer_at_once(messages, state):
    return client.messages.create(
        model="claude-opus-4-5",
        max_tokens=9,
        tools=READ_ONLY_TOOLS if state.plan_mode else TOOLS,  # expect: CKT11
        messages=messages,
    )


def answer_by_word(messages, plan_mode):
    words = "Plan only." if plan_mode else "Go on."
    messages.append({"role": "user", "content": words})
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)


def answer_of_the_session(messages):
    tools = READ_ONLY_TOOLS if DEFAULT_MODE == "plan" else TOOLS
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


DEFAULT_MODE = "act"


def answer_in_a_form(messages, mode):
    tools = READ_ONLY_TOOLS if mode == "tool_output" else TOOLS
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def answer_by_mode(messages, mode):
    tools = READ_ONLY_TOOLS if mode == "plan" else TOOLS  # expect: CKT11
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def tools_for(mode):
    return [tool for tool in TOOLS if mode.allows(tool["name"])]


def answer_by_helper(session, messages):
    tools = tools_for(session.mode)  # expect: CKT11
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def answer_by_helper_at_once(session, messages):
    return client.messages.create(
        model="claude-opus-4-5",
        max_tokens=9,
        tools=tools_for(session.mode),  # expect: CKT11
        messages=messages,
    )


def matching_tools(kind):
    match kind:
        case "architect":
            return READ_ONLY_TOOLS
        case _:
            return TOOLS


def answer_by_match(messages, mode):
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=matching_tools(mode), messages=messages)  # expect: CKT11


def answer_by_table(session, messages):
    tools = TOOLS_BY_MODE[session.mode]  # expect: CKT11
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


TOOLS_BY_MODE = {"plan": READ_ONLY_TOOLS, "act": TOOLS}
MODE = "act"


def written_tools(tools, mode):
    return [{"type": "function", "function": tool} if mode == "json" else tool for tool in tools]


def answer_in_a_wire_format(messages, mode):
    tools = written_tools(TOOLS, mode)
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def answer_of_one_mode(messages):
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS_BY_MODE[MODE], messages=messages)


class Seated:
    def __init__(self, mode):
        self.mode = mode
        self.tools = tools_for(mode)

    def answer(self, messages):
        tools = tools_for(self.mode)
        return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)
