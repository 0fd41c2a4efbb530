"""What Anthropic refuses of `tool_choice`.

Source: `anthropic.types` 2.11 (tool_choice_*_param.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from contextkit.providers.anthropic import shapes as anthropic
from contextkit.providers.validation import ReceivedRequest, Refusal

_PARALLEL = frozenset({"type", "disable_parallel_tool_use"})
_FIELDS = {"tool": _PARALLEL | {"name"}, "none": frozenset({"type"})}
"""Type of `tool_choice` → its fields; `_PARALLEL` for the others."""


def named(received: ReceivedRequest) -> Iterator[Refusal]:
    """`tool_choice` of type tool names a tool there is; the others name none."""
    choice = received.body.get("tool_choice") or {}
    kind, name = choice.get("type"), choice.get("name")
    names = {tool.get("name") for tool in received.body.get("tools") or () if isinstance(tool, dict)}
    if kind == "tool" and name is None:
        yield anthropic.invalid("tool_choice.tool.name: Field required")
    elif kind == "tool" and received.body.get("tools") and name not in names:
        yield anthropic.invalid(f"tool_choice.tool.name: Tool '{name}' not found in provided tools")
    if kind is not None and (unknown := sorted(set(choice) - _FIELDS.get(str(kind), _PARALLEL))):
        yield anthropic.invalid(f"tool_choice.{kind}.{unknown[0]}: Extra inputs are not permitted")
