"""What the agents have in common: a long guide, tools, and a conversation with a made-up model's replies."""

from __future__ import annotations

from typing import Any

CLAUDE, GPT = "claude-sonnet-5-5", "gpt-6.1-sol"
GUIDE = "Answer briefly, name your sources, and never guess what a file holds. " * 120
REPORT = "The build went through; two tests of the parser are slow on this machine. " * 120
MARK = {"cache_control": {"type": "ephemeral"}}


def tool(name: str, description: str = "") -> dict[str, Any]:
    """A tool of Anthropic's."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    return {"name": name, "description": description or f"{name} a file. {GUIDE[:400]}", "input_schema": schema}


def text(content: str, *, marked: bool = False) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": content, **(MARK if marked else {})}


def user(content: Any) -> dict[str, Any]:
    """A message of the user."""
    return {"role": "user", "content": content}


def reply(content: Any) -> dict[str, Any]:
    """A message of the model."""
    return {"role": "assistant", "content": content}
