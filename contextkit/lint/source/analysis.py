"""What the rules work on: what a module sends, the kinds of values that vary, and one hit for each hazard."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from contextkit.lint.finding import Fix
from contextkit.lint.source.knowledge import Knowledge
from contextkit.lint.source.program import Program
from contextkit.lint.source.requests import Requests, SentPrompt, Sink
from contextkit.lint.source.scopes import Module, last_name
from contextkit.lint.source.trace import Step, Tracer, UnknownArgument

_LONGEST = 60
"""Characters of an expression in a message."""
TrailPlace = tuple[Module, ast.AST, str]
"""A place in the code, and what happens there."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A hazard at an expression."""

    code: str
    message: str
    """One sentence."""
    node: ast.AST
    """What to point at."""
    module: Module
    trail: tuple[TrailPlace, ...] = ()
    """From the value that varies to where it meets the prompt."""
    fix: Fix | None = None
    sink: ast.AST | None = None
    """Where it arrives: there is one finding for each."""


class Analysis:
    """One module and everything the rules ask about it."""

    def __init__(self, module: Module, tracer: Tracer) -> None:
        self.module, self.tracer = module, tracer
        self.program: Program = tracer.program
        self.knowledge: Knowledge = tracer.knowledge
        requests = Requests(self.program, tracer, self.knowledge)
        self.sent = [one for one in requests.of_module(module) if self.program.is_used(one.scope)]
        self.sinks = [sink for one in self.sent for sink in requests.sinks(one)]

    def kind_of(self, step: Step) -> str:
        """Return what varies in an expression by itself, empty where nothing does."""
        node = step.node
        if isinstance(node, ast.Set | ast.SetComp):
            return "unordered"
        name = last_name(node.func if isinstance(node, ast.Call) else node)
        if isinstance(node, ast.Call):
            kind = self._kind_of_call(node, step)
            if kind or not name.startswith(("get_", "load_", "read_", "list_")):
                return kind
            name = name.partition("_")[2]
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self.knowledge.kind_of_name(str(node.slice.value))
        return self.knowledge.kind_of_name(name) if name and step.is_open else ""

    def _kind_of_call(self, call: ast.Call, step: Step) -> str:
        if not self.knowledge.sources.has_last(last_name(call.func)):
            return ""
        given = {str(number) for number in range(len(call.args))} | {one.arg for one in call.keywords}
        for row in self.knowledge.sources.find(self.program.dotted(call.func, step.at)):
            text = self._constants(call, step) if row.text else ""
            is_day = row.kind == "clock" and self.tracer.writes_the_day(call, step)
            if given.isdisjoint(row.without) and re.search(row.text, text) and not is_day:
                return row.kind
        return ""

    def _constants(self, call: ast.Call, step: Step) -> str:
        """Return the constant texts that a call is given, with a space between."""
        names = [one for one in ast.walk(call) if isinstance(one, ast.Name)]
        given = [one.node for name in names for one in self.tracer.walk(Step(name, step.at))]
        return " ".join(str(one.value) for one in [*ast.walk(call), *given] if isinstance(one, ast.Constant))

    def is_made_anew(self, step: Step, sent: SentPrompt) -> bool:
        """Return whether a value is made again for each request of a conversation, or for each question."""
        for one in step.chain():
            binding = one.binding
            is_here = binding is not None and binding.scope is sent.scope and one.at.frame is None
            if is_here and sent.loop is not None and binding is not None and sent.loop not in binding.loops():
                return False
            if getattr(one.node, "lineno", 0) in one.scope.module.frozen:
                return False
        return not step.once

    def trail(self, step: Step, sink: Sink) -> tuple[TrailPlace, ...]:
        """Return the way from a value to where it meets the prompt, one line of code each."""
        step = read_at(step)
        places: list[TrailPlace] = [(step.scope.module, step.node, text_of(step.node, step.scope.module))]
        for one in step.chain():
            module, node, note = one.scope.module, one.node, ""
            if isinstance(node, ast.Call) and self.program.targets(node, one.at):
                note = f"through `{last_name(node.func)}`"
            elif isinstance(node, ast.Attribute):
                note = f"`{text_of(node, module)}`"
            elif one.binding is not None and one.binding.kind == "param":
                note = f"given as `{getattr(one.binding.node, 'arg', '')}`"
            if note and one is not step and not _is_beside(places[-1], module, node):
                places.append((module, node, note))
        if len(places) > 1 and _is_beside(places[-1], sink.step.scope.module, sink.step.node):
            places.pop()
        places.append((sink.step.scope.module, sink.step.node, sink.label))
        site = sink.sent.caller
        return (*places, (site.at.scope.module, site.node, "called here")) if site is not None else (*places,)

    def breakpoints_of(self, sent: SentPrompt) -> list[Step]:
        """Return the blocks of a request that carry a breakpoint, and the request where it has one itself."""
        words = self.knowledge.words("breakpoint", "words")
        starts = [step for _, step, _ in sent.arguments] + [step for step in sent.messages if not step.path]
        found = [
            step
            for start in starts
            for step in self.tracer.walk(start)
            if isinstance(step.node, ast.Dict) and any(getattr(key, "value", None) in words for key in step.node.keys)
        ]
        is_marked = isinstance(sent.node, ast.Call) and any(one.arg in words for one in sent.node.keywords)
        return [*found, Step(sent.node, sent.at)] if is_marked else found


Rule = Callable[[Analysis], Iterable[Hit]]
"""A rule looks at one module."""


def _is_beside(mark: TrailPlace, module: Module, node: ast.AST) -> bool:
    return mark[0] is module and getattr(mark[1], "lineno", 0) == getattr(node, "lineno", 0)


def read_at(step: Step) -> Step:
    """Return where a parameter is read, in place of the parameter that no call in view gives."""
    return step.parent if isinstance(step.node, UnknownArgument) and step.parent is not None else step


def text_of(node: ast.AST, module: Module) -> str:
    """Return the expression as it is written, in one line and shortened: for messages."""
    if not getattr(node, "lineno", 0):
        return ""
    lines = module.lines()[node.lineno - 1 : node.end_lineno]  # type: ignore[attr-defined]
    if lines:
        lines[-1] = lines[-1][: node.end_col_offset]  # type: ignore[attr-defined]
        lines[0] = lines[0][node.col_offset :]  # type: ignore[attr-defined]
    text = " ".join(b" ".join(lines).decode("utf-8", "replace").split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
