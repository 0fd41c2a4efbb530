"""Where a program marks a prompt for caching: the blocks that carry a marker, as far as they can be told from code.

How markers are spelled is known from the tables `[[marker]]`. Knows no hazard.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from contextkit.lint.source.graph import Context, Function, Module, Node
from contextkit.lint.source.knowledge import Knowledge
from contextkit.lint.source.program import Program
from contextkit.lint.source.search import Frame, Search, State

_REMOVALS: Final = frozenset({"pop", "del", "remove"})
_DEEPEST: Final = 6


@dataclass(frozen=True, slots=True)
class Markers:
    """How markers are spelled."""

    keys: frozenset[str]
    """Keys of a block under which a marker stands: `cache_control`."""
    own_blocks: frozenset[str]
    """Keys of a block that is nothing but a marker for the block before it: `cachePoint`."""
    automatic: frozenset[str]
    """Arguments of a request that have the provider mark by itself."""
    not_on: frozenset[str]
    """Types of blocks that carry none."""
    lifetimes: dict[str, int]
    """Lifetime → its rank; a longer one has to stand in front."""
    default_lifetime: str
    maximum: int

    @staticmethod
    def of(knowledge: Knowledge) -> Markers:
        """From the tables."""
        rows = knowledge.sections.get("marker", [])
        ordered = [row for row in rows if row.get("longest_first")]
        automatic = {name for row in rows for name in row.get("automatic", ())}
        automatic |= {
            name for row in knowledge.sections.get("automatic_marker", ()) for name in row.get("arguments", ())
        }
        return Markers(
            frozenset(row["key"] for row in rows),
            frozenset(row["key"] for row in rows if row.get("is_own_block")),
            frozenset(automatic),
            frozenset(name for row in ordered for name in row.get("not_on", ())),
            {name: rank for row in ordered for rank, name in enumerate(row.get("ttl", ()))},
            next((row["default_ttl"] for row in ordered), ""),
            min((row["maximum"] for row in rows), default=4),
        )

    def of_node(self, node: Node) -> Node | None:
        """The marker that a value puts on a block: a dict that has one, `block["cache_control"] = …`, an argument."""
        if node.kind == "dict":
            return next((value for key, value in zip(node.value, node.inputs, strict=True) if key in self.keys), None)
        if node.kind == "update" and node.name == "setitem" and node.value and node.value[-1] in self.keys:
            return None if _is_none(node.inputs[1]) else node.inputs[1]
        if node.kind == "call":
            return next((value for key, value in node.value if key in self.keys and not _is_none(value)), None)
        return None

    def is_removal(self, node: Node) -> bool:
        """Return whether a change takes a marker off."""
        if node.name in _REMOVALS and any(one.kind == "const" and one.value in self.keys for one in node.inputs[1:]):
            return True
        return node.name == "setitem" and bool(node.value) and node.value[-1] in self.keys and _is_none(node.inputs[1])

    def in_module(self, module: Module) -> bool:
        """Return whether a file marks anything."""
        return bool(marks_in(module, self)) or not self.keys.isdisjoint(module.other_stores)

    def removes(self, function: Function, program: Program) -> bool:
        """Return whether markers are taken off by a function, another method of its class, those that call it, or what those call."""
        near = {function, *(call.context.function for call, _ in program.callers(function))}
        called = {
            target.function
            for call in function.module.calls
            if call.context.function in near
            for target in program.targets(call)
        }
        return any(
            self.is_removal(node)
            for one in {function.module, *(other.module for other in called)}
            for node in one.updates
            if node.context.function in near | called
            or (function.cls is not None and node.context.function.cls is function.cls)
        )


def _is_none(node: Node) -> bool:
    return node.kind == "const" and node.value is None


@dataclass(frozen=True, slots=True)
class Block:
    """A block that a request holds in every case."""

    node: Node
    """Its dict; any other value where it is not known, or a text."""
    stack: tuple[Frame, ...]
    marker: Node | None
    """None for a block without one."""

    @property
    def text(self) -> Node | None:
        """Its text, None where it has none."""
        return field_of(self.node, "text") if self.node.kind == "dict" else self.node


def field_of(node: Node, *keys: str) -> Node | None:
    """The value of a dict display under the first of some keys it has."""
    for key in keys:
        if key in node.value:
            return node.inputs[node.value.index(key)]  # type: ignore[no-any-return]
    return None


def blocks(node: Node, search: Search, markers: Markers, stack: tuple[Frame, ...] = (), depth: int = 0) -> list[Block]:
    """The blocks that a value holds in every case, in order; what is not known is a block whose node is no dict."""
    while node.kind in {"update", "out"}:
        node = node.inputs[0]
    if node.kind not in {"list", "tuple", "dict", "const"} and depth <= _DEEPEST:
        states = search.objects(node, stack=stack)
        if len(states) == 1 and states[0].node.kind in {"list", "tuple", "dict"} and not _is_changed(states[0]):
            node, stack = states[0].node, states[0].stack
    if node.kind == "dict":
        inner = field_of(node, "content") if "role" in node.value else None
        if inner is None:
            return [Block(node, stack, markers.of_node(node))]
        return blocks(inner, search, markers, stack, depth + 1)
    if node.kind in {"list", "tuple"} and depth <= _DEEPEST:
        parts = (part.inputs[0] if part.kind == "star" else part for part in node.inputs)
        return [block for part in parts for block in blocks(part, search, markers, stack, depth + 1)]
    return [Block(node, stack, None)]


def display_of(node: Node, search: Search) -> Node:
    """The list or dict that a value is, through functions that give it back; the value itself where that is not known."""
    if node.kind in {"list", "dict"}:
        return node
    states = search.objects(node)
    is_one = len(states) == 1 and states[0].node.kind in {"list", "dict", "call"} and not _is_changed(states[0])
    return states[0].node if is_one else node


def _is_changed(state: State) -> bool:
    return any(one.node.kind in {"update", "out"} for one in state.chain())


def length_of(node: Node, search: Search, stack: tuple[Frame, ...] = (), depth: int = 0) -> int | None:
    """Characters of a text at most, None where it is not known."""
    if node.kind == "const":
        return len(node.value) if isinstance(node.value, str) else 0
    if depth > _DEEPEST:
        return None
    if node.kind == "join":
        parts = [length_of(part, search, stack, depth + 1) for part in node.inputs]
        return None if None in parts else sum(part or 0 for part in parts)
    states = search.objects(node, stack=stack)
    lengths = [length_of(state.node, search, state.stack, depth + 1) for state in states if state.node is not node]
    return max((one for one in lengths if one is not None), default=None) if lengths and None not in lengths else None


def least_length(node: Node, search: Search, stack: tuple[Frame, ...] = (), depth: int = 0) -> int:
    """Characters of constant text that a text holds."""
    if node.kind == "const":
        return len(node.value) if isinstance(node.value, str) else 0
    if depth > _DEEPEST:
        return 0
    if node.kind in {"join", "list", "tuple", "dict"}:
        return sum(least_length(part, search, stack, depth + 1) for part in node.inputs)
    states = search.objects(node, stack=stack)
    return max(
        (least_length(state.node, search, state.stack, depth + 1) for state in states if state.node is not node),
        default=0,
    )


_BLOCK_TYPES = frozenset({"text", "image", "document", "tool_result", "tool_use"})


def is_bounded(iterable: Node, search: Search, most: int) -> bool:
    """Return whether what a loop goes through is known to be short: a slice, a display, a part that was chosen."""
    origins = search.origins(iterable, mode="list", kinds=frozenset())
    if any(origin.kind in {"slice", "comp", "call"} for origin in origins):
        return True
    if any(
        one.node.kind in {"phi", "iter", "item"} and one.node is iterable
        for one in (origin.state for origin in origins)
    ):
        return True
    items = [origin for origin in origins if origin.kind == "item"]
    return bool(items) and len(items) <= most and not any(origin.kind in {"open", "update"} for origin in origins)


def loop_of(node: Node) -> Context | None:
    """The loop in every round of which a value is made; None in a branch, or in a loop that is left early.

    A branch for what can carry a marker at all (`if isinstance(block, dict)`) is none.
    """
    context: Context | None = node.context
    while context is not None and context.kind == "if" and context.test is not None and _asks_shape(context.test):
        context = context.parent
    return context if context is not None and context.kind == "for" and not context.has_exits else None


def _asks_shape(test: Node) -> bool:
    """Return whether a condition asks what an element is, rather than which one: its class, its type, whether it is
    empty.
    """
    if test.kind == "phi":
        return all(map(_asks_shape, test.inputs))
    if test.kind == "call":
        return test.name in {"isinstance", "hasattr", "bool"}
    if test.kind == "compare":
        return test.name == "eq" and any(side.kind == "const" and side.value in _BLOCK_TYPES for side in test.inputs)
    return False


def conditions_of(node: Node) -> Iterator[Node]:
    """The conditions a value is made under, innermost first."""
    for context in node.context.chain():
        if context.kind == "if" and context.test is not None:
            yield context.test


def parts_of(node: Node) -> Iterator[Node]:
    """A value and what is written in its expression, calls' arguments too."""
    waiting = [node]
    visited: set[int] = set()
    while waiting and len(visited) < 200:
        one = waiting.pop()
        if id(one) in visited:
            continue
        visited.add(id(one))
        yield one
        waiting += one.inputs
        if one.kind == "call":
            waiting += [value for _, value in one.value]


def marks_in(module: Module, markers: Markers) -> list[Node]:
    """What puts a marker on a block in a file."""
    return [node for node in (*module.dicts, *module.updates, *module.calls) if markers.of_node(node) is not None]
