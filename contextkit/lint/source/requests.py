"""Finds what reaches a model: requests, their arguments, the messages by role, functions that give a prompt.

A `Sink` is a value that is sent, with the request it belongs to and what is known of the conversation: whether each call
is one more turn, or asks one question.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from contextkit.lint.source.knowledge import Knowledge, Request, ends_with
from contextkit.lint.source.program import Program
from contextkit.lint.source.scopes import ANY, At, CallSite, Module, Path, Place, Scope, last_name
from contextkit.lint.source.trace import Step, Tracer

_SYSTEM = ("system", "developer")
_CLASSES = {"SystemMessage": "system", "SystemPromptPart": "system", "HumanMessage": "user", "UserMessage": "user"}
"""Classes of messages → role."""
_GROWTH = frozenset({"append", "extend", "+=", "insert", "add"})
_BODY = frozenset({"model", "modelId", "anthropic_version", "max_tokens"})
"""Keys of which a body of a request has one."""


@dataclass(eq=False, slots=True)
class SentPrompt:
    """One place that sends requests, or a prompt that somebody sends."""

    node: ast.expr
    at: At
    row: Request | None = None
    """What is known of the call; None where only a name or a list of messages says that something is sent."""
    kind: str = "single"
    """`turn`: each call is one more turn of a conversation kept elsewhere; `loop`: a conversation that is begun here and goes
    on in a loop; `single`: one question; `agent`: a framework keeps the conversation; `prompt`: only its name says so."""
    loop: ast.AST | None = None
    """The loop of a conversation that is begun here."""
    messages: list[Step] = field(default_factory=list)
    """What the list of messages is made of: steps with a path are lists, those without are messages."""
    arguments: list[tuple[str, Step, str]] = field(default_factory=list)
    """Sink, value, and how to call it in a sentence."""
    caller: CallSite | None = None
    """Of a function that gives a prompt: where it is called for a request."""

    @property
    def scope(self) -> Scope:
        """The function that sends it."""
        return self.at.scope


@dataclass(eq=False, slots=True)
class Sink:
    """A value that a model is sent."""

    kind: str
    """`system`, `front` (a message before the history), `tools`, `tool` (a description), `schema`."""
    step: Step
    label: str
    """`system=` of `create`."""
    sent: SentPrompt


class Requests:
    """Collects the requests and sinks of modules."""

    def __init__(self, program: Program, tracer: Tracer, knowledge: Knowledge) -> None:
        self.program, self.tracer, self.knowledge = program, tracer, knowledge
        self.dict_keys = {
            key: sink for row in knowledge.sections["request_dict"] for key, sink in row["arguments"].items()
        }
        self.schema_keys = knowledge.words("tool_dict", "schema")

    def of_module(self, module: Module) -> Iterator[SentPrompt]:
        """Yield what a module sends."""
        for scope in module.scopes:
            for call, at in scope.calls:
                row = self.row_of(call, at)
                if row is not None:
                    yield self.sent(call, at, row, self._arguments(call, row))
            for node, at in scope.expressions:
                for one in ast.walk(node):
                    if isinstance(one, ast.Dict):
                        yield from self._of_dict(one, at)
                    elif isinstance(one, ast.List) and any(role_of(item) in _SYSTEM for item in one.elts):
                        sent = self.sent(one, at, None, [("messages", one, (), "messages")])
                        if sent.kind == "turn" and any(isinstance(item, ast.Starred) for item in one.elts):
                            yield sent
            yield from self._of_function(scope)

    def row_of(self, call: ast.Call, at: At) -> Request | None:
        """Return what is known of a call as a request; None for any other call, and for one of a function of the files."""
        if not self.knowledge.requests.has_last(last_name(call.func)):
            return None
        name = self.program.dotted(call.func, at)
        supplied = {one.arg or "**" for one in call.keywords} | {str(number) for number in range(len(call.args))}
        imported = _packages(at.scope.module) | {name.partition(".")[0]}
        for row in self.knowledge.requests.find(name):
            if (row.packages and imported.isdisjoint(row.packages)) or (
                row.receivers and not ends_with(name.rpartition(".")[0], row.receivers)
            ):
                continue
            wanted = row.needs or {key.partition(".")[0] for key in row.arguments}
            if not supplied.isdisjoint({*wanted, "**"}):
                return None if self.program.targets(call, at) else row
        return None

    def _arguments(self, call: ast.Call, row: Request) -> Iterator[tuple[str, ast.expr, Path, str]]:
        """Yield the arguments of a request: sink, value, path into it, label."""
        last = last_name(call.func)
        for key, sink in row.arguments.items():
            name, *rest = key.split(".")
            label = f"`{last}`" if key.isdigit() else f"`{key}=` of `{last}`"
            if key.isdigit():
                yield from ((sink, one, (), label) for one in call.args[int(key) :][:1])
                continue
            named = [one.value for one in call.keywords if one.arg == name]
            for value in named[:1]:
                yield sink, value, tuple(rest), label
            for one in [] if named else call.keywords:
                if one.arg is None:
                    yield sink, one.value, (name, *rest), label

    def sent(
        self, node: ast.expr, at: At, row: Request | None, given: Iterable[tuple[str, ast.expr, Path, str]]
    ) -> SentPrompt:
        """Return a request with its arguments and messages."""
        sent = SentPrompt(node, at, row)
        is_session = row is not None and row.lifetime == "session"
        is_start = at.scope.is_module or (at.scope.cls is not None and at.scope.name == "__init__")
        for sink, value, path, label in given:
            if sink == "messages":
                first = Step(value, at, (*path, ANY))
                sent.messages += self.tracer.walk(first, stops=lambda step: not step.path)
            else:
                sent.arguments.append((sink, Step(value, at, path, is_session or is_start), label))
        sent.kind, sent.loop = ("agent", None) if is_session else self._conversation(sent)
        return sent

    def _conversation(self, sent: SentPrompt) -> tuple[str, ast.AST | None]:
        """Return whether the messages of a request are kept elsewhere, grow in a loop around it, or are begun for it."""
        loop: ast.AST | None = None
        for step in sent.messages:
            binding = step.binding
            if step.path and self._is_history(step, sent.messages):
                return "turn", None
            if binding is None or binding.kind != "add" or binding.operation not in _GROWTH:
                continue
            is_kept = is_shared_list(step, sent)
            is_by_caller = binding.scope is not sent.scope and step.at.frame is None and binding.loops()
            if is_kept or is_by_caller:
                return "turn", None
            for one in sent.at.place.loops() if binding.scope is sent.scope and loop is None else ():
                if one in binding.loops() and not any(_begins_in(other, one) for other in sent.messages):
                    loop = one
        return ("loop" if loop is not None else "single"), loop

    def _is_history(self, step: Step, steps: list[Step]) -> bool:
        """Return whether a list that comes from elsewhere is a conversation, by its name: `messages`,
        `state["messages"]`.
        """
        node, is_open = step.node, step.is_open
        name = last_name(node)
        key = node.slice if isinstance(node, ast.Subscript) else None
        if isinstance(node, ast.Call):
            name = last_name(node.func).removeprefix("get_").removeprefix("load_")
            key = node.args[0] if name == "get" and node.args else None
        if isinstance(key, ast.Constant):
            name = str(key.value)
            is_open = not any(
                isinstance(one.node, ast.List | ast.Dict) and step in one.chain() for one in steps if one.path
            )
        return is_open and self.knowledge.matches("history_name", name)

    def _of_dict(self, node: ast.Dict, at: At) -> Iterator[SentPrompt]:
        """Yield the body of a request, or the definition of a tool, written as a dict."""
        keys = {
            key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)
        }
        schemas = self.schema_keys & keys.keys()
        if "name" in keys and "description" in keys and schemas:
            sent = SentPrompt(node, at, None, "agent")
            sent.arguments = [("schema", Step(keys[key], at), "the schema of a tool") for key in sorted(schemas)]
            sent.arguments.append(("tool", Step(keys["description"], at), "the description of a tool"))
            yield sent
        lists = [key for key, sink in self.dict_keys.items() if sink == "messages"]
        if _BODY & keys.keys() and any(key in keys and not isinstance(keys[key], ast.Constant) for key in lists):
            given = [
                (sink, keys[key], (), f"`{key}` of a request") for key, sink in self.dict_keys.items() if key in keys
            ]
            yield self.sent(node, at, None, given)

    def _of_function(self, scope: Scope) -> Iterator[SentPrompt]:
        """Yield a function whose decorator or name says that it gives a prompt."""
        decorators = scope.decorators()
        for row in self.knowledge.sections["decorator"] if decorators else ():
            used = next((name for name in row["names"] if name in decorators), "")
            if used and not _packages(scope.module).isdisjoint(row["packages"]):
                yield self._prompt(scope, row["sink"], f"the prompt of `@{used}`", "agent", None)
        if not scope.is_module and self.knowledge.matches("template_function", scope.name):
            caller = self._call_each_time(scope)
            if caller is not None and not self.tracer.is_frozen(scope):
                yield self._prompt(scope, "system", f"the result of `{scope.name}`", "prompt", caller)

    def _prompt(self, scope: Scope, sink: str, label: str, kind: str, caller: CallSite | None) -> SentPrompt:
        """Return what a function gives, as something that is sent."""
        sent = SentPrompt(ast.Constant(""), At(scope, Place(0)), None, kind, caller=caller)
        sent.arguments = [(sink, Step(value, at), label) for value, at in scope.returns]
        return sent

    def _call_each_time(self, scope: Scope) -> CallSite | None:
        """Return a call of a function that is made for a request, and not where a session begins or a request is seen
        itself.
        """
        for site, _ in self.program.callers(scope):
            caller = site.at.scope
            if caller.is_module or self.knowledge.matches("once", caller.name):
                continue
            is_first = any(
                site.node in [*ast.walk(value)] and any(role_of(one) for one in ast.walk(value))
                for value, at in caller.expressions
                if at.place.order == site.at.place.order
            )
            if not is_first and not any(self.row_of(*one) is not None for one in caller.calls):
                return site
        return None

    # Sinks

    def sinks(self, sent: SentPrompt) -> Iterator[Sink]:
        """Yield the values of a request that stand in front of its history, or make the tools."""
        yield from (Sink(kind, step, label, sent) for kind, step, label in sent.arguments)
        first_added = _first_added(sent)
        for step in sent.messages:
            if step.path or _is_behind(step, first_added):
                continue
            for part in self.tracer.walk(step, stops=lambda one: isinstance(one.node, ast.Dict | ast.Call | ast.Tuple)):
                role, content = role_of(part.node), _content_of(part.node)
                if content is None:
                    continue
                inner = part.to(content, ())
                if role in _SYSTEM:
                    yield Sink("system", inner, f"a message of role {role!r}", sent)
                elif role == "user" and sent.kind in ("turn", "loop") and _is_in_front(step):
                    yield Sink("front", inner, "a message in front of the history", sent)


def is_shared_list(step: Step, sent: SentPrompt) -> bool:
    """Return whether what is added to is an attribute, a parameter of the function that sends, or a variable of the
    module.
    """
    binding = step.binding
    if binding is None or step.parent is None:
        return False
    is_local = any(one.kind == "set" for one in binding.scope.bindings.get(last_name(step.parent.node), ()))
    is_outside = step.at.frame is None and binding.scope is sent.scope and not is_local
    return binding.scope.is_module or isinstance(step.parent.node, ast.Attribute) or is_outside


def _packages(module: Module) -> set[str]:
    return {name.partition(".")[0] for name in module.imports.values()}


def _begins_in(step: Step, loop: ast.AST) -> bool:
    """Return whether a list of messages is made anew in each pass of a loop."""
    binding = step.binding
    is_list = isinstance(step.node, ast.List | ast.ListComp)
    return is_list and binding is not None and binding.kind == "set" and loop in binding.loops()


def role_of(node: ast.AST) -> str:
    """Return the role of a message, empty where it is not seen."""
    if isinstance(node, ast.Tuple):
        return str(getattr(node.elts[0], "value", "")) if len(node.elts) == 2 else ""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return next(
            (str(getattr(value, "value", "")) for key, value in pairs if getattr(key, "value", "") == "role"), ""
        )
    if isinstance(node, ast.Call):
        named = next((one.value for one in node.keywords if one.arg == "role"), None)
        return str(getattr(named, "value", "")) or _CLASSES.get(last_name(node.func), "")
    return ""


def _content_of(node: ast.expr) -> ast.expr | None:
    """Return the text of a message."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return next((value for key, value in pairs if getattr(key, "value", "") in ("content", "parts", "text")), None)
    if isinstance(node, ast.Call):
        named = [one.value for one in node.keywords if one.arg in ("content", "text")]
        return next(iter([*named, *node.args]), None)
    return node.elts[1] if isinstance(node, ast.Tuple) and len(node.elts) == 2 else None


