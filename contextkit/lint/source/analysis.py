"""What the rules of the source detector work on: the program's value graph, its sinks, and one hit for each hazard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from contextkit.lint.finding import Fix
from contextkit.lint.source.graph import Function, Module, Node
from contextkit.lint.source.knowledge import Knowledge
from contextkit.lint.source.program import Program
from contextkit.lint.source.search import Search, State
from contextkit.lint.source.sinks import Sink, Sinks


@dataclass(frozen=True, slots=True)
class Hit:
    """A hazard at a value."""

    code: str
    message: str
    """One sentence."""
    node: Node
    """What to point at; it has a position."""
    trail: tuple[tuple[Node, str], ...] = ()
    """From the value that varies to where it meets the prompt, each with what happens there."""
    fix: Fix | None = None
    sink: Node | None = None
    """Where it arrives; of one code there is one finding for each."""


@dataclass(slots=True)
class Analysis:
    """A program that was read, and everything the rules ask about it."""

    modules: Sequence[Module]
    knowledge: Knowledge
    program: Program
    search: Search
    sinks: list[Sink] = field(default_factory=list)

    @staticmethod
    def of(modules: Sequence[Module], knowledge: Knowledge) -> Analysis:
        """Links the modules and collects the sinks."""
        program = Program(modules)
        search = Search(program, knowledge)
        return Analysis(modules, knowledge, program, search, Sinks(program, search, knowledge).collect(modules))

    def calls(self) -> Iterator[Node]:
        """Every call of every module."""
        for module in self.modules:
            yield from module.calls

    def functions(self) -> Iterator[Function]:
        """Every function of every module."""
        for module in self.modules:
            yield from module.functions


Rule = Callable[[Analysis], Iterable[Hit]]
"""A rule that needs code."""


def text_of(node: Node) -> str:
    """The expression as it is written, in one line and shortened: for messages."""
    if node.position is None:
        return node.name or node.kind
    line, column, end_line, end_column = node.position
    lines = node.module.lines()[line - 1 : end_line]
    if not lines:
        return node.name or node.kind
    lines[-1] = lines[-1][:end_column]
    lines[0] = lines[0][column:]
    text = " ".join(b" ".join(lines).decode("utf-8", "replace").split())
    return text if len(text) <= 60 else f"{text[:57]}…"


def trail_of(state: State, label: str, place: Node) -> tuple[tuple[Node, str], ...]:
    """The way from a value that was met to the sink, shortened to the steps that a reader needs."""
    steps: list[tuple[Node, str]] = []
    for one in state.chain():
        note = _note(one, not steps)
        if one.node.position is not None and note and not (steps and _is_in_line(one.node, steps[-1][0])):
            steps.append((one.node, note))
    if place.position is not None:
        if len(steps) > 1 and _is_in_line(steps[-1][0], place):
            steps.pop()
        steps.append((place, label))
    return tuple(steps)


def _is_in_line(node: Node, other: Node) -> bool:
    """Whether two expressions begin in one line."""
    one, two = node.position, other.position
    return one is not None and two is not None and one.line == two.line and node.module is other.module


def _note(state: State, is_first: bool) -> str:
    node = state.node
    if is_first:
        return text_of(node)
    if (
        node.kind == "call"
        and state.parent is not None
        and len(state.stack) < max((len(one.stack) for one in state.chain()), default=0) + 99
    ):
        last = node.name.rpartition(".")[2]
        return f"through `{last}`"
    if node.kind == "attr":
        return f"`{text_of(node)}`"
    if node.kind == "param":
        return f"given as `{node.name}`"
    if node.kind == "func":
        return "called by the framework"
    return ""
