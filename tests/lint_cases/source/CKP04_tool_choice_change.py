"""A choice of tools per step, and one for the session."""

import anthropic
import openai
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI

client, other = anthropic.Anthropic(), openai.OpenAI()
claude = ChatAnthropic(model="claude-opus-4-5")
gpt = ChatOpenAI(model="gpt-5.1")
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


def run_first(messages):
    first = len(messages) == 1
    return client.messages.create(
        model="claude-opus-4-5",
        max_tokens=9,
        tools=TOOLS,
        messages=messages,
        tool_choice={"type": "any" if first else "auto"},  # expect: CKP04
    )


def finish(messages, final):
    params = {"model": "claude-opus-4-5", "max_tokens": 9, "tools": TOOLS, "messages": messages}
    params.update(tool_choice={"type": "none"} if final else {"type": "auto"})  # expect: CKP04
    return client.messages.create(**params)


def node(state):
    choice = "any" if state["step"] == 0 else "auto"
    return {"messages": [claude.bind_tools(TOOLS, tool_choice=choice).invoke(state["messages"])]}  # expect: CKP04


def node_of_openai(state):
    choice = "any" if state["step"] == 0 else "auto"
    return {"messages": [gpt.bind_tools(TOOLS, tool_choice=choice).invoke(state["messages"])]}


def run_of_openai(messages, step, last):
    return other.responses.create(model="gpt-5.1", input=messages, tools=TOOLS, tool_choice="none" if step == last else "auto")


def run_with_allowed(messages, step, names):
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": name} for name in names]}
    request = {"model": "gpt-5.1", "input": messages, "tools": TOOLS}
    if step > 3:
        request["tool_choice"] = {**allowed, "mode": "required"}
    return other.responses.create(**request)


def run_one_by_one(messages, step):
    return other.responses.create(
        model="gpt-5.1",
        input=messages,
        parallel_tool_calls=step > 3,  # expect: CKP04
    )
