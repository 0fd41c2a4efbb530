"""A list of skills in a description, and one in the conversation."""

import anthropic

client = anthropic.Anthropic()
NAME = {"type": "object", "properties": {"name": {"type": "string"}}}


def ask(messages, skills):
    listing = ", ".join(skill.name for skill in skills)  # expect: CKT09
    tools = [{"name": "use_skill", "description": "Load a skill. Known: " + listing, "input_schema": NAME}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def ask_plainly(messages, skills):
    tools = [{"name": "use_skill", "description": "Load a skill by name.", "input_schema": NAME}]
    messages.append({"role": "user", "content": "Skills: " + ", ".join(skill.name for skill in skills)})
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)
