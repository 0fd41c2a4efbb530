"""Tools chosen by the question, and tools chosen once."""

import anthropic

client = anthropic.Anthropic()
TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]


def respond(messages, query):
    relevant = [tool for tool in TOOLS if query.lower() in tool["description"]]  # expect: CKT03
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=relevant, messages=messages)


def reply(messages, question):
    tools = select_tools(question)
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def answer(messages, query):
    relevant = [tool for tool in TOOLS if matches(tool, query)]  # expect: CKT03
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=relevant, messages=messages)


def converse(task):
    tools = TOOLS if task else []
    messages = []
    while True:
        messages.append({"role": "user", "content": input()})
        client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def select_tools(question):
    return [tool for tool in TOOLS if tool["name"] in question]  # expect: CKT03


def matches(tool, words):
    return tool["name"] in words


def rank(question):
    return select_tools(question)


def grow(messages, tools, extra):
    while True:
        reply = client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
        if reply.stop_reason == "refusal":
            tools = tools + [extra]  # expect: CKT03
        elif reply.stop_reason == "tool_use":
            tools.append(extra)  # expect: CKT03
        else:
            tools += [extra]  # expect: CKT03


def gather(messages, functions):
    tools = []
    for function in functions:
        tools.append(function)
    if messages:
        tools = tools + [functions[0]]
    while True:
        shown = []
        shown.append(tools)
        client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)
        messages.append({"role": "user", "content": input()})


def find(messages, index):
    tools = index.search(messages[-1]["content"], k=5)  # expect: CKT03
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def find_for_the_session(messages, index, role):
    tools = index.search(role, k=5)
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def find_once(index, query):
    tools = index.search(query)
    asked = [{"role": "user", "content": query}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=[{"role": "user", "content": asked}])


def hint(messages, question):
    hints = [tool["name"] for tool in TOOLS if tool["name"] in question]
    messages.append({"role": "user", "content": f"{question}\n\nLikely tools: {', '.join(hints)}"})
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)


def narrowed(messages, question):
    relevant = [tool for tool in TOOLS if tool["name"] in question]  # expect: CKT03
    sent = []
    sent.extend(relevant[:5])
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=sent, messages=messages)


def retrieve(messages, retriever, question):
    tools = [REGISTRY[found.id] for found in retriever.invoke(question)]  # expect: CKT03
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def pick_by_words(messages, user_input):
    chosen = [tool for tool in TOOLS if any(word in user_input.lower() for word in tool["keywords"])]  # expect: CKT03
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=chosen, messages=messages)


def pick_by_domain(messages, domain, user_input):
    chosen = [tool for tool in TOOLS if any(word in domain.lower() for word in tool["keywords"])]
    messages.append({"role": "user", "content": user_input})
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=chosen, messages=messages)


REGISTRY = {tool["name"]: tool for tool in TOOLS}
