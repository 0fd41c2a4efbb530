"""Tools that are left out on a last turn, and tools that stay."""

import anthropic

client = anthropic.Anthropic()
TOOLS = [{"name": "read", "description": "Reads.", "input_schema": {"type": "object"}}]
MAX_STEPS = 8
ASKED = {"model": "claude-opus-4-5", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}


def run(messages):
    for step in range(MAX_STEPS):
        is_last_step = step == MAX_STEPS - 1
        client.messages.create(
            tools=[] if is_last_step else TOOLS,  # expect: CKT04
            messages=messages,
            **ASKED,
        )


def step(messages, steps_left):
    request = {**ASKED, "tools": TOOLS, "messages": messages}
    if steps_left <= 0 and request["max_tokens"]:
        request.pop("tools")  # expect: CKT04
    return client.messages.create(**request)


def step_without(messages, is_final):
    request = {**ASKED, "tools": TOOLS, "messages": messages}
    if is_final:
        del request["tools"]  # expect: CKT04
    return client.messages.create(**request)


def answer(messages, force_final):
    tools = TOOLS
    if force_final:
        tools = None  # expect: CKT04
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def answer_in_the_end(messages):
    return client.messages.create(
        tools=TOOLS if len(messages) < 10 else [],  # expect: CKT04
        messages=messages,
        **ASKED,
    )


def run_some_steps(messages):
    for i in range(10):
        tools = TOOLS
        if i == 9:
            tools = []  # expect: CKT04
        client.messages.create(tools=tools, messages=messages, **ASKED)


def run_with_more(messages):
    for step in range(MAX_STEPS):
        request = {**ASKED, "messages": messages}
        if step < MAX_STEPS - 1:
            request["tools"] = TOOLS  # expect: CKT04
        client.messages.create(**request)


def run_with_not_given(messages):
    for step in range(MAX_STEPS):
        tools = anthropic.NOT_GIVEN if step + 1 == MAX_STEPS else TOOLS  # expect: CKT04
        reply = client.messages.create(tools=tools, messages=messages, **ASKED)
        messages.append({"role": "assistant", "content": reply.content})


def answer_with_tools(messages, supports_tools):
    tools = TOOLS if supports_tools else None
    return client.messages.create(tools=tools, messages=messages, **ASKED)


def answer_in_words(messages, is_last_step):
    if is_last_step:
        messages.append({"role": "user", "content": "Answer now in words."})
    return client.messages.create(tools=TOOLS, messages=messages, **ASKED)


def answer_without_calls(messages, is_last_step):
    choice = {"type": "none"} if is_last_step else {"type": "auto"}
    return client.messages.create(tools=TOOLS, tool_choice=choice, messages=messages, **ASKED)


def answer_with_some(messages, files):
    return client.messages.create(tools=TOOLS if len(files) < 10 else [], messages=messages, **ASKED)


def run_with_what_there_is(messages, tools):
    for step in range(MAX_STEPS):
        request = {**ASKED, "messages": messages}
        if tools and len(tools) < 128:
            request["tools"] = tools
        if step < MAX_STEPS - 1:
            request["metadata"] = {"user_id": "a"}
        client.messages.create(**request)


def run_with_or_without(messages, has_tools):
    if has_tools:
        for _ in range(MAX_STEPS):
            client.messages.create(tools=TOOLS, messages=messages, **ASKED)
        return messages
    return client.messages.create(tools=TOOLS, messages=messages, **ASKED)


def summary(text):
    return client.messages.create(messages=[{"role": "user", "content": text}], **ASKED)


def run_and_summarize(messages):
    for _ in range(MAX_STEPS):
        client.messages.create(tools=TOOLS, messages=messages, **ASKED)
    return summary(str(messages))
