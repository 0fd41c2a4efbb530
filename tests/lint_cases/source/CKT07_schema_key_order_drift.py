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