def _first_added(sent: SentPrompt) -> dict[Scope, Place]:
    """Function that begins an empty list of messages → where it adds the first to it."""
    bindings = sorted(
        (one.binding for one in sent.messages if one.binding is not None), key=lambda one: one.at.place.order
    )
    begun = {
        one.binding.scope
        for one in sent.messages
        if one.path and one.binding is not None and isinstance(one.node, ast.List) and not one.node.elts
    }
    added = (one for one in reversed(bindings) if one.kind == "add" and one.scope in begun)
    return {one.scope: one.at.place for one in added}


def _is_behind(step: Step, first_added: dict[Scope, Place]) -> bool:
    """Return whether a message was added behind others that were there, so that it stays where it is."""
    binding = step.binding
    if binding is None or binding.kind != "add" or binding.operation in ("insert", "appendleft"):
        return False
    return first_added.get(binding.scope) != binding.at.place


def _is_in_front(step: Step) -> bool:
    """Return whether a message is put before the history: `insert(0, …)`, `[message, *history]`."""
    binding, parent = step.binding, step.parent
    if binding is not None and binding.operation == "insert":
        first = binding.node.args[0] if isinstance(binding.node, ast.Call) else None
        return isinstance(first, ast.Constant) and first.value in (0, 1)
    items = parent.node.elts if parent is not None and isinstance(parent.node, ast.List) else []
    return step.node in items and any(isinstance(one, ast.Starred) for one in items[items.index(step.node) :])
