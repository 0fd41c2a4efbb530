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
