"""Schemas made of sets, and schemas made of lists."""

import anthropic

client = anthropic.Anthropic()


def lookup_tool(fields, needed):
    names = {name for name in fields if name}  # also: CKT07
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in fields},
        "required": list(set(needed)),  # expect: CKT07
    }
    return {"name": "lookup", "description": "Look up.", "input_schema": schema, "n": len(names)}


def choice_tool(options):
    allowed = list({option.lower() for option in options})  # expect: CKT07
    return {"name": "pick", "description": "Pick.", "input_schema": {"type": "object", "properties": {"option": {"enum": allowed}}}}


def sorted_tool(fields, needed):
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in fields},
        "required": sorted(set(needed)),
    }
    return {"name": "lookup", "description": "Look up.", "input_schema": schema}


def sent_tool(messages, tool):
    names = set(tool.args) - {"self", "context"}  # expect: CKT07
    schema = {"type": "object", "properties": {name: tool.args[name] for name in names}}
    tools = [{"name": "pick", "description": "Pick.", "input_schema": schema}]
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages)


def rest_tool(tool):
    names = tool.args - {"self", "context"}  # expect: CKT07
    return {"name": "rest", "description": "Rest.", "input_schema": {"properties": {name: tool.args[name] for name in names}}}


def kept_tool(tool):
    names = [name for name in tool.args if name not in {"self", "context"}]
    return {"name": "keep", "description": "Keep.", "input_schema": {"properties": {name: tool.args[name] for name in names}}}


def taken_away_tool(tool, others):
    names = sorted(set(tool.args) - set(others))
    return {"name": "keep", "description": "Keep.", "input_schema": {"properties": {name: tool.args[name] for name in names}}}
