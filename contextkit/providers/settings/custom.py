"""A tool that is called with text, in OpenAI's words.

Takes a neutral definition, gives a custom tool (chat/chat_completion_custom_tool_param.py,
responses/custom_tool_param.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contextkit.canonical import Json


def _chat(said: Mapping[str, Json], written: Mapping[str, Json]) -> Json:
    """A grammar stands one level deeper than on Responses."""
    grammar = {key: value for key, value in written.items() if key != "type"}
    return {
        "type": "custom",
        "custom": {**said, "format": {"type": written["type"], **({"grammar": grammar} if grammar else {})}},
    }


_SPELLED: Mapping[str, Callable[[Mapping[str, Json], Mapping[str, Json]], Json]] = {
    "openai_chat": _chat,
    "openai_responses": lambda said, written: {"type": "custom", **said, "format": written},
}
"""Endpoint → (name and description, format) → tool."""


def custom_tool(definition: Mapping[str, Json], wire: str) -> Json:
    """The custom tool that a definition is, None for one that is called with named arguments, and where an endpoint
    knows none.

    >>> custom_tool({"name": "sql", "description": "", "parameters": {}, "format": {"type": "text"}}, "openai_responses")
    {'type': 'custom', 'name': 'sql', 'description': '', 'format': {'type': 'text'}}
    """
    if "format" not in definition or wire not in _SPELLED:
        return None
    return _SPELLED[wire]({key: definition[key] for key in ("name", "description")}, definition["format"])
