"""Which sources reach which prompts: the findings of flows, from a prompt upward to the callers that feed it.

Takes a linked `Program` and the hazards' flows, gives findings; knows nothing of syntax.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.source import sanitizers, sinks
from contextkit.lint.source.link import DEPTH, Atom, Ends, Program, without
from contextkit.lint.source.rule import Flow, Kind, Sink
from contextkit.lint.source.summary import Arrival, Called, Function, Parameter, Source

_TOOLS: frozenset[Sink] = frozenset({"tools", "tool", "schema"})
"""What stands in front of those."""
_IN_TOOLS: frozenset[Sink] = frozenset({"tool", "schema"})
"""What a list of tools is made of."""


class _Meeting(NamedTuple):
    """A parameter that reaches the prompt."""

    parameter: Parameter
    arrival: Arrival
    path: str
    trail: tuple[CodePlace, ...]
    is_frozen: bool
    in_loop: bool
    depth: int
    without: frozenset[Kind]


class _ArrivingSource(NamedTuple):
    """A source that arrives."""

    kind: Kind
    sink: Sink
    finding: Finding


Coded = tuple[str, Flow]
"""A hazard's code and one of its flows."""


class Flows:
    """Which hazard a source at a sink is."""

    def __init__(self, flows: Sequence[Coded]) -> None:
        self.flows = flows
        self.sinks = {sink for _, flow in self.flows for sink in flow.sinks}
        self._known: dict[tuple[Kind, Sink], list[Coded]] = {}

    def of(self, kind: Kind, sink: Sink) -> list[Coded]:
        """The hazards that a source of a kind is at a sink."""
        key = kind, sink
        if key not in self._known:
            self._known[key] = [(code, flow) for code, flow in self.flows if kind in flow.kinds and sink in flow.sinks]
        return self._known[key]


def findings(program: Program, flows: Flows) -> Iterator[Finding]:
    """Every source that reaches a prompt, once for each hazard and place.

    A parameter that is handed down only where it is nearest.
    """
    best: dict[tuple[str, object], Finding] = {}
    everything = list(_all_findings(program, flows))
    clocks = {(one.finding.place, one.finding.trail[-1]) for one in everything if one.kind == "clock"}
    in_tools = {one.finding.place for one in everything if one.sink in _TOOLS}
    inside = {(one.kind, one.finding.place) for one in everything if one.sink in _IN_TOOLS}
    for kind, sink, finding in everything:
        if kind == "date" and (finding.place, finding.trail[-1]) in clocks:
            continue  # what is read to the second is told as that
        if sink == "system" and finding.place in in_tools:
            continue  # tools stand in front of it, and one change mends both
        if sink == "tools" and kind in sanitizers.ORDER and (kind, finding.place) in inside:
            continue  # it is the order inside of a definition, told as that
        key = finding.code, finding.place
        if key not in best or len(finding.trail) < len(best[key].trail):
            best[key] = finding
    shown: dict[tuple[str, str, CodePlace], Finding] = {}
    for finding in best.values():
        first, last = finding.trail[0], finding.trail[-1]
        line = f"{first.file}:{first.line}"
        same = finding.code, first.note if first.note.isidentifier() else line, last
        if same not in shown or len(finding.trail) < len(shown[same].trail):
            shown[same] = finding
    yield from shown.values()


def _all_findings(program: Program, flows: Flows) -> Iterator[_ArrivingSource]:
    waiting: list[_Meeting] = []
    for module in program.modules.values():
        for function in module.functions.values():
            wanted = [arrival for arrival in function.arrivals if arrival.sink in flows.sinks]
            is_once = bool(wanted) and program.is_once(function)
            is_per_turn = bool(wanted) and _is_per_turn(function)
            for arrival in wanted:
                is_frozen = is_once and not arrival.in_loop
                trail = (arrival.site.place(module.path, arrival.label),)
                ends = program.ends(module, arrival.value)
                in_loop = arrival.in_loop or is_per_turn or (function.is_per_request and arrival.sink in sinks.IN_FRONT)
                in_loop = in_loop or (arrival.sink == "tool" and _is_called_per_turn(program, function))
                yield from _judge(ends, arrival, trail, is_frozen, in_loop, flows, waiting, 0, module.path)
    yield from _upward(program, flows, waiting)


