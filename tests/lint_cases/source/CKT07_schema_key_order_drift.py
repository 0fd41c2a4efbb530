"""Schemas made of sets, and schemas made of lists."""

import os

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
    return client.messages.create(model="claude-opus-4-5", max_tokens=9, tools=tools, messages=messages, cache_control={"type": "ephemeral"})


def rest_tool(tool):
    names = tool.args - {"self", "context"}  # expect: CKT07
    return {"name": "rest", "description": "Rest.", "input_schema": {"properties": {name: tool.args[name] for name in names}}}


def kept_tool(tool):
    names = [name for name in tool.args if name not in {"self", "context"}]
    return {"name": "keep", "description": "Keep.", "input_schema": {"properties": {name: tool.args[name] for name in names}}}


def taken_away_tool(tool, others):
    names = sorted(set(tool.args) - set(others))
    return {"name": "keep", "description": "Keep.", "input_schema": {"properties": {name: tool.args[name] for name in names}}}


def files_tool(folder):
    names = os.listdir(folder)
    return {"name": "open", "description": "Open.", "input_schema": {"type": "object", "properties": {"file": {"enum": names}}}}


def languages_tool():
    names = list({"de", "en", "fr"})  # expect: CKT07
    return {"name": "say", "description": "Say.", "input_schema": {"type": "object", "properties": {"language": {"enum": names}}}}


def checked_tool(options, denied):
    allowed = [option for option in options if option not in set(denied)]
    return {"name": "pick", "description": "Pick.", "input_schema": {"type": "object", "properties": {"option": {"enum": allowed}}}}


def counted_tool(options):
    limit = {"type": "integer", "maximum": len(set(options))}
    return {"name": "take", "description": "Take.", "input_schema": {"type": "object", "properties": {"n": limit}}}
