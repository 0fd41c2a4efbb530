"""Rules about what a marker stands on: text that varies (CKB02, CKS08), a message that gets another shape for it (CKM10), and middleware
that marks before the prompt is complete (CKS09).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from contextkit.lint.finding import Fix
from contextkit.lint.source.analysis import Analysis, Hit, text_of, trail_of
from contextkit.lint.source.flows import frequency_of
from contextkit.lint.source.graph import Function, Module, Node
from contextkit.lint.source.rules import edits
from contextkit.lint.source.rules.marks import Markers, conditions_of, display_of, field_of, least_length, parts_of
from contextkit.lint.source.search import Origin, Search, State

CODES: Final = frozenset({"CKB02", "CKS08", "CKM10", "CKS09"})
_KINDS: Final = frozenset({"clock", "id", "recall", "user", "choice", "plan", "counter"})
_OFTEN: Final = frozenset({"call", "turn", "request"})
_MUCH_TEXT: Final = 400
"""Characters of text that stays, from which on it is worth a block of its own."""


def find(analysis: Analysis) -> Iterator[Hit]:
    """All findings."""
    markers = Markers.of(analysis.knowledge)
    yield from _varying(analysis, markers)
    for module in analysis.modules:
        for node in (*module.updates, *module.dicts):
            yield from _flipped(analysis, markers, node)
        for call in module.calls:
            supplied = call.argument("middleware", "middlewares")
            if supplied is not None:
                yield from _misplaced(analysis, _items(supplied, analysis.search))


# CKB02, CKS08: a marker on text that varies


def _varying(analysis: Analysis, markers: Markers) -> Iterator[Hit]:
    for sink in analysis.sinks:
        if sink.kind != "system":
            continue
        results = analysis.search.origins(
            sink.node, path=sink.path, kinds=_KINDS, stack=sink.stack, lifetime=sink.lifetime, is_system=True
        )
        origins = [one for one in results if one.kind in _KINDS and one.node.position is not None]
        for origin in origins:
            marked = _marked_block(origin, markers)
            if any(_is_picked(one.node) for one in origin.state.chain()):
                continue
            if marked is None or frequency_of(origin, sink, analysis.search) not in _OFTEN:
                continue
            block, text, row, marker = marked
            source, trail = f"`{text_of(origin.node)}`", trail_of(origin.state, sink.label, sink.place)
            if least_length(text, analysis.search) >= _MUCH_TEXT or _reads_a_file(text, analysis):
                message = f"{source} varies and stands in one marked block with text that stays: all of it is written anew each time"
                yield Hit("CKS08", message, block, trail)
            else:
                message = f"the marker stands on a block that holds {source}: what is written there is never read"
                yield Hit("CKB02", message, block, trail, _moved(block, row, marker, origins, markers))


def _is_picked(node: Node) -> bool:
    """Return whether it is the content of a message out of a list: which message, and whether it varies, is not
    known.
    """
    return node.kind in {"attr", "item"} and _is_content(node) and node.inputs[0].kind == "iter"


def _marked_block(origin: Origin, markers: Markers) -> tuple[Node, Node, Node | None, Node | None] | None:
    """The marked block that holds a value, its text, the list it stands in, and the marker where it is written in the block."""
    states = list(origin.state.chain())
    block: Node | None = None
    text = origin.node
    row: Node | None = None
    for child, parent in pairwise(states):
        node = parent.node
        if node.kind == "dict" and block is None and child.node is field_of(node, "text", "content"):
            block, text, marker = node, child.node, markers.of_node(node)
            if marker is not None:
                return block, text, _row_of(parent), marker
        elif block is not None and node.kind == "list" and row is None and block in node.inputs:
            row = node
            index = node.inputs.index(block)
            behind = node.inputs[index + 1] if index + 1 < len(node.inputs) else None
            if behind is not None and behind.kind == "dict" and not markers.own_blocks.isdisjoint(behind.value):
                return block, text, row, None
        elif (
            block is not None
            and row is not None
            and node.kind == "update"
            and markers.of_node(node) is not None
            and len(node.value) > 1
        ):
            index, wanted = row.inputs.index(block), node.value[-2]
            if isinstance(wanted, int) and index == (wanted if wanted >= 0 else len(row.inputs) + wanted):
                return block, text, row, None
    return None


def _row_of(state: State) -> Node | None:
    above = state.parent.node if state.parent is not None else None
    return above if above is not None and above.kind == "list" and state.node in above.inputs else None


def _reads_a_file(text: Node, analysis: Analysis) -> bool:
    return any(origin.kind == "file" for origin in analysis.search.origins(text, kinds=frozenset({"file"})))


def _moved(block: Node, row: Node | None, marker: Node | None, origins: list[Origin], markers: Markers) -> Fix | None:
    """The marker on the block before, where that one stays and has none."""
    index = row.inputs.index(block) if row is not None else 0
    if row is None or marker is None or index == 0:
        return None
    previous = row.inputs[index - 1]
    if previous.kind != "dict" or markers.of_node(previous) is not None or field_of(previous, "text") is None:
        return None
    if any(one.node is previous for origin in origins for one in origin.state.chain()):
        return None
    key = next(key for key, value in zip(block.value, block.inputs, strict=True) if value is marker)
    return edits.move_marker(block, previous, key, marker)


# CKM10: another shape for the marker


def _flipped(analysis: Analysis, markers: Markers, node: Node) -> Iterator[Hit]:
    """A string becomes a list of one block where it gets a marker, and only there."""
    if node.position is None or _is_straight(node.module):
        return
    content: Node | None = None
    if node.kind == "update" and node.name == "setitem" and node.value[-1] == "content" and node.value[0] != 0:
        content = node.inputs[1]
    elif node.kind == "dict" and "**" in node.value:
        content = field_of(node, "content")
    content = display_of(content, analysis.search) if content is not None else None
    if content is None or content.kind != "list" or len(content.inputs) != 1:
        return
    block = display_of(content.inputs[0], analysis.search)
    text = field_of(block, "text") if block.kind == "dict" and markers.of_node(block) is not None else None
    if text is None or not any(_is_content(one) for one in parts_of(text)):
        return
    tests = list(conditions_of(node))
    if not any(_asks_for_string(test) for test in tests):
        return
    if (
        any(_names_system(test) for test in tests)
        or _is_for_system(analysis, node.context.function)
        or _is_straightened(markers, node)
    ):
        return
    yield Hit(
        "CKM10", "content becomes a list only where it gets a marker: without it the same text is a string again", node
    )


def _is_straight(module: Module) -> bool:
    """Return whether a file talks to Anthropic's own API, which tells no string from a list of one text."""
    imported = {node.name.partition(".")[0] for nodes in module.top.values() for node in nodes if node.kind == "ref"}
    return "anthropic" in imported or "anthropic" in module.name.rpartition(".")[2]


