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
from contextkit.lint.source.scopes import ANY, CallSite, Module, Path, Place, Scope, last_name
from contextkit.lint.source.trace import Step, Tracer

_SYSTEM = frozenset({"system", "developer"})
_SYSTEM_CLASS = ("SystemMessage", "SystemPromptPart", "SystemMessagePromptTemplate", "from_system")
_GROWTH = frozenset({"append", "extend", "+=", "insert", "add"})


@dataclass(eq=False, slots=True)
class Sent:
    """One place that sends requests, or a prompt that somebody sends."""

    node: ast.expr
    scope: Scope
    place: Place
    row: Request | None
    """What is known of the call; None where only a name or a list of messages says that something is sent."""
    kind: str = "single"
    """`turn`: each call is one more turn of a conversation kept elsewhere; `loop`: a conversation that is begun here and goes
    on in a loop; `single`: one question; `agent`: a framework keeps the conversation; `prompt`: only its name says so."""
    loop: ast.AST | None = None
    """The loop of a conversation that is begun here."""
    messages: list[Step] = field(default_factory=list)
    """What the list of messages is made of: steps with a path are lists, those without are messages."""
    arguments: dict[str, list[tuple[Step, str]]] = field(default_factory=dict)
    """Sink → values and how to call them in a sentence."""
    caller: CallSite | None = None
    """Of a function that gives a prompt: where it is called for a request."""

    @property
    def goes_on(self) -> bool:
        """Whether there is more than one request of a conversation."""
        return self.kind != "single"


@dataclass(eq=False, slots=True)
class Sink:
    """A value that a model is sent."""

    kind: str
    """`system`, `front` (a message before the history), `tools`, `tool` (a description), `schema`."""
    step: Step
    label: str
    """`system=` of `create`."""
    sent: Sent


