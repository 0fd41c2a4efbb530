"""What the rules work on: what a module sends, the kinds of values that vary, and one hit for each hazard."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from contextkit.lint.finding import Fix
from contextkit.lint.source.knowledge import Knowledge, ends_with
from contextkit.lint.source.program import Program
from contextkit.lint.source.requests import Requests, Sent, Sink
from contextkit.lint.source.scopes import Module, last_name
from contextkit.lint.source.trace import Given, Step, Tracer

_LONGEST = 60
"""Characters of an expression in a message."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A hazard at an expression."""

    code: str
    message: str
    """One sentence."""
    node: ast.AST
    """What to point at."""
    module: Module
    trail: tuple[tuple[Module, ast.AST, str], ...] = ()
    """From the value that varies to where it meets the prompt, each with what happens there."""
    fix: Fix | None = None
    sink: ast.AST | None = None
    """Where it arrives: there is one finding for each."""


@dataclass(slots=True)
class Analysis:
    """One module and everything the rules ask about it."""

    module: Module
    program: Program
    tracer: Tracer
    knowledge: Knowledge
    sent: list[Sent] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)

    @staticmethod
    def of(module: Module, program: Program, tracer: Tracer, knowledge: Knowledge) -> Analysis:
        """Collect what a module sends."""
        requests = Requests(program, tracer, knowledge)
        sent = requests.of_module(module)
        return Analysis(
            module, program, tracer, knowledge, sent, [sink for one in sent for sink in requests.sinks(one)]
        )

    def kind_of(self, step: Step) -> str:
        """What varies in an expression by itself, empty where nothing does."""
        node = step.node
        if isinstance(node, ast.Set | ast.SetComp):
            return "unordered"
        if isinstance(node, ast.Call):
            name = last_name(node.func)
            kind = self._kind_of_call(node, step)
            is_getter = step.is_open and name.startswith(("get_", "load_", "read_", "list_"))
            return kind or (self.knowledge.kind_of_name(name.partition("_")[2]) if is_getter else "")
        if step.is_open and isinstance(node, ast.Name | ast.Attribute):
            return self.knowledge.kind_of_name(last_name(node))
        if step.is_open and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self.knowledge.kind_of_name(str(node.slice.value))
        return ""

    def _kind_of_call(self, call: ast.Call, step: Step) -> str:
        if not self.knowledge.sources.find_last(last_name(call.func)):
            return ""
        name = self.program.dotted(call.func, step.scope, step.place)
        given = {str(number) for number in range(len(call.args))} | {one.arg for one in call.keywords}
        for row in self.knowledge.sources.find(name):
            if row.receivers and not ends_with(name.rpartition(".")[0], row.receivers):
                continue
            if given & set(row.without):
                continue
            if row.text and not re.search(row.text, _words_of(call)):
                continue
            return row.kind
        return ""

    def is_made_anew(self, step: Step, sent: Sent) -> bool:
        """Whether a value is made again for each request of a conversation, or for each question."""
        if step.once:
            return False
        for one in step.chain():
            binding = one.binding
            if (
                sent.loop is not None
                and binding is not None
                and binding.scope is sent.scope
                and one.frame is None
                and sent.loop not in binding.place.loops()
            ):
                return False
        return not any(self.is_declared(one) for one in step.chain())

    def is_declared(self, step: Step) -> bool:
        """Whether a comment says that a value is made once: `# contextkit: frozen`."""
        module = step.scope.module
        return bool(module.frozen) and getattr(step.node, "lineno", 0) in module.frozen

    def trail(self, step: Step, sink: Sink) -> tuple[tuple[Module, ast.AST, str], ...]:
        """The way from a value to where it meets the prompt, one line of code each."""
        steps: list[tuple[Module, ast.AST, str]] = [
            (step.scope.module, step.node, text_of(step.node, step.scope.module))
        ]
        for one in step.chain():
            module, node, note = one.scope.module, one.node, ""
            if (
                isinstance(node, ast.Call)
                and one.node is not step.node
                and self.program.targets(node, one.scope, one.place)
            ):
                note = f"through `{last_name(node.func)}`"
            elif isinstance(node, ast.Attribute) and one.node is not step.node:
                note = f"`{text_of(node, module)}`"
            elif one.binding is not None and one.binding.kind == "param":
                note = f"given as `{getattr(one.binding.node, 'arg', '')}`"
            if note and (steps[-1][0] is not module or steps[-1][1].lineno != node.lineno):  # type: ignore[attr-defined]
                steps.append((module, node, note))
        last = sink.step.scope.module, sink.step.node, sink.label
        if len(steps) > 1 and steps[-1][0] is last[0] and steps[-1][1].lineno == last[1].lineno:  # type: ignore[attr-defined]
            steps.pop()
        site = sink.sent.caller
        return (*steps, last) if site is None else (*steps, last, (site.scope.module, site.node, "called here"))

    def marks(self, sent: Sent) -> list[Step]:
        """The blocks of a request that carry a breakpoint, and the request where it has one itself."""
        words = self.knowledge.words("mark", "words")
        first = [step for values in sent.arguments.values() for step, _ in values]
        first += [step for step in sent.messages if not step.path]
        found = [
            step
            for start in first
            for step in self.tracer.walk(start)
            if isinstance(step.node, ast.Dict)
            and any(isinstance(key, ast.Constant) and key.value in words for key in step.node.keys)
        ]
        if isinstance(sent.node, ast.Call) and any(one.arg in words for one in sent.node.keywords):
            found.append(Step(sent.node, sent.scope, sent.place))
        return found


Rule = Callable[[Analysis], Iterable[Hit]]
"""A rule looks at one module."""


def read_at(step: Step) -> Step:
    """Where a parameter is read, in place of the parameter that nobody is seen to give."""
    return step.parent if isinstance(step.node, Given) and step.parent is not None else step


def text_of(node: ast.AST, module: Module) -> str:
    """The expression as it is written, in one line and shortened: for messages."""
    line = getattr(node, "lineno", 0)
    if not line:
        return ""
    lines = module.lines()[line - 1 : node.end_lineno]  # type: ignore[attr-defined]
    if not lines:
        return ""
    lines[-1] = lines[-1][: node.end_col_offset]  # type: ignore[attr-defined]
    lines[0] = lines[0][node.col_offset :]  # type: ignore[attr-defined]
    text = " ".join(b" ".join(lines).decode("utf-8", "replace").split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _words_of(call: ast.Call) -> str:
    """The constant texts that a call is given, with a space between."""
    return " ".join(_texts(call))


def _texts(node: ast.AST) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value