def _is_content(node: Node) -> bool:
    """`message["content"]`, `message.get("content")`, `message.content`."""
    if node.kind == "item":
        return bool(node.value == "content")
    if node.kind == "call" and node.name.rpartition(".")[2] == "get" and node.value:
        return bool(node.value[0][1].kind == "const" and node.value[0][1].value == "content")
    return (node.kind == "attr" and node.name == "content") or (node.kind == "param" and node.name == "content")


def _asks_for_string(test: Node) -> bool:
    return any(
        one.kind == "call"
        and one.name == "isinstance"
        and len(one.value) > 1
        and any(part.name.removeprefix("~") == "str" for part in parts_of(one.value[1][1]))
        for one in parts_of(test)
    )


def _names_system(test: Node) -> bool:
    return any(one.kind == "const" and one.value in {"system", "developer"} for one in parts_of(test))


def _is_for_system(analysis: Analysis, function: Function) -> bool:
    """Return whether a function is called for system messages alone, which are marked in every request alike."""
    callers = analysis.program.callers(function)
    return "system" in function.name or (
        bool(callers) and all(any(map(_names_system, conditions_of(call))) for call, _ in callers)
    )


def _is_straightened(markers: Markers, node: Node) -> bool:
    """Return whether the same function makes lists of strings without a marker, too."""
    for other in node.module.updates:
        if (
            other is not node
            and other.context.function is node.context.function
            and other.name == "setitem"
            and other.value[-1] == "content"
        ):
            content = other.inputs[1]
            if (
                content.kind == "list"
                and content.inputs
                and content.inputs[0].kind == "dict"
                and markers.of_node(content.inputs[0]) is None
            ):
                return True
    return False


# The order of middleware (CKS09)


_GIVEN: Final = "*"
"""Stands for middleware that is handed over."""


def _items(node: Node, search: Search, visited: frozenset[int] = frozenset()) -> list[tuple[str, Node]]:
    """The names of the middleware in a list, in order, with where each is put in."""
    if id(node) in visited:
        return []  # a list that grows in a loop
    visited |= {id(node)}
    if node.kind == "list":
        return [(_GIVEN, one) if one.kind == "star" else (_name(one, search), one) for one in node.inputs]
    if node.kind == "update" and not node.value:
        before = _items(node.inputs[0], search, visited)
        if node.name == "append" and len(node.inputs) > 1:
            return [*before, (_name(node.inputs[1], search), node)]
        if node.name in {"extend", "+="} and len(node.inputs) > 1:
            added = display_of(node.inputs[1], search)
            return [*before, *(_items(added, search, visited) if added.kind == "list" else [(_GIVEN, node)])]
        return before
    if node.kind == "phi":
        return max((_items(one, search, visited) for one in node.inputs), key=len)
    if node.kind == "out":
        return _items(node.inputs[0], search, visited)
    made = display_of(node, search)
    return _items(made, search, visited) if made.kind == "list" else []


def _name(node: Node, search: Search) -> str:
    made = display_of(node, search) if node.kind != "ref" else node
    return made.name.rpartition(".")[2] if made.kind in {"call", "ref"} else ""


def _misplaced(analysis: Analysis, items: list[tuple[str, Node]]) -> Iterator[Hit]:
    """One that adds stable text behind the one that sets the marker, or one that varies in front of it."""
    roles = {row["role"]: tuple(row["names"]) for row in analysis.knowledge.sections.get("middleware", ())}
    marks = next((index for index, (name, _) in enumerate(items) if name.endswith(roles.get("marks", ()))), None)
    if marks is None:
        return
    for index, (name, node) in enumerate(items):
        if index < marks and name.endswith(roles.get("varies", ())):
            yield Hit(
                "CKS09",
                f"{name} comes before {items[marks][0]}: text that changes stands inside of what is cached",
                node,
            )
        elif index > marks and (name == _GIVEN or name.endswith(roles.get("adds", ()))):
            what = "what the caller hands over" if name == _GIVEN else name
            yield Hit(
                "CKS09", f"{what} comes behind {items[marks][0]}: the marker is set before the prompt is complete", node
            )
