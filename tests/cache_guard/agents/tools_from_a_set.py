"""The tools come from a set of names."""

import openai
from parts import GPT, GUIDE

NAMES = {"read", "write", "list", "search", "fetch", "move", "copy", "delete"}


def test_answers():
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    tools = [
        {"type": "function", "name": name, "description": f"{name} a file. {GUIDE[:300]}", "parameters": schema}
        for name in NAMES
    ]
    client = openai.OpenAI()
    assert client.responses.create(model=GPT, instructions=GUIDE, input="What broke?", tools=tools).output_text