def _judge(
    ends: Ends,
    arrival: Arrival,
    trail: tuple[CodePlace, ...],
    is_frozen: bool,
    in_loop: bool,
    flows: Flows,
    waiting: list[_Meeting],
    depth: int,
    path: str,
) -> Iterator[_ArrivingSource]:
    """Sources that arrive are findings; parameters that arrive make their callers' arguments arrive."""
    for atom, way in ends.items():
        frozen = is_frozen or atom.is_frozen
        whole = (*way, *trail)
        if isinstance(atom.origin, Parameter):
            if depth < DEPTH:
                waiting.append(_Meeting(atom.origin, arrival, path, whole, frozen, in_loop, depth, atom.without))
            continue
        yield from _named(atom, arrival, whole, frozen, in_loop, flows)


def _named(
    atom: Atom, arrival: Arrival, trail: tuple[CodePlace, ...], frozen: bool, in_loop: bool, flows: Flows
) -> Iterator[_ArrivingSource]:
    """A source that arrives, as each hazard it is."""
    source = atom.origin
    if not isinstance(source, Source):
        return
    if frozen and arrival.sink not in sanitizers.SURVIVES.get(source.kind, ()):
        return
    for code, flow in flows.of(source.kind, arrival.sink):
        if flow.in_loop_only and not in_loop:
            continue
        message = flow.message.replace("{source}", f"`{source.site.text}`").replace("{sink}", arrival.label)
        place = source.site.place(atom.path)
        yield _ArrivingSource(
            source.kind,
            arrival.sink,
            Finding(code, message, CodePlace(atom.path, *source.site[:4]), "source", (place, *trail)),
        )


def _upward(program: Program, flows: Flows, waiting: list[_Meeting]) -> Iterator[_ArrivingSource]:
    """From a parameter that reaches the prompt to the arguments of the calls, and on."""
    seen: set[tuple[Parameter, Sink, bool, bool, frozenset[Kind]]] = set()
    while waiting:
        meeting = waiting.pop()
        key = meeting.parameter, meeting.arrival.sink, meeting.is_frozen, meeting.in_loop, meeting.without
        if key in seen:
            continue
        seen.add(key)
        known = program.owners.get(meeting.parameter.function)
        for module, caller, number in program.callers.get(meeting.parameter.function, ()) if known else ():
            call = module.origins[number]
            if (
                not isinstance(call, Called)
                or known is None
                or (not meeting.depth and _is_other(call, known[1], meeting.arrival))
            ):
                continue
            step = call.site.place(module.path, f"passed to `{known[1].name.rpartition('.')[2]}`")
            frozen = meeting.is_frozen or (program.is_once(caller) and number not in caller.in_loop)
            in_loop = meeting.in_loop or number in caller.in_loop or _is_per_turn(caller)
            ends = without(program.argument_ends(module, call, known[1], meeting.parameter.name), meeting.without)
            trail = (step, *meeting.trail)
            yield from _judge(
                ends, meeting.arrival, trail, frozen, in_loop, flows, waiting, meeting.depth + 1, module.path
            )


def _is_per_turn(function: Function) -> bool:
    """Whether it is called for each request, as its name says."""
    return sinks.PER_TURN.match(function.name.rpartition(".")[2]) is not None


def _is_called_per_turn(program: Program, function: Function) -> bool:
    """Whether one that is called for each request calls it: a helper makes the definition, and makes it each time."""
    callers = (caller for _, caller, _ in program.callers.get(function.name, ()))
    return any(_is_per_turn(caller) and not program.is_once(caller) for caller in callers)


def _is_other(call: Called, function: Function, arrival: Arrival) -> bool:
    """Whether a call says by a word that what it gives arrives elsewhere: `self._put(message, "state")`, where "system"
    is the prompt.
    """
    name, wanted = arrival.only
    given = (
        text
        for key, text in call.texts
        if key == name or (isinstance(key, int) and function.parameters[key : key + 1] == (name,))
    )
    return bool(name) and next(given, wanted) != wanted
