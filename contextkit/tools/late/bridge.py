"""The bridge: one tool that stands in the head from the beginning and calls those that came later.

Takes calls of `call_tool(name, arguments)`; gives calls of the tool they name. Knows nothing of logs or providers.
"""

from __future__ import annotations

from collections.abc import Mapping

from contextkit.canonical import Json
from contextkit.errors import InvalidCall
from contextkit.tools.tool import Arguments, Function, Tool

_NAME = "call_tool"
call_tool = Tool.raw(
    {
        "name": _NAME,
        "description": "Call a tool that was announced after this conversation began: its name, and arguments "
        "that fit the schema given there.",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The tool's name, as announced."},
                "arguments": {"type": "object", "description": "Its arguments, as its schema says."},
            },
            "required": ["name", "arguments"],
        },
    }
)
"""The bridge, as it stands among `Context(…, tools=[…, call_tool])`; its bytes never change, whatever tools come."""


def is_bridge(definition: Json) -> bool:
    """Whether a neutral definition is the bridge's."""
    return bool(definition == call_tool.definition)


def through(tools: Mapping[str, Tool], arguments: Arguments) -> Tool:
    """The bridge, ready to make one call: what runs is the tool that `arguments` name.

    Running it raises `InvalidCall`, in words for the model, where there is no such tool, or its arguments do not fit.

    >>> ping = Tool.raw({"name": "ping"}, run=lambda arguments: f"pong {arguments}")
    >>> asked = {"name": "ping", "arguments": {"n": 1}}
    >>> through({"ping": ping}, asked).run(asked)
    "pong {'n': 1}"
    """
    if not isinstance(arguments, Mapping):
        return _bridge(_refusing("call_tool takes a JSON object with name and arguments"))
    name, inner = arguments.get("name"), arguments.get("arguments", {})
    target = tools.get(name) if isinstance(name, str) else None
    if target is None:
        known = f"it calls {', '.join(tools)}" if tools else "no tool was announced yet"
        return _bridge(_refusing(f"call_tool knows no tool named {name!r}; {known}"))
    return _bridge(_awaiting(target, inner) if target.is_async else lambda given: target.run(inner))


def _bridge(run: Function) -> Tool:
    return Tool.raw(call_tool.definition, run=run)


def _awaiting(target: Tool, inner: Mapping[str, Json]) -> Function:
    async def call(given: Mapping[str, Json]) -> object:
        return await target.arun(inner)

    return call


def _refusing(why: str) -> Function:
    def refuse(given: Mapping[str, Json]) -> object:
        raise InvalidCall(why)

    return refuse
