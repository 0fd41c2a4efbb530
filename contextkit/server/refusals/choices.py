"""What the providers refuse of `tool_choice`, and of tools withdrawn and given back between turns.

Sources: `anthropic.types` 2.11 (tool_choice_*_param.py, beta/beta_request_tool_removal_block_param.py), mid-conversation system messages
docs; `openai.types` 3.52 (chat/chat_completion_allowed_tools_param.py, responses/tool_choice_*_param.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from contextkit.canonical import Json
from contextkit.providers.masking.mechanisms import TOOL_CHANGES
from contextkit.server.refusals import anthropic_shape as anthropic
from contextkit.server.refusals import openai_shape as openai
from contextkit.server.refusals.refusal import Refusal, Sent

_INLINE = "inline-tools-2026-09-15"
_BETAS = frozenset({TOOL_CHANGES, _INLINE})
"""Headers that allow tools to change between turns."""
_REFERENCES = {"tool_reference": "name", "mcp_tool_reference": "server_name", "mcp_toolset_reference": "server_name"}
"""Type of a reference → the field that says what it stands for."""
_CHANGES = frozenset({"tool_addition", "tool_removal"})
_SPOKEN = frozenset({"text", *_CHANGES})
"""Types of blocks a system message between turns may hold."""
_PARALLEL = frozenset({"type", "disable_parallel_tool_use"})
_FIELDS = {"tool": _PARALLEL | {"name"}, "none": frozenset({"type"})}
"""Type of `tool_choice` → its fields; `_PARALLEL` for the others."""
_WORDS = ("none", "auto", "required")
_MODES = ("auto", "required")


def tool_changes(sent: Sent) -> Iterator[Refusal]:
    """A system message holds text and changes; a change needs its beta header, and stands for a tool there is."""
    betas = {name.strip() for name in str(sent.headers.get("anthropic-beta", "")).split(",")}
    names = {tool.get("name") for tool in sent.body.get("tools") or () if isinstance(tool, dict)}
    for at in anthropic.placed(sent.body):
        kind = at.block.get("type")
        if at.role == "system" and kind not in _SPOKEN:
            yield anthropic.invalid(f"{at.path}: `{kind}` blocks are not permitted in `system` messages")
        if kind == "tool_addition" and _INLINE in betas and at.block["tool"].get("type") == "tool_definition":
            names.add((at.block["tool"].get("definition") or {}).get("name"))
        elif kind in _CHANGES:
            yield from _changed(at, names, bool(betas & _BETAS))


def _changed(at: anthropic.Placed, names: set[Json], is_open: bool) -> Iterator[Refusal]:
    tool = at.block["tool"]
    field = _REFERENCES.get(str(tool.get("type")))
    if not is_open:
        yield anthropic.invalid(f"{at.path}: `{at.block['type']}` blocks require the beta header {TOOL_CHANGES}")
    elif field is None:
        yield anthropic.invalid(f"{at.path}.tool: Input tag found using 'type' does not match any of the expected tags")
    elif not isinstance(tool.get(field), str):
        yield anthropic.invalid(f"{at.path}.tool.{field}: Field required")
    elif unknown := sorted(set(tool) - {"type", "name", "server_name"}):
        yield anthropic.invalid(f"{at.path}.tool.{unknown[0]}: Extra inputs are not permitted")
    elif tool["type"] == "tool_reference" and tool["name"] not in names:
        yield anthropic.invalid(f"{at.path}.tool: tool_reference_unresolved: no tool named '{tool['name']}' in `tools`")


def named(sent: Sent) -> Iterator[Refusal]:
    """`tool_choice` of type tool names a tool there is; the others name none."""
    choice = sent.body.get("tool_choice") or {}
    kind, name = choice.get("type"), choice.get("name")
    names = {tool.get("name") for tool in sent.body.get("tools") or () if isinstance(tool, dict)}
    if kind == "tool" and name is None:
        yield anthropic.invalid("tool_choice.tool.name: Field required")
    elif kind == "tool" and sent.body.get("tools") and name not in names:
        yield anthropic.invalid(f"tool_choice.tool.name: Tool '{name}' not found in provided tools")
    if kind is not None and (unknown := sorted(set(choice) - _FIELDS.get(str(kind), _PARALLEL))):
        yield anthropic.invalid(f"tool_choice.{kind}.{unknown[0]}: Extra inputs are not permitted")


def chat_choice(sent: Sent) -> Iterator[Refusal]:
    """`tool_choice` of Chat: a word, one tool, or `allowed_tools` with its fields nested."""
    choice = sent.body.get("tool_choice")
    if isinstance(choice, dict):
        names = {_chat_name(tool) for tool in sent.body.get("tools") or ()}
        yield from _chosen(choice, names, _chat_name, {"function", "custom"}, "allowed_tools")
    elif choice is not None and choice not in _WORDS:
        yield _wrong("tool_choice", f"expected one of {', '.join(_WORDS)}")


def responses_choice(sent: Sent) -> Iterator[Refusal]:
    """`tool_choice` of Responses: a word, one tool, or `allowed_tools` with its fields beside its type."""
    choice = sent.body.get("tool_choice")
    if choice not in (None, "none", "auto") and not sent.body.get("tools"):
        yield openai.invalid("Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.", "tool_choice")
    elif isinstance(choice, dict):
        names = {_responses_name(tool) for tool in sent.body.get("tools") or () if isinstance(tool, dict)}
        kinds = {str(tool.get("type")) for tool in sent.body.get("tools") or () if isinstance(tool, dict)}
        yield from _chosen(choice, names, _responses_name, kinds, "")
    elif choice is not None and choice not in _WORDS:
        yield _wrong("tool_choice", f"expected one of {', '.join(_WORDS)}")


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


def _one(tool: Json, names: set[_Name], name_of: Callable[[Json], _Name], kinds: set[str], path: str) -> Iterator[Refusal]:
    if not isinstance(tool, dict) or tool.get("type") not in kinds:
        yield _wrong(f"{path}.type", f"expected one of {', '.join(sorted(kinds)) or 'the tools'}")
    elif name_of(tool) not in names:
        yield _wrong(path, "this tool is not among 'tools'")


def _wrong(path: str, what: str) -> Refusal:
    return openai.invalid(f"Invalid value for '{path}': {what}.", path, "invalid_value")
