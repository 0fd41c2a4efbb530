"""Rules about tools that some requests of a conversation have and others do not."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from contextkit.lint.source.analysis import Analysis, Hit, text_of, trail_of
from contextkit.lint.source.graph import Node, plain
from contextkit.lint.source.program import Target
from contextkit.lint.source.rules.history import _is_length, _within
from contextkit.lint.source.search import Origin
from contextkit.lint.source.sinks import Sink

CODES: Final = frozenset({"CKT03", "CKT04"})
_LAST: Final = re.compile(
    r"last|final|max|step|iteration|turn|round|attempt|remaining|left|budget|force|limit|depth|exhaust", re.IGNORECASE
)


def find(analysis: Analysis) -> Iterator[Hit]:
    """Requests that drop the tools near the end of a run."""
    by_function: dict[int, list[Sink]] = defaultdict(list)
    for sink in analysis.sinks:
        if sink.conversation is None or sink.conversation.kind not in {"kept", "loop"} or sink.call is None:
            continue
        if sink.kind == "tools":
            yield from _dropped(sink, analysis)
            yield from _omitted_tools(sink, analysis)
        by_function[id(sink.call.context.function)].append(sink)
    for sinks in by_function.values():
        yield from _without(sinks)


def _dropped(sink: Sink, analysis: Analysis) -> Iterator[Hit]:
    """`tools=[] if is_last_step else TOOLS`, `if step == MAX: tools = None`."""
    for origin in analysis.search.origins(sink.node, path=sink.path, mode="list", kinds=frozenset(), most=600):
        node = origin.node
        if (
            origin.kind == "branch"
            and node.name == "if"
            and any(_is_none(one) for one in node.inputs)
            and not all(map(_is_none, node.inputs))
        ):
            test = node.value
            if test is not None and _asks_end(test):
                at = next(
                    (one for one in node.inputs if _is_none(one) and one.position is not None),
                    node if node.position is not None else sink.place,
                )
                yield Hit(
                    "CKT04", _message(test, sink), at, trail_of(origin.state, sink.label, sink.place), None, sink.place
                )
        elif sink.call is not None and _is_added(origin):
            loops = {id(loop) for loop in sink.call.context.loops()}
            if any(id(loop) in loops for loop in node.context.loops()):
                message = f"`{text_of(node)}` adds tools while the conversation goes on: the prefix changes from there"
                yield Hit("CKT03", message, node, trail_of(origin.state, sink.label, sink.place), None, node)
        elif origin.kind == "update" and _is_about_tools(node):
            kinds = {"if", "else"} if node.name != "setitem" else {"if"}
            tests = [one.test for one in node.context.chain() if one.kind in kinds and one.test is not None]
            ending = next((test for test in tests if _asks_end(test)), None)
            if ending is not None:
                trail = trail_of(origin.state, sink.label, sink.place)
                yield Hit("CKT04", _message(ending, sink), node, trail, None, sink.place)


def _is_about_tools(node: Node) -> bool:
    """Return whether a change takes the tools out of a request's arguments, or puts them in."""
    if node.name == "setitem":
        return bool(node.value == ("tools",))
    return node.name in {"pop", "del"} and any(one.kind == "const" and one.value == "tools" for one in node.inputs)


def _is_added(origin: Origin) -> bool:
    """`tools.append(extra)`, or `tools = tools + [extra]` round after round."""
    node = origin.node
    if origin.kind == "update":
        return node.name in {"append", "extend", "+=", "insert"} and not node.value
    if origin.kind != "join":
        return False
    first = node.inputs[0]
    while first.kind in {"update", "out", "join"} and first.inputs:
        first = first.inputs[0]
    return first.kind == "phi" and first.name == "loop"