class Requests:
    """Collects the requests and sinks of modules."""

    def __init__(self, program: Program, tracer: Tracer, knowledge: Knowledge) -> None:
        self.program, self.tracer, self.knowledge = program, tracer, knowledge
        rows = knowledge.sections["request_dict"]
        self.message_keys = [key for row in rows for key in row["messages"]]
        self.dict_keys = {key: sink for row in rows for key, sink in row["arguments"].items()}
        self.schema_keys = knowledge.words("tool_dict", "schema")
        self.decorators = {
            name: (row["sink"], frozenset(row["packages"]))
            for row in knowledge.sections["decorator"]
            for name in row["names"]
        }

    def of_module(self, module: Module) -> list[Sent]:
        """What a module sends."""
        found: list[Sent] = []
        for scope in module.scopes:
            for site in scope.calls:
                call = self.program.applied(site.node, scope, site.place)
                row = self.row_of(call, scope, site.place)
                if row is not None:
                    found.append(self.sent(call, scope, site.place, row, list(self.given(call, row))))
            for node, place in scope.expressions:
                found += self.of_displays(node, scope, place)
            found += self.of_function(scope)
        return found

    def row_of(self, call: ast.Call, scope: Scope, place: Place) -> Request | None:
        """What is known of a call as a request; None for any other call, and for one of a function of the files."""
        if not self.knowledge.requests.find_last(last_name(call.func)):
            return None
        name = self.program.dotted(call.func, scope, place)
        supplied = {one.arg or "**" for one in call.keywords} | {str(number) for number in range(len(call.args))}
        imported = {one.partition(".")[0] for one in scope.module.imports.values()}
        for row in self.knowledge.requests.find(name):
            if row.packages and not (name.partition(".")[0] in row.packages or imported & set(row.packages)):
                continue
            if row.receivers and not ends_with(name.rpartition(".")[0], row.receivers):
                continue
            wanted = row.needs or {str(key).partition(".")[0] for key in row.arguments}
            if supplied.isdisjoint(wanted) and "**" not in supplied and not (-1 in row.arguments and supplied):
                continue
            return None if self.program.targets(call, scope, place) else row
        return None

    def given(self, call: ast.Call, row: Request) -> Iterator[tuple[str, ast.expr, Path, str]]:
        """The arguments of a request: sink, value, path into it, label."""
        last = last_name(call.func)
        for key, sink in row.arguments.items():
            name, *rest = str(key).split(".")
            label = f"`{key}=` of `{last}`" if isinstance(key, str) else f"`{last}`"
            if isinstance(key, int):
                if call.args and not isinstance(call.args[0], ast.Starred) and key < len(call.args):
                    yield sink, call.args[key], (), label
                continue
            named = [one.value for one in call.keywords if one.arg == name]
            if named:
                yield sink, named[0], tuple(rest), label
            else:
                yield from ((sink, one.value, (name, *rest), label) for one in call.keywords if one.arg is None)

    def sent(
        self,
        node: ast.expr,
        scope: Scope,
        place: Place,
        row: Request | None,
        given: Iterable[tuple[str, ast.expr, Path, str]],
    ) -> Sent:
        """A request with its arguments and messages."""
        sent = Sent(node, scope, place, row)
        is_session = row is not None and row.lifetime == "session"
        once = is_session or (scope.cls is not None and scope.name == "__init__") or scope.is_module
        for sink, value, path, label in given:
            if sink == "messages":
                sent.messages += self.listed(Step(value, scope, place, (*path, ANY)))
            else:
                sent.arguments.setdefault(sink, []).append((Step(value, scope, place, path, None, once), label))
        if is_session:
            sent.kind = "agent"
        else:
            sent.kind, sent.loop = self.conversation(sent)
        return sent

    def listed(self, first: Step) -> list[Step]:
        """The parts of a list of messages: lists, whose path is not empty, and messages."""
        return self.tracer.walk(first, stops=lambda step: not step.path)

    def conversation(self, sent: Sent) -> tuple[str, ast.AST | None]:
        """Whether the messages of a request are kept elsewhere, grow in a loop around it, or are begun for it."""
        loops = sent.place.loops()
        loop: ast.AST | None = None
        for step in sent.messages:
            binding = step.binding
            if step.path and step.is_open and self.is_history(step):
                return "turn", None
            if binding is None or binding.kind != "add" or binding.operation not in _GROWTH:
                continue
            is_attribute = binding.scope.cls is not None and not isinstance(step.parent and step.parent.node, ast.Name)
            if is_attribute or binding.scope.is_module:
                return "turn", None
            if binding.scope is not sent.scope and step.frame is None and binding.place.loops():
                return "turn", None  # a caller goes on with the conversation
            around = binding.place.loops() if binding.scope is sent.scope else []
            loop = loop or next((one for one in loops if one in around and not self.is_begun_in(sent, one)), None)
        return ("loop", loop) if loop is not None else ("single", None)

    def is_begun_in(self, sent: Sent, loop: ast.AST) -> bool:
        """Whether the list of messages is made anew in each pass of a loop."""
        return any(
            step.binding is not None
            and step.binding.kind == "set"
            and loop in step.binding.place.loops()
            and isinstance(step.node, ast.List | ast.ListComp)
            for step in sent.messages
        )

    def is_history(self, step: Step) -> bool:
        """Whether a list that comes from elsewhere is a conversation, by its name."""
        name = last_name(step.node)
        if isinstance(step.node, ast.Subscript) and isinstance(step.node.slice, ast.Constant):
            name = str(step.node.slice.value)
        if isinstance(step.node, ast.Call):
            name = last_name(step.node.func).removeprefix("get_").removeprefix("load_")
        return self.knowledge.matches("history_name", name)

    def of_displays(self, node: ast.expr, scope: Scope, place: Place) -> Iterator[Sent]:
        """Bodies of requests written as dicts, and lists of a system message and a history."""
        for one in ast.walk(node):
            if isinstance(one, ast.Dict):
                yield from self.of_tool(one, scope, place)
                keys = {
                    key.value: value
                    for key, value in zip(one.keys, one.values, strict=True)
                    if isinstance(key, ast.Constant)
                }
                if any(name in keys for name in ("model", "modelId", "anthropic_version", "max_tokens")) and any(
                    key in keys and not isinstance(keys[key], ast.Constant) for key in self.message_keys
                ):
                    given = [
                        (sink, keys[key], (), f"`{key!s}` of a request")
                        for key, sink in self.dict_keys.items()
                        if key in keys
                    ]
                    given += [("messages", keys[key], (), "messages") for key in self.message_keys[1:] if key in keys]
                    yield self.sent(one, scope, place, None, given)
            elif (
                isinstance(one, ast.List)
                and len(one.elts) > 1
                and any(isinstance(item, ast.Starred) for item in one.elts)
            ):
                if any(self.role(item, scope) in _SYSTEM for item in one.elts):
                    sent = self.sent(one, scope, place, None, [("messages", one, (), "messages")])
                    if sent.kind == "turn":
                        yield sent

    def of_tool(self, node: ast.Dict, scope: Scope, place: Place) -> Iterator[Sent]:
        """The definition of a tool written as a dict."""
        keys = {
            key.value: value for key, value in zip(node.keys, node.values, strict=True) if isinstance(key, ast.Constant)
        }
        if "name" in keys and "description" in keys and self.schema_keys & keys.keys():
            sent = Sent(node, scope, place, None, "agent")
            sent.arguments["tool"] = [(Step(keys["description"], scope, place), "the description of a tool")]
            schemas = [keys[key] for key in self.schema_keys if key in keys]
            sent.arguments["schema"] = [(Step(one, scope, place), "the schema of a tool") for one in schemas]
            yield sent

    def of_function(self, scope: Scope) -> Iterator[Sent]:
        """A function whose decorator or name says that it gives a prompt."""
        imported = {one.partition(".")[0] for one in scope.module.imports.values()}
        for name in scope.decorators():
            sink, packages = self.decorators.get(name, ("", frozenset()))
            if sink in ("system", "tools") and imported & packages:
                yield self.prompt(scope, sink, f"the prompt of `@{name}`", "agent")
                return
        is_named = not isinstance(scope.node, ast.Lambda) and self.knowledge.matches("template_function", scope.name)
        caller = self.call_of_each_time(scope) if is_named and not self.tracer.is_frozen(scope) else None
        if caller is not None:
            sent = self.prompt(scope, "system", f"the result of `{scope.name}`", "prompt")
            sent.caller = caller
            yield sent

    def prompt(self, scope: Scope, sink: str, label: str, kind: str) -> Sent:
        """What a function gives, as something that is sent."""
        nodes = [value for value, _ in scope.returns]
        sent = Sent(nodes[0] if nodes else ast.Constant(""), scope, Place(0), None, kind)
        sent.arguments[sink] = [(Step(value, scope, place), label) for value, place in scope.returns]
        return sent

    def call_of_each_time(self, scope: Scope) -> CallSite | None:
        """A call of a function in view that is made somewhere else than where a session begins."""
        for site, _ in self.program.callers(scope):
            caller = site.scope
            if caller.is_module or self.knowledge.matches("once", caller.name):
                continue
            is_request = any(self.row_of(one, caller, place) is not None for one, _, place in caller.calls)
            is_first = any(
                site.node in ast.walk(value) and any(self.role(one, caller) for one in ast.walk(value))  # type: ignore[arg-type]
                for value, place in caller.expressions
                if place.order == site.place.order
            )
            if not is_request and not is_first:
                return site
        return None

    # Sinks

    def sinks(self, sent: Sent) -> Iterator[Sink]:
        """The values of a request that stand in front of its history, or make the tools."""
        for kind, values in sent.arguments.items():
            for step, label in values:
                yield Sink(kind, step, label, sent)
        has_history = sent.kind in ("turn", "loop")
        for step in sent.messages:
            if step.path:
                continue
            for part in self.tracer.walk(step, stops=lambda one: isinstance(one.node, ast.Dict | ast.Call | ast.Tuple)):
                role, content = self.role(part.node, part.scope), self.content(part.node)
                if content is None or self.is_behind(step, sent):
                    continue
                inner = Step(content, part.scope, part.place, (), part.frame, part.once, part.removed, step)
                if role in _SYSTEM:
                    yield Sink("system", inner, f"a message of role {role!r}", sent)
                elif has_history and role == "user" and self.is_in_front(step):
                    yield Sink("front", inner, "a message in front of the history", sent)

    def role(self, node: ast.expr, scope: Scope) -> str:
        """The role of a message, empty where it is not seen."""
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "role":
                    return str(value.value) if isinstance(value, ast.Constant) else ""
        if isinstance(node, ast.Tuple) and len(node.elts) == 2 and isinstance(node.elts[0], ast.Constant):  # noqa: PLR2004
            return str(node.elts[0].value)
        if isinstance(node, ast.Call):
            for one in node.keywords:
                if one.arg == "role" and isinstance(one.value, ast.Constant):
                    return str(one.value.value)
            if last_name(node.func).endswith(_SYSTEM_CLASS):
                return "system"
            if last_name(node.func) in ("HumanMessage", "UserMessage"):
                return "user"
        return ""

    def content(self, node: ast.expr) -> ast.expr | None:
        """The text of a message."""
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value in ("content", "parts", "text"):
                    return value
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:  # noqa: PLR2004
            return node.elts[1]
        if isinstance(node, ast.Call):
            named = next((one.value for one in node.keywords if one.arg in ("content", "text")), None)
            return named or (node.args[0] if node.args else None)
        return None

    def is_behind(self, step: Step, sent: Sent) -> bool:
        """Whether a message was added behind others that were there, so that it stays where it is."""
        binding = step.binding
        if binding is None or binding.kind != "add" or binding.operation not in ("append", "add", "+=", "extend"):
            return False
        before = [
            one for one in sent.messages if one.path and one.binding is not None and one.binding.scope is binding.scope
        ]
        begins_here = any(
            isinstance(one.node, ast.List)
            and not one.node.elts
            and one.binding is not None
            and one.binding.kind == "set"
            and one.binding.place.order < binding.place.order
            for one in before
        )
        is_first = not any(
            one.binding is not None
            and one.binding.kind == "add"
            and one.binding.scope is binding.scope
            and one.binding.place.order < binding.place.order
            for one in sent.messages
        )
        return not (begins_here and is_first)

    def is_in_front(self, step: Step) -> bool:
        """Whether a message is put before the history: `insert(0, …)`, `[message, *history]`."""
        binding = step.binding
        if binding is not None and binding.operation == "insert":
            call = binding.node
            return (
                isinstance(call, ast.Call) and isinstance(call.args[0], ast.Constant) and call.args[0].value in (0, 1)
            )
        parent = step.parent
        if parent is not None and isinstance(parent.node, ast.List) and step.node in parent.node.elts:
            behind = parent.node.elts[parent.node.elts.index(step.node) + 1 :]
            return any(isinstance(one, ast.Starred) for one in behind)
        return False
