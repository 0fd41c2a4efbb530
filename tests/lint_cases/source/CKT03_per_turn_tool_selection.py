"""Tools chosen by the question or added while the conversation lasts, and tools chosen once."""

import anthropic

client = anthropic.Anthropic()
TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]
REGISTRY = {tool["name"]: tool for tool in TOOLS}
ASKED = {"model": "claude-opus-4-5", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


def respond(messages, query):
    relevant = [tool for tool in TOOLS if query.lower() in tool["description"]]  # expect: CKT03
    return client.messages.create(tools=relevant, messages=messages, **ASKED)


def reply(messages, question):
    tools = select_tools(question)
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def select_tools(question):
    return [tool for tool in TOOLS if tool["name"] in question]  # expect: CKT03


def answer(messages, query):
    relevant = [tool for tool in TOOLS if matches(tool, query)]  # expect: CKT03
    return client.messages.create(tools=relevant, messages=messages, **ASKED)


def matches(tool, words):
    return tool["name"] in words


def pick_by_words(messages, user_input):
    chosen = [tool for tool in TOOLS if any(word in user_input.lower() for word in tool["keywords"])]  # expect: CKT03
    return client.messages.create(tools=chosen, messages=messages, **ASKED)


def find(messages, index):
    tools = index.search(messages[-1]["content"], k=5)  # expect: CKT03
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def narrowed(messages, question):
    relevant = [tool for tool in TOOLS if tool["name"] in question]  # expect: CKT03
    sent = []
    sent.extend(relevant[:5])
    return client.messages.create(tools=sent, messages=messages, **ASKED)


def retrieve(messages, retriever, question):
    tools = [REGISTRY[found.id] for found in retriever.invoke(question)]  # expect: CKT03
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def with_search_if_asked(messages, question):
    tools = list(TOOLS)
    if "http" in question:  # expect: CKT03
        tools.append({"type": "web_search_20250305", "name": "web_search"})
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def grow(messages, extra):
    tools = list(TOOLS)
    while True:
        reply = client.messages.create(tools=tools, messages=messages, **ASKED)
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason == "refusal":
            tools.append(extra)  # expect: CKT03


def load_on_demand(messages, tools):
    for _ in range(20):
        reply = client.messages.create(tools=tools, messages=messages, **ASKED)
        messages.append({"role": "assistant", "content": reply.content})
        tools = tools + [REGISTRY[block.name] for block in reply.content if block.type == "load"]  # expect: CKT03


class Agent:
    def __init__(self):
        self.tools = [tool for tool in TOOLS if tool["name"]]
        self.messages = []

    def ask(self, question):
        self.messages.append({"role": "user", "content": question})
        return client.messages.create(tools=self.tools, messages=self.messages, **ASKED)


def converse(task):
    tools = select_for(task)
    messages = []
    while True:
        messages.append({"role": "user", "content": input()})
        client.messages.create(tools=tools, messages=messages, **ASKED)


def select_for(task):
    return [tool for tool in TOOLS if tool["name"] in task]


def gather(messages, functions):
    tools = []
    for function in functions:
        tools.append(function)
    if messages:
        tools = tools + [functions[0]]
    while True:
        shown = []
        shown.append(tools)
        client.messages.create(tools=tools, messages=messages, **ASKED)
        messages.append({"role": "user", "content": input()})


def find_for_the_session(messages, index, role):
    tools = index.search(role, k=5)
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def find_once(index, query):
    tools = index.search(query)
    asked = [{"role": "user", "content": query}]
    return client.messages.create(tools=tools, messages=asked, **ASKED)


def hint(messages, question):
    hints = [tool["name"] for tool in TOOLS if tool["name"] in question]
    messages.append({"role": "user", "content": f"{question}\n\nLikely tools: {', '.join(hints)}"})
    return client.messages.create(tools=TOOLS, messages=messages, **ASKED)


def allowed_by_question(messages, question):
    names = [tool["name"] for tool in TOOLS if tool["name"] in question]
    choice = {"type": "tool", "name": names[0]} if names else {"type": "auto"}
    return client.messages.create(tools=TOOLS, tool_choice=choice, messages=messages, **ASKED)


def pick_by_domain(messages, domain, user_input):
    chosen = [tool for tool in TOOLS if any(word in domain.lower() for word in tool["keywords"])]
    messages.append({"role": "user", "content": user_input})
    return client.messages.create(tools=chosen, messages=messages, **ASKED)
