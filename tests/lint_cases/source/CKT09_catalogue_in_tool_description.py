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


def skill_tool(skills):
    lines = "\n".join(f"- {skill.name}" for skill in skills)  # expect: CKT09
    return {"name": "use_skill", "description": "Load a skill. Known:\n" + lines, "input_schema": NAME}


def answer(messages, loader):
    tools = [skill_tool(loader.load_skills())]
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def spawn_tool(subagents):
    known = ", ".join(agent.name for agent in subagents)
    return {"name": "spawn_agent", "description": f"Start an agent. Known: {known}", "input_schema": NAME}


class Crew:
    def __init__(self, subagents):
        self.tools = [spawn_tool(subagents)]

    def answer(self, messages):
        return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=self.tools, messages=messages)
