"""Another wire's blocks and tools, as far as any wire can say them.

Takes what one provider keeps in its own words, gives text or a function. Knows no wire of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.canonical import Json, canonical
from contextkit.errors import InvalidTool


def spoken(block: Mapping[str, Json]) -> str:
    """The text of a block of another wire, or its type in brackets where it has none.

    >>> spoken({"role": "system", "content": [{"type": "text", "text": "Be brief."}]})
    'Be brief.'
    >>> spoken({"type": "thinking", "thinking": "…"})
    '[thinking]'
    """
    inside = next((block[key] for key in ("text", "content", "output") if block.get(key)), None)
    if isinstance(inside, list):
        inside = "".join(spoken(part) for part in inside if isinstance(part, dict))
    return inside if isinstance(inside, str) else f"[{block.get('type', 'item')}]"


def reminder(text: str) -> str:
    """What the program says in the user's turn, so that it is not taken for the user's own words.

    >>> reminder("Phase report: call no tool."), reminder("")
    ('<system>Phase report: call no tool.</system>', '')
    """
    return f"<system>{text}</system>" if text else ""


def announcement(body: Mapping[str, Json]) -> str:
    """Tools that came late, in words: a line for each, its definition as JSON.

    >>> print(announcement({"text": "New tools:", "definitions": [{"name": "ping", "description": "", "parameters": {}}]}))
    New tools:
    {"name":"ping","description":"","parameters":{}}
    """
    rows = (dict(zip(("name", "description", "parameters"), function_of(one), strict=True)) for one in body["definitions"])
    return "\n".join([body["text"], *(canonical(row).decode() for row in rows)])


def function_of(definition: Mapping[str, Json]) -> tuple[Json, Json, Json]:
    """Name, description and parameters of a definition, another wire's included.

    Raises `InvalidTool` for a tool only its own provider runs.
    """
    block = definition.get("instead") or (definition["native"]["block"] if "native" in definition else definition)
    fields = block["function"] if isinstance(block.get("function"), dict) else block
    parameters = fields.get("parameters", fields.get("input_schema"))
    if parameters is None or "name" not in fields:
        raise InvalidTool(f"tool of type {block.get('type')!r} runs at its own provider only: leave it out or give a function")
    return fields["name"], fields.get("description", ""), parameters
