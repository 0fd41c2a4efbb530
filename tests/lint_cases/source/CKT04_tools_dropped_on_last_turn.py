"""Tools that drop out at the last step, and tools that stay."""

import anthropic

client = anthropic.Anthropic()
TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]
MAX_STEPS = 8


def run(messages):
    for step in range(MAX_STEPS):
        is_last_step = step == MAX_STEPS - 1
        client.messages.create(
            model="claude-opus-4-5",
            max_tokens=9,
            tools=[] if is_last_step else TOOLS,  # expect: CKT04
            messages=messages,
        )


def step(messages, steps_left):
    request = {"model": "claude-opus-4-5", "max_tokens": 9, "tools": TOOLS, "messages": messages}
    if steps_left <= 0 and request["max_tokens"] or final_turn():
        request.pop("tools")  # expect: CKT04
    return client.messages.create(**request)


def answer(messages, force_final):
    tools = TOOLS
    if force_final:
        tools = None  # expect: CKT04
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def answer_with_tools(messages, supports_tools):
    tools = TOOLS if supports_tools else None
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def answer_in_words(messages, is_last_step):
    if is_last_step:
        messages.append({"role": "user", "content": "Answer now in words."})
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)


def final_turn():
    return True


def answer_in_the_end(messages):
    return client.messages.create(
        model="claude-opus-4-5",
        max_tokens=9,
        tools=TOOLS if len(messages) < 10 else [],  # expect: CKT04
        messages=messages,
    )


def answer_with_some(messages, files):
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS if len(files) < 10 else [], messages=messages)


def run_some_steps(messages):
    for i in range(10):
        tools = TOOLS
        if i == 9:
            tools = []  # expect: CKT04
        client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def run_with_more(messages):
    for step in range(MAX_STEPS):
        request = {"model": "claude-opus-4-5", "max_tokens": 9, "messages": messages}
        if step < MAX_STEPS - 1:
            request["tools"] = TOOLS  # expect: CKT04
        client.messages.create(**request)


def run_with_what_there_is(messages, tools):
    for step in range(MAX_STEPS):
        request = {"model": "claude-opus-4-5", "max_tokens": 9, "messages": messages}
        if tools and len(tools) < 128:
            request["tools"] = tools
        if step < MAX_STEPS - 1:
            request["metadata"] = {"user_id": "a"}
        client.messages.create(**request)


def run_to_the_end(messages):
    for _ in range(MAX_STEPS):
        client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)
    messages.append({"role": "user", "content": "Answer now in words."})
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, messages=messages)  # expect: CKT04


class Agent:
    def run(self, messages):
        while len(messages) < 40:
            messages.append(self.ask(messages, tools=TOOLS))
            if messages[-1]["done"]:
                break
        else:
            return self.ask(messages)  # expect: CKT04
        return self.ask(messages, tools=TOOLS)

    def ask(self, messages, tools=None):
        return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def run_with_or_without(messages, has_tools):
    if has_tools:
        for _ in range(MAX_STEPS):
            client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)
        return messages
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)


def run_and_name(messages, first):
    for _ in range(MAX_STEPS):
        client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, messages=messages)
    return client.messages.create(model="claude-haiku-4-5", max_tokens=9, messages=messages), summary(first)


def summary(said):
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, messages=[{"role": "user", "content": said}])


def ask_as_the_server_can(messages, forced_tool_choice):
    request = {"model": "claude-opus-4-5", "max_tokens": 9, "tools": TOOLS, "messages": messages}
    if forced_tool_choice == "reject":
        request["tools"] = [tool for tool in TOOLS if "forced" not in tool]
    return client.messages.create(**request)
