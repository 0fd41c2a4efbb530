"""Rules that are rows: a kind of value reaches a kind of sink, made anew so often.

`rules.toml` beside this file holds the rows. This module says how often a value on its way to a sink is made anew.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from contextkit.lint.source.analysis import Analysis, Hit
from contextkit.lint.source.graph import Node, plain
from contextkit.lint.source.search import ALL_KINDS, PROCESS, SESSION, Origin, Search, State
from contextkit.lint.source.sinks import Sink, is_of

_MUCH_TEXT = 2000
"""Characters of constant text behind a value that are worth sharing between single requests: half the smallest prefix a
provider caches (512 tokens)."""
_TURNS = re.compile(r"turn|step|iter|round|attempt|remaining|left|budget", re.IGNORECASE)
_USUAL_DOUBT = 4
_MOST_DOUBT = {"unordered": 1, "arrival": 1, "paths": 2, "choice": 1, "id": 1, "counter": 1, "flag": 4, "user": 4}
"""Kind of source → how much may be guessed on the way to it."""
_RARE = frozenset({"clock", "date", "recall", "server", "plan", "user", "flag"})
_LONGEST, _MOST_FUNCTIONS, _FEW_FUNCTIONS = 40, 8, 4
"""Steps, and functions, that a way may lead through."""
_WEAK = 2
"""Doubt that a search begins with at what only its name says to be sent."""
_LOOKS = re.compile(
    r"(?:^|_)(?:search|retrieve|select|find|match|filter|query|rank|route|pick|choose|relevant|similar)(?:_|$)"
)
"""Names of functions that find what fits a text."""
_STEADY = frozenset({"place", "environ", "paths"})
"""Kinds of what is the same all session long."""
_UNKNOWN_TEXT = 600
"""Characters that text of unknown length counts for."""


@dataclass(frozen=True, slots=True)
class FlowRule:
    """A row of `rules.toml`."""

    code: str
    kinds: frozenset[str]
    sinks: frozenset[str]
    message: str
    """With `{source}` and `{sink}`."""
    frequencies: frozenset[str] = frozenset({"call", "turn"})
    """How often the value is made anew where it is a hazard: `call`, `turn`, `request` (single requests that share much
    text), `session`, `process`."""
    selects: bool = False
    """Whether it is enough that the value decides what is sent."""
    inside: bool | None = None
    """Whether the value has to be in a part of an item of the list (a tool's schema), or must not be; None for both."""


@cache
def rules() -> tuple[FlowRule, ...]:
    """All rows."""
    table = tomllib.loads(resources.files("contextkit.lint.source").joinpath("rules.toml").read_text("utf-8"))
    return tuple(
        FlowRule(
            row["code"],
            frozenset(row["kinds"]),
            frozenset(row["sinks"]),
            row["message"],
            frozenset(row.get("frequencies", ("call", "turn"))),
            row.get("selects", False),
            row.get("inside"),
        )
        for row in table["flow"]
    )


@dataclass(frozen=True, slots=True)
class Flow:
    """A value that reaches a sink it should not reach."""

    rule: FlowRule
    sink: Sink
    origin: Origin
    frequency: str

    @property
    def node(self) -> Node:
        """What to point at: the value that varies, or the condition that it decides."""
        if self.origin.state.mode != "select":
            for state in self.origin.state.chain():
                if state.node.kind != "param" and state.node.position is not None:
                    return state.node
            return self.origin.node
        for state in self.origin.state.chain():
            if state.mode != "select" and state.node.position is not None:
                return state.node
        return self.origin.node


def flows(sinks: Iterable[Sink], search: Search, selected: Iterable[FlowRule]) -> Iterator[Flow]:
    """Every flow that a rule is about, the most frequent one of each rule and sink."""
    by_sink: dict[str, list[FlowRule]] = defaultdict(list)
    for rule in selected:
        for kind in rule.sinks:
            by_sink[kind].append(rule)
    for sink in sinks:
        wanted = by_sink.get(sink.kind, [])
        if not wanted:
            continue
        kinds = frozenset().union(*(rule.kinds for rule in wanted)) & ALL_KINDS
        selects = any(rule.selects for rule in wanted)
        results = search.origins(
            sink.node,
            path=sink.path,
            kinds=kinds,
            selects=selects,
            lifetime=sink.lifetime,
            stack=sink.stack,
            is_system=sink.kind == "system",
            is_tools=sink.kind == "tools",
            doubt=_WEAK if sink.is_weak else 0,
        )
        for rule in wanted:
            hits = [
                (frequency, origin)
                for origin in results
                if origin.kind in rule.kinds
                and (origin.kind != "user" or not rule.selects or _is_choice(origin.state))
                and (rule.selects or origin.state.mode != "select")
                and (rule.inside is None or rule.inside == _is_inside(origin.state))
                and _is_likely(origin, sink)
                and (origin.kind != "counter" or _counts_turns(origin, sink))
                for frequency in [frequency_of(origin, sink, search)]
                if frequency in rule.frequencies and not (origin.kind in _STEADY and _is_behind_marker(origin.state))
            ]
            if hits:
                frequency, origin = min(hits, key=lambda hit: _ORDER.index(hit[0]))
                yield Flow(rule, sink, origin, frequency)


INJECTED = {"clock": "CKS01", "date": "CKS02", "place": "CKS04", "recall": "CKS05", "plan": "CKS06"}
"""Kind of what a framework adds to a prompt by itself → the code."""


def injections(analysis: Analysis, codes: frozenset[str]) -> Iterator[Hit]:
    """Options of frameworks that add what varies to the system prompt: `Agent(add_datetime_to_context=True)`."""
    by_name: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in analysis.knowledge.sections.get("injection", ()):
        for call in row["calls"]:
            by_name[call.rpartition(".")[2]].append(row)
    for node in analysis.calls():
        for option in by_name.get(node.name.rpartition(".")[2], ()):
            name, kind, sink = option["argument"], option["kind"], option["sink"]
            supplied = node.argument(name) if name else None
            code = INJECTED.get(kind, "")
            if code not in codes or supplied is None or supplied.kind != "const" or supplied.value is not True:
                continue
            if is_of(node, option.get("packages", ())):
                message = f"`{name}=True` puts a {kind} into the {sink}, anew in each run"
                yield Hit(code, message, supplied, (), None, supplied)


_ORDER = ("call", "turn", "request", "session", "process", "single")


def _is_likely(origin: Origin, sink: Sink) -> bool:
    """Return whether the way is short and certain enough for what was found at its end.

    An order or an id is everywhere in a program, so that a guess on the way leads to one by chance more often than to a
    clock.
    """
    if origin.state.doubt - (_WEAK if sink.is_weak else 0) > _MOST_DOUBT.get(origin.kind, _USUAL_DOUBT):
        return False
    if any(context.kind == "except" for context in origin.node.context.chain()):
        return False  # only where something failed
    states = list(origin.state.chain())
    functions = {id(state.node.context.function) for state in states}
    return len(states) <= _LONGEST and len(functions) <= (_MOST_FUNCTIONS if origin.kind in _RARE else _FEW_FUNCTIONS)


def _is_inside(state: State) -> bool:
    """Return whether the way leads through a dict of the list."""
    return any(one.node.kind == "dict" for one in state.chain())


def _is_behind_marker(state: State) -> bool:
    """Return whether a block in front of it is marked for caching: what is before it is read wherever it is the
    same.
    """
    for one in state.chain():
        if one.parent is not None and one.parent.node.kind == "list":
            before = one.parent.node.inputs[
                : next((i for i, part in enumerate(one.parent.node.inputs) if part is one.node), 0)
            ]
            if any(part.kind == "dict" and "cache_control" in part.value for part in before):
                return True
    return False


def _is_choice(state: State) -> bool:
    """Return whether a text decides what there is, or something is looked for with it."""
    return state.mode == "select" or any(
        one.node.kind == "call" and _LOOKS.search(one.node.name.rpartition(".")[2]) for one in state.chain()
    )


def _counts_turns(origin: Origin, sink: Sink) -> bool:
    """Return whether a number is that of a loop that sends the request; other loops only number what they go
    through.
    """
    if sink.call is None:
        return False
    node = origin.node
    loops = sink.call.context.loops()
    if sink.conversation is not None and any(_is_of_loop(one.node, node) for one in sink.conversation.origins):
        return False
    if node.kind == "update":
        around = {id(loop) for loop in node.context.loops()}
        named = [one.node.name for one in origin.state.chain() if one.node.kind == "attr"]
        return any(id(loop) in around for loop in loops) or (not around and any(map(_TURNS.search, named)))
    return any(loop.iterable is not None and node in (loop.iterable, plain(loop.iterable)) for loop in loops)


def _is_of_loop(node: Node, iterable: Node) -> bool:
    """Return whether a list belongs to one of the things that a loop goes through, each of which has its own."""
    for _ in range(8):
        if node.kind == "iter":
            return node.inputs[0] is iterable
        if not node.inputs:
            return False
        node = node.inputs[0]
    return False


def frequency_of(origin: Origin, sink: Sink, search: Search) -> str:
    """How often a value that reaches a sink is made anew."""
    state = origin.state
    if state.lifetime >= PROCESS:
        return "process"
    conversation = sink.conversation
    if state.lifetime >= SESSION and not _is_dynamic(state):
        is_apart = conversation is None or (conversation.kind in {"kept", "agent"} and not conversation.is_attribute)
        return "turn" if is_apart and _is_made_anew(state, search) else "session"
    if conversation is None:
        if search.runs_once((sink.call or sink.place).context.function):
            return "session"
        function = state.node.context.function
        return "session" if search.runs_once(function) and not state.node.context.loops() else "turn"
    if conversation.kind == "agent" and sink.call is not None:
        return "turn" if _is_dynamic(state) or not search.runs_once(sink.call.context.function) else "session"
    if conversation.kind == "kept":
        return "turn" if not any(_is_side(one, search) for one in state.chain()) else "request"
    if conversation.kind == "loop" and sink.call is not None:
        loops = {id(loop) for loop in sink.call.context.loops()}
        entry = entry_of(state, sink.call)
        return "call" if any(id(loop) in loops for loop in entry.context.loops()) else "session"
    return "request" if text_behind(state, search) >= _MUCH_TEXT else "single"


def _is_made_anew(state: State, search: Search) -> bool:
    """Return whether the object that keeps the value is made again and again: its constructor is called where not all runs once."""
    for one in state.chain():
        function = one.node.context.function
        if function.cls is not None and search.is_once(function) and not function.is_top:
            calls = [call for call, target in search.program.callers(function) if target.constructs is not None]
            return bool(calls) and not all(search.runs_once(call.context.function) for call in calls)
    return False


def _is_side(state: State, search: Search) -> bool:
    return search.side_call.search(state.node.context.function.name) is not None


def _is_dynamic(state: State) -> bool:
    """Return whether a framework calls a function for the value: instructions given as a function."""
    return any(one.node.kind == "func" for one in state.chain())


def entry_of(state: State, call: Node) -> Node:
    """The last value on the way that the function of a request makes itself."""
    function = call.context.function
    for one in state.chain():
        if one.node.context.function is function and not one.stack:
            return one.node
    return call


def text_behind(state: State, search: Search) -> int:
    """Characters of text that stand behind a value in the text it becomes a part of, where it is known."""
    total = 0
    child = state
    while child.parent is not None:
        parent = child.parent
        node = parent.node
        if node.kind in {"join", "list", "tuple"}:
            is_behind = False
            for part in node.inputs:
                if part is child.node:
                    is_behind = True
                elif is_behind:
                    total += _length(part, search)
        elif node.kind == "update" and node.name in {"+=", "append", "extend"} and child.node is node.inputs[0]:
            total += sum(_length(part, search) for part in node.inputs[1:])
        elif node.kind == "call" and node.name.endswith((".format", ".join")) and node.inputs[0].kind == "attr":
            total += _length(node.inputs[0].inputs[0], search) // 2
        child = parent
    return total


def _length(node: Node, search: Search) -> int:
    if node.kind == "const":
        return len(node.value) if isinstance(node.value, str) else 0
    if node.kind == "join":
        return sum(_length(part, search) for part in node.inputs)
    if node.kind == "ref":
        values = search.program.lookup(node.name, node.module)
        return max(
            (_length(value, search) for value in values if value.kind in {"const", "join"}), default=_UNKNOWN_TEXT
        )
    return _UNKNOWN_TEXT
