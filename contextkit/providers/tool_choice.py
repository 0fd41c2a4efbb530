"""What the providers refuse of `tool_choice`.

Sources: `anthropic.types` 2.11 (tool_choice_*_param.py); `openai.types` 3.52
(chat/chat_completion_allowed_tools_param.py, responses/tool_choice_*_param.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from contextkit.canonical import Json
from contextkit.providers.anthropic import shapes as anthropic
from contextkit.providers.openai import shapes as openai
from contextkit.providers.validation import ReceivedRequest, Refusal

_PARALLEL = frozenset({"type", "disable_parallel_tool_use"})
_FIELDS = {"tool": _PARALLEL | {"name"}, "none": frozenset({"type"})}
"""Type of `tool_choice` → its fields; `_PARALLEL` for the others."""
_WORDS = ("none", "auto", "required")
_MODES = ("auto", "required")


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


def chat_choice(received: ReceivedRequest) -> Iterator[Refusal]:
    """`tool_choice` of Chat: a word, one tool, or `allowed_tools` with its fields nested."""
    choice = received.body.get("tool_choice")
    if isinstance(choice, dict):
        names = {_chat_name(tool) for tool in received.body.get("tools") or ()}
        yield from _chosen(choice, names, _chat_name, {"function", "custom"}, "allowed_tools")
    elif choice is not None and choice not in _WORDS:
        yield _wrong("tool_choice", f"expected one of {', '.join(_WORDS)}")


def responses_choice(received: ReceivedRequest) -> Iterator[Refusal]:
    """`tool_choice` of Responses: a word, one tool, or `allowed_tools` with its fields beside its type."""
    choice = received.body.get("tool_choice")
    if choice not in (None, "none", "auto") and not received.body.get("tools"):
        yield openai.invalid(
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.", "tool_choice"
        )
    elif isinstance(choice, dict):
        tools = [
            tool
            for tool in (*(received.body.get("tools") or ()), *_given(received.body.get("input")))
            if isinstance(tool, dict)
        ]
        yield from _chosen(
            choice, set(map(_responses_name, tools)), _responses_name, {str(tool.get("type")) for tool in tools}, ""
        )
    elif choice is not None and choice not in _WORDS:
        yield _wrong("tool_choice", f"expected one of {', '.join(_WORDS)}")


def _given(said: Json) -> list[Json]:
    """Tools that items of the input bring: those that came late, and those that a search found."""
    items = [item for item in said if isinstance(item, dict)] if isinstance(said, list) else []
    return [tool for item in items if item.get("type") in _BRINGING for tool in item.get("tools") or ()]


_BRINGING = ("additional_tools", "tool_search_output")
_Name = tuple[str, ...]
"""What says which tool is meant: its type, and its name or server."""


def _chat_name(tool: Json) -> _Name:
    kind = str(tool.get("type")) if isinstance(tool, dict) else ""
    inside = tool.get(kind) if isinstance(tool, dict) else None
    return (kind, str(inside.get("name"))) if isinstance(inside, dict) else (kind,)


def _responses_name(tool: Json) -> _Name:
    if not isinstance(tool, dict):
        return ()
    label = tool.get("server_label", tool.get("name"))
    return (str(tool.get("type")),) if label is None else (str(tool.get("type")), str(label))


def _chosen(
    choice: Mapping[str, Json], names: set[_Name], name_of: Callable[[Json], _Name], kinds: set[str], nested: str
) -> Iterator[Refusal]:
    if choice.get("type") != "allowed_tools":
        yield from _one(choice, names, name_of, kinds, "tool_choice")
        return
    path = f"tool_choice.{nested}".rstrip(".")
    inside = choice.get(nested) if nested else {key: value for key, value in choice.items() if key != "type"}
    if not isinstance(inside, dict) or (nested and set(choice) != {"type", nested}):
        yield _wrong(path, "expected an object with mode and tools")
    elif set(inside) != {"mode", "tools"} or inside["mode"] not in _MODES:
        yield _wrong(f"{path}.mode", "expected mode 'auto' or 'required' and tools, and nothing else")
    elif not isinstance(inside["tools"], list) or not inside["tools"]:
        yield _wrong(f"{path}.tools", "expected an array with minimum length 1")
    else:
        for index, tool in enumerate(inside["tools"]):
            yield from _one(tool, names, name_of, kinds, f"{path}.tools[{index}]")


def _one(
    tool: Json, names: set[_Name], name_of: Callable[[Json], _Name], kinds: set[str], path: str
) -> Iterator[Refusal]:
    if not isinstance(tool, dict) or str(tool.get("type")) not in kinds:
        yield _wrong(f"{path}.type", f"expected one of {', '.join(sorted(kinds)) or 'the tools'}")
    elif name_of(tool) not in names:
        yield _wrong(path, "this tool is not among 'tools'")


def _wrong(path: str, what: str) -> Refusal:
    return openai.invalid(f"Invalid value for '{path}': {what}.", path, "invalid_value")
