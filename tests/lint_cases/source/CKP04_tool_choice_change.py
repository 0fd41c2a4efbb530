"""A choice of tools per step, and one for the session."""

import anthropic

client = anthropic.Anthropic()
TOOLS = [{"name": "finish", "description": "Ends.", "input_schema": {"type": "object"}}]
LAST = 9


def run(messages):
    for step in range(LAST + 1):
        choice = {"type": "tool", "name": "finish"} if step == LAST else {"type": "auto"}
        client.messages.create(
            model="claude-opus-4-5",
            max_tokens=9,
            tools=TOOLS,
            tool_choice=choice,  # expect: CKP04
            messages=messages,
        )


def adapt(messages, tool_choice):
    choice = {"type": "any"} if tool_choice == "required" else {"type": "auto"}
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, tool_choice=choice, messages=messages)


def run_evenly(messages, is_last):
    if is_last:
        messages.append({"role": "user", "content": "Call finish."})
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=TOOLS, tool_choice={"type": "auto"}, messages=messages)


def run_workflow(step, messages):
    kwargs = {"tools": TOOLS, "max_tokens": 9}
    kwargs["tool_choice"] = getattr(step.agent, "tool_choice", None)
    return client.messages.create(model="claude-opus-4-5", messages=messages, **kwargs)