def _omitted_tools(sink: Sink, analysis: Analysis) -> Iterator[Hit]:
    """A last call of the function that sends the request, without the tools that the calls before it give."""
    if sink.node.kind != "param" or sink.path:
        return
    by_caller: dict[int, list[tuple[Node, Target]]] = defaultdict(list)
    for call, target in analysis.program.callers(sink.node.value):
        by_caller[id(call.context.function)].append((call, target))
    for calls in by_caller.values():
        supplied = []
        for call, target in calls:
            if any(not _is_none(node) for node, _ in analysis.program.arguments(call, target, sink.node.name)):
                supplied.append(call)
        for call, _ in calls:
            if call in supplied or call.position is None or "**" in {key for key, _ in call.value}:
                continue
            lists = {
                id(_base(node))
                for _, node in call.value
                if node.kind in {"param", "list", "attr", "update", "phi", "out"}
            }
            before = [
                one
                for one in supplied
                if one.position is not None and one.position.line < call.position.line and one.context.loops()
            ]
            if any(id(_base(node)) in lists for one in before for _, node in one.value):
                message = "the request has no tools, unlike the requests before it: nothing of their prefix is read"
                yield Hit("CKT04", message, call, (), None, call)


def _without(sinks: list[Sink]) -> Iterator[Hit]:
    """A last request of the same conversation that leaves the tools out."""
    with_tools = {id(sink.call): sink for sink in sinks if sink.kind == "tools" and not _is_none(sink.node)}
    for sink in sinks:
        if sink.kind != "messages" or sink.call is None or id(sink.call) in with_tools or not with_tools:
            continue
        if any(key == "**" for key, _ in sink.call.value) or sink.call.name == "request":
            continue
        for other in sinks:
            if other.kind != "messages" or other.call is None or id(other.call) not in with_tools:
                continue
            is_same = _has_same_model(sink.call, other.call) and _base(other.node) is _base(sink.node)
            if is_same and _is_behind(sink.call, other.call):
                first, second = other.call.position, sink.call.position
                if first is not None and second is not None and second.line > first.line:
                    message = "the request has no tools, unlike the requests before it: nothing of their prefix is read"
                    yield Hit("CKT04", message, sink.call, (), None, sink.call)
                    break


def _is_behind(last: Node, other: Node | None) -> bool:
    """Return whether a request comes behind the loop that sends the other one."""
    if other is None:
        return False
    loops = {id(loop) for loop in last.context.loops()}
    return any(id(loop) not in loops for loop in other.context.loops())


def _has_same_model(one: Node, other: Node | None) -> bool:
    """Return whether two requests may be of one model: of different ones, neither reads what the other wrote."""
    models = [call.argument("model") for call in (one, other) if call is not None]
    constants = [model.value for model in models if model is not None and model.kind == "const"]
    return len(constants) < 2 or constants[0] == constants[1]


def _base(node: Node) -> Node:
    """The list that was there first."""
    for _ in range(200):
        if node.kind in {"update", "phi", "out"} and node.inputs:
            node = node.inputs[0]
        else:
            return node
    return node


def _is_none(node: Node) -> bool:
    return (node.kind == "const" and node.value is None) or (node.kind in {"list", "tuple"} and not node.inputs)


def _asks_end(test: Node) -> bool:
    """Return whether a condition asks if this is the last step, rather than what there is to offer."""
    for one in _within(test):
        if one.kind == "compare" and one.name in {"lt", "lte", "gt", "gte", "eq"}:
            if any(side.kind == "const" and isinstance(side.value, str) for side in one.inputs):
                continue  # a mode, no number
            if any(
                _is_length(part) and re.search(r"messages|history", text_of(part))
                for side in one.inputs
                for part in _within(side)
            ):
                return True
            if any(_LAST.search(_name(side)) or _is_step(part) for side in one.inputs for part in _within(side)):
                return True
    return (
        re.search(r"\b(?:is_|force_|on_)?(?:last|final)(?:_\w+)?\b|force_(?:answer|text)|\bno_tools\b", text_of(test))
        is not None
    )


def _is_step(node: Node) -> bool:
    """The number of a turn of a loop: `i` of `for i in range(10)`."""
    iterable = plain(node.inputs[0]) if node.kind == "iter" else node
    return node.kind == "iter" and iterable.kind == "call" and iterable.name == "range"


def _name(node: Node) -> str:
    """What a side of a comparison is called where it is written."""
    return text_of(node) if node.position is not None and node.kind != "const" else node.name


def _message(test: Node, sink: Sink) -> str:
    return f"`{text_of(test)}` decides whether {sink.label} has any: the last request shares no prefix with those before it"
