"""Finds what reaches a model: the arguments of requests, messages by role, definitions of tools, names that say so.

A `Sink` is a value with the request it belongs to. How often a value that reaches it is made anew depends on where the
conversation is kept, so a sink knows that, too.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from contextkit.lint.source.graph import ANY, Function, Module, Node, plain
from contextkit.lint.source.knowledge import Knowledge, Request, ends_with
from contextkit.lint.source.lower import PARTIAL, callee_name
from contextkit.lint.source.program import Program
from contextkit.lint.source.search import CALL, SESSION, Frame, Origin, Path, Search, base_of

SYSTEM_ROLES = frozenset({"system", "developer"})
_CUTS = re.compile(
    r"(?:^|_)(?:trim|truncate|window|limit|prune|prepare|build|cut|shorten|clip|fit|fade|evict|drop|clear|strip|replay|render|convert|format|to|get|keep)"
    r"(?:_|$)|(?:^|_)(?:messages|history|context)_for_"
)
"""Names of functions that make the messages of a request from a history."""
_SHOWS = re.compile(
    r"trac(?:e|ing)|telemetr|logg|display|export|print|show|preview|(?:^|[._])(?:ui|tui|view|log)(?:[._]|$)",
    re.IGNORECASE,
)
"""Names of what shows a conversation to somebody, rather than to a model."""
_TOOLS = re.compile(r"tool|call|action", re.IGNORECASE)
"""Names of functions that put what tools gave into a message of the user's."""
_SYSTEM_MESSAGE = re.compile(r"^System\w*(?:Message|Content|Part)$")
"""Classes of messages of the role system, a framework's or the program's own."""
_UNSEEN = 2
"""Doubt that a search begins with where no request was seen."""
"""Keys of a request that is written as a dict → kind of sink."""


@dataclass(eq=False, slots=True)
class Sink:
    """A value that a model is sent."""

    kind: str
    """`system`, `messages`, `tools`, `front` (a message before the history), `tool` (its description), `schema`, or a
    parameter of the request: `model`, `cache_key`, …"""
    node: Node
    path: Path
    label: str
    """`system=` of `create`."""
    place: Node
    """Where to report it: the argument, or the message."""
    call: Node | None = None
    """The request, None where only a name says what it is."""
    request: Request | None = None
    conversation: Conversation | None = None
    stack: tuple[Frame, ...] = ()
    lifetime: int = CALL
    is_weak: bool = False
    """Whether only its name says that it is sent."""


@dataclass(eq=False, slots=True)
class Conversation:
    """Where the messages of a request are kept."""

    kind: str
    """`kept`: outside of the function that sends the request, so that each of its calls is a turn; `loop`: begun in that
    function and grown in a loop around the request; `single`: one request; `agent`: a framework keeps them."""
    origins: list[Origin] = field(default_factory=list)
    """What the list of messages is made of."""
    is_attribute: bool = False
    """Whether an attribute of an object holds them, so that the conversation lasts as long as the object."""
    grows: bool = False
    """Whether messages are seen to be added, or a history is given by name."""


class Sinks:
    """Collects the sinks of a program."""

    def __init__(self, program: Program, search: Search, knowledge: Knowledge) -> None:
        self.program = program
        self.search = search
        self.knowledge = knowledge
        self.reached: set[int] = set()
        """Messages (ids of their nodes) that a request was seen to hold."""
        sections = knowledge.sections
        self.decorators = {name: row["sink"] for row in sections.get("decorator", ()) for name in row["names"]}
        self.keywords = {
            name: row["sink"]
            for row in sections.get("prompt_name", ())
            if "where" not in row
            for name in row.get("names", ())
        }
        self.tool_makers = [(re.compile(row["name"]), row["arguments"]) for row in sections.get("tool_maker", ())]
        self.histories = _any_of(row["pattern"] for row in sections.get("history_name", ()))
        self.named = {
            name: row["sink"]
            for row in sections.get("prompt_name", ())
            if row.get("where") == ["any"]
            for name in row["names"]
        }
        self.keywords |= self.named
        self.request_keys = {
            key: sink for row in sections.get("request_dict", ()) for key, sink in row["arguments"].items()
        }
        self.message_keys = knowledge.words("request_dict", "messages")
        self.schema_keys = knowledge.words("tool_dict", "schema")
        self.json_types = frozenset(knowledge.words("tool_dict", "types"))
        self.result_ids = frozenset(knowledge.words("tool_result", "ids"))
        self.keeping = _any_of(row["pattern"] for row in sections.get("keeping", ()))
        self.prompt_functions = _any_of(
            row["pattern"] for row in sections.get("template_function", ()) if row.get("sink") == "system"
        )

    def collect(self, modules: Iterable[Module]) -> list[Sink]:
        """All sinks of some modules."""
        modules = list(modules)
        sinks: list[Sink] = []
        for module in modules:
            for call in map(self.applied, module.calls):
                results = self.request_of(call)
                if results is not None:
                    sinks += self.of_request(call, results)
                else:
                    sinks += self.of_tool(call)
            for node in module.dicts:
                sinks += self.of_dict(node)
        reached = {
            id(origin.node) for sink in sinks if sink.conversation is not None for origin in sink.conversation.origins
        }
        for module in modules:
            sinks += self.of_histories(module, reached)
            sinks += self.by_role(module)
            sinks += self.by_name(module)
            sinks += self.by_keyword(module)
            sinks += self.by_setting(module, self.named)
        return sinks

    def applied(self, call: Node) -> Node:
        """The call of the function that `send = partial(client.messages.create, …)` stands for; any other call as it is."""
        callee = call.inputs[0]
        values: list[Node] = []
        if callee.kind == "ref":
            values = self.program.lookup(callee.name, callee.module)
        elif callee.kind == "attr" and callee.inputs[0].kind == "param":
            values = [
                value
                for cls in self.program.classes_of(callee.inputs[0])
                for value, _ in cls.stores.get(callee.name, ())
            ]
        if len(values) != 1 or values[0].kind != "call" or values[0].name not in PARTIAL or not values[0].value:
            return call
        (_, function), *supplied = values[0].value
        n_given = sum(isinstance(key, int) for key, _ in supplied)
        arguments = [(key - 1 if isinstance(key, int) else key, value) for key, value in supplied]
        arguments += [(key + n_given if isinstance(key, int) else key, value) for key, value in call.value]
        return Node("call", call.context, call.position, (function,), callee_name(function), arguments)

    def request_of(self, call: Node) -> Request | None:
        """The row that a call is a request by, None for any other call."""
        rows = self.knowledge.requests.find(call.name)
        if not rows or self.program.targets(call):
            return None  # what is a function of the program is followed: the request it sends is seen there
        supplied = {str(key) for key, _ in call.value}
        for is_named in (True, False):  # the framework that the callee's own name says goes first
            for request in rows:
                if request.packages and not (
                    _is_of(call.name, request.packages) if is_named else _imports(call.module, request.packages)
                ):
                    continue
                if request.receivers and not ends_with(call.name.rpartition(".")[0], request.receivers):
                    continue
                wanted = request.needs or {str(key).partition(".")[0] for key in request.arguments}
                if supplied.isdisjoint(wanted) and "**" not in supplied and not (-1 in request.arguments and supplied):
                    continue
                return request
        return None

    def of_request(self, call: Node, request: Request) -> Iterator[Sink]:
        """The arguments of a request, and its messages."""
        arguments = dict(_arguments(call, request))
        messages = [value for key, value in arguments.items() if request.arguments.get(key) == "messages"]
        conversation = (
            self.conversation(call, request, messages)
            if request.lifetime == "session" or "messages" in request.arguments.values()
            else None
        )
        last = call.name.rpartition(".")[2]
        for key, (node, path) in arguments.items():
            kind = request.arguments[key]
            label = f"`{key}=` of `{last}`" if isinstance(key, str) else f"`{last}`"
            sink = Sink(kind, node, path, label, node if node.position else call, call, request, conversation)
            yield sink
            if kind == "messages" and conversation is not None:
                yield from self.of_messages(sink, conversation.origins)

    def conversation(self, call: Node, request: Request, messages: Sequence[tuple[Node, Path]]) -> Conversation:
        """Where the messages of a request are kept."""
        origins: list[Origin] = []
        is_attribute = False
        for node, path in messages:
            origins += self.search.origins(node, path=path, mode="list", kinds=frozenset())
            is_attribute = is_attribute or any(
                state.node.kind == "attr" and state.mode == "list" for state in self.search.last_states
            )
        if request.lifetime == "session":
            return Conversation("agent", origins)
        grows = _grows(origins) or any(
            origin.kind == "open"
            and origin.node.kind == "param"
            and self.histories.search(origin.node.name) is not None
            for origin in origins
        )
        if is_attribute and grows:
            return Conversation("kept", origins, is_attribute, grows)
        loops = {id(loop) for loop in call.context.loops()}
        is_loop = False
        for origin in origins:
            if origin.kind == "open" and origin.node.kind != "ref":
                return Conversation("kept", origins, is_attribute, grows)
            if origin.kind == "call" and _is_history_name(origin.node.name):
                return Conversation("kept", origins, is_attribute, grows)
            if (
                origin.kind == "update"
                and origin.node.name in {"append", "extend", "+=", "insert"}
                and not origin.node.value
            ):
                around = origin.node.context
                if base_of(origin.node).kind == "attr":
                    return Conversation("kept", origins, is_attribute, grows)
                if any(id(loop) in loops for loop in around.loops()) and not is_begun_in(origin.node, loops):
                    is_loop = True
        return Conversation("loop" if is_loop else "single", origins, is_attribute, grows)

    def of_messages(self, sink: Sink, origins: Iterable[Origin]) -> Iterator[Sink]:
        """System messages, and messages in front of the history, of a request."""
        has_history = sink.conversation is not None and sink.conversation.kind in {"kept", "loop"}
        for origin in origins:
            if origin.kind != "item":
                continue
            for role, content, path, message in self.message(origin.node, origin.state.stack):
                self.reached.add(id(message))
                place = content if content.position is not None else message
                lifetime = origin.state.lifetime
                if _is_added_behind(origin) or _is_only_first(message):
                    continue  # it stays where it is
                if role in SYSTEM_ROLES:
                    yield Sink(
                        "system",
                        content,
                        path,
                        f"a message of role {role!r}",
                        place,
                        sink.call,
                        sink.request,
                        sink.conversation,
                        origin.state.stack,
                        lifetime,
                    )
                elif has_history and _is_in_front(origin):
                    yield Sink(
                        "front",
                        content,
                        path,
                        "a message in front of the history",
                        place,
                        sink.call,
                        sink.request,
                        sink.conversation,
                        origin.state.stack,
                        lifetime,
                    )

    def message(self, node: Node, stack: tuple[Frame, ...]) -> Iterator[tuple[str, Node, Path, Node]]:
        """Role, content (a node and the path into it) and the node of each message that a value may be."""
        for state in self.search.objects(node, stack=stack):
            results = state.node
            if results.kind == "dict" and "role" in results.value:
                roles = self.search.constants(results.inputs[results.value.index("role")], stack=state.stack) or {""}
                for key in ("content", "parts", "text"):
                    if key in results.value:
                        for role in roles:
                            yield str(role), results.inputs[results.value.index(key)], (), results
                        break
            elif results.kind == "tuple" and len(results.inputs) == 2 and results.inputs[0].kind == "const":
                yield str(results.inputs[0].value), results.inputs[1], (), results
            elif results.kind == "call":
                last = results.name.rpartition(".")[2]
                role = (
                    "system"
                    if re.search(r"System(?:Message|PromptPart)|from_system|system_message", results.name)
                    else ""
                )
                if not role and last == "dict" and results.argument("role") is not None:
                    role_node = results.argument("role")
                    role = str(role_node.value) if role_node is not None and role_node.kind == "const" else ""
                elif not role and (supplied := results.argument("role")) is not None:
                    role = next((str(one).lower() for one in self.search.constants(supplied, stack=state.stack)), "")
                content = results.argument("content", "text", 0)
                if content is not None and (role or "Message" in last):
                    yield role, content, (), results

    def of_dict(self, node: Node) -> Iterator[Sink]:
        """A request written as a dict: `{"model": …, "messages": …, "tools": …}`, and a tool's definition."""
        keys = node.value
        schema = next((key for key in self.schema_keys if key in keys), None)
        if "model" in keys and any(key in keys for key in self.message_keys):
            request = Request(self.request_keys)
            fake = Node("call", node.context, node.position, (node,), "request", [])
            messages = [(node.inputs[keys.index(key)], ()) for key in self.message_keys if key in keys]
            conversation = self.conversation(fake, request, messages)
            for key, kind in self.request_keys.items():
                if key in keys:
                    value = node.inputs[keys.index(key)]
                    sink = Sink(kind, value, (), f"`{key}` of a request", value, fake, request, conversation)
                    yield sink
                    if kind == "messages":
                        yield from self.of_messages(sink, conversation.origins)
        elif "type" in keys and "description" in keys and "name" not in keys:
            kind = node.inputs[keys.index("type")]
            if kind.kind == "const" and kind.value in self.json_types:
                description = node.inputs[keys.index("description")]
                yield Sink("tool", description, (), "the description of a parameter", description, is_weak=True)
        elif "name" in keys and "description" in keys and schema is not None:
            description = node.inputs[keys.index("description")]
            yield Sink("tool", description, (), "the description of a tool", description, is_weak=True)
            value = node.inputs[keys.index(schema)]
            yield Sink("schema", value, (), "the schema of a tool", value, is_weak=True)

    def of_tool(self, call: Node) -> Iterator[Sink]:
        """The description and the schema of a tool that a class or function of a framework makes."""
        last = call.name.rpartition(".")[2]
        for pattern, arguments in self.tool_makers:
            if pattern.search(last) and not self.program.targets(call):
                for key, kind in arguments.items():
                    value = call.argument(key)
                    if value is not None and value.kind != "const":
                        yield Sink(kind, value, (), f"`{key}=` of `{last}`", value, is_weak=True)
                return

    def by_role(self, module: Module) -> Iterator[Sink]:
        """System messages that no request was seen to hold."""
        for node in module.dicts:
            if "role" not in node.value or "content" not in node.value:
                continue
            role = node.inputs[node.value.index("role")]
            if role.kind == "const" and role.value in {"user", "tool"}:
                content = node.inputs[node.value.index("content")]
                if content.kind not in {"const", "join"} and (
                    role.value == "tool" or _TOOLS.search(node.context.function.name) or self.has_results(content)
                ):
                    yield Sink("content", content, (), f"a message of role {role.value!r}", content, is_weak=True)
            if (
                role.kind == "const"
                and role.value in SYSTEM_ROLES
                and id(node) not in self.reached
                and not _is_only_first(node)
            ):
                content = node.inputs[node.value.index("content")]
                lifetime = SESSION if self.search.runs_once(node.context.function) else CALL
                yield Sink(
                    "system", content, (), f"a message of role {role.value!r}", content, lifetime=lifetime, is_weak=True
                )
        for call in module.calls:
            last = call.name.rpartition(".")[2]
            if id(call) in self.reached or not _SYSTEM_MESSAGE.search(last):
                continue
            supplied = call.argument("content", "text", "prompt", 0)
            if supplied is not None and all(target.constructs is not None for target in self.program.targets(call)):
                lifetime = SESSION if self.search.runs_once(call.context.function) else CALL
                yield Sink("system", supplied, (), f"`{last}`", supplied, lifetime=lifetime, is_weak=True)

    def by_name(self, module: Module) -> Iterator[Sink]:
        """What functions give back that are called for a system prompt, by their names or decorators."""
        for function in module.functions:
            if (
                not self.prompt_functions.search(function.name)
                and self.decorators.get(next(function.decorated(), "")) != "system"
            ):
                continue
            lifetime = SESSION if self.made_once(function) else CALL
            for node in function.returns:
                yield Sink(
                    "system", node, (), f"the result of `{function.name}`", node, lifetime=lifetime, is_weak=True
                )

    def has_results(self, content: Node) -> bool:
        """Return whether a list is made of the results of tools."""
        element = content.inputs[0] if content.kind == "comp" else None
        return element is not None and element.kind == "dict" and not self.result_ids.isdisjoint(element.value)

    def of_histories(self, module: Module, reached: set[int]) -> Iterator[Sink]:
        """What functions give back, or leave in a list, that cut or convert the history they are given, by their names."""
        for function in module.functions:
            supplied = [name for name in function.params if self.histories.search(name)]
            if not supplied or not _CUTS.search(function.name) or _SHOWS.search(f"{module.name}.{function.qualified}"):
                continue
            nodes = [*function.returns, *(node for name in supplied for node in function.outs.get(name, ()))]
            for node in nodes:
                origins = self.search.origins(node, mode="list", kinds=frozenset(), doubt=_UNSEEN, most=1500)
                if any(_is_parameter_list(one, supplied) for one in origins) and not any(
                    id(one.node) in reached for one in origins
                ):
                    place = node if node.position is not None else next(iter(function.params.values()))
                    label = f"the messages of `{function.name}`"
                    yield Sink(
                        "messages", node, (), label, place, conversation=Conversation("kept", origins), is_weak=True
                    )

    def by_keyword(self, module: Module) -> Iterator[Sink]:
        """What unknown functions are given under a keyword that is a prompt whoever reads it."""
        for call in module.calls:
            for key, value in call.value:
                sink = self.keywords.get(key) if isinstance(key, str) else None
                if (
                    sink is None
                    or value.kind == "const"
                    or self.keeping.search(call.name)
                    or self.program.targets(call)
                ):
                    continue
                if self.request_of(call) is None:
                    lifetime = SESSION if self.search.runs_once(call.context.function) else CALL
                    last = call.name.rpartition(".")[2]
                    yield Sink(sink, value, (), f"`{key}=` of `{last}`", value, lifetime=lifetime, is_weak=True)

    def by_setting(self, module: Module, names: dict[str, str]) -> Iterator[Sink]:
        """What the project's settings name: attributes and keys of any object."""
        for attribute, sink in names.items():
            for node in module.other_stores.get(attribute, ()):
                yield Sink(sink, node, (), f"`{attribute}`", node, is_weak=True)
            for node in module.dicts:
                if attribute in node.value:
                    value = node.inputs[node.value.index(attribute)]
                    yield Sink(sink, value, (), f"`{attribute}`", value, is_weak=True)

    def made_once(self, function: Function) -> bool:
        """Return whether all calls of a function run once."""
        callers = self.program.callers(function)
        return bool(callers) and all(self.search.runs_once(call.context.function) for call, _ in callers)


def _is_parameter_list(origin: Origin, supplied: Iterable[str]) -> bool:
    """Return whether a list is a parameter, or holds its items."""
    if origin.kind == "open":
        return origin.node.name in supplied
    if origin.kind != "item":
        return False
    waiting = [origin.node]
    for _ in range(12):
        if not waiting:
            return False
        node = plain(waiting.pop())
        if node.kind == "param":
            return node.name in supplied
        if node.kind == "call" and node.name in {"reversed", "enumerate", "list"}:
            waiting += [value for _, value in node.value]
        elif node.kind in {"iter", "item", "slice", "phi"}:
            waiting += node.inputs
    return False


def _arguments(call: Node, request: Request) -> Iterator[tuple[str | int, tuple[Node, Path]]]:
    """What a call gives under each key of a row; a dotted key (`config.tools`) is a path into an argument."""
    positional = [key for key, _ in call.value if isinstance(key, int)]
    stars = [value for key, value in call.value if key == "**"]
    for key in request.arguments:
        head, *rest = key.split(".") if isinstance(key, str) else [key]
        path: Path = tuple(ANY if part == "*" else part for part in rest)
        node = call.argument(max(positional, default=-1) if head == -1 else head)
        if node is not None:
            yield key, (node, path)
        elif isinstance(head, str):
            for value in stars:
                yield key, (value, (head, *path))


def is_of(call: Node, packages: Iterable[str]) -> bool:
    """Return whether a call is of one of some packages, by its own name or by what its file imports."""
    return not packages or _is_of(call.name, packages) or _imports(call.module, packages)


def _is_of(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _imports(module: Module, packages: Iterable[str]) -> bool:
    imported = {node.name for nodes in module.top.values() for node in nodes if node.kind == "ref"}
    return any(_is_of(name, packages) for name in imported)


def is_begun_in(node: Node, loops: Container[int]) -> bool:
    """Return whether a list that is added to is made anew in each round of some loops (ids of their contexts)."""
    base = base_of(node)
    return base.kind in {"list", "comp"} and any(id(loop) in loops for loop in base.context.loops())


def _grows(origins: Iterable[Origin]) -> bool:
    return any(origin.kind == "update" and origin.node.name in {"append", "extend", "+="} for origin in origins)


def _is_history_name(name: str) -> bool:
    return re.search(r"messages|history|conversation|transcript", name.rpartition(".")[2], re.IGNORECASE) is not None


def _is_added_behind(origin: Origin) -> bool:
    """Return whether a message is appended to a list that somebody else keeps: it stays where it is."""
    above = origin.state.parent
    return (
        above is not None
        and above.node.kind == "update"
        and above.node.name == "append"
        and base_of(above.node).kind in {"attr", "param"}
    )


def _is_only_first(message: Node) -> bool:
    """Return whether a message is made only where there is none yet: `if not messages`, `if not any(… == "system"
    …)`.
    """
    for context in message.context.chain():
        test = context.test
        if context.kind == "if" and test is not None and test.kind == "compare" and test.name == "not":
            inner = test.inputs[0]
            if inner.kind in {"param", "attr", "phi", "update"} or (
                inner.kind == "call" and inner.name in {"any", "len"}
            ):
                return True
    return False


def _is_in_front(origin: Origin) -> bool:
    """Return whether a message stands before a history in the same list."""
    above = origin.state.parent
    if above is None:
        return False
    node = above.node
    if node.kind == "list":
        index = next((i for i, part in enumerate(node.inputs) if part is origin.node), 0)
        if any(part.kind == "star" for part in node.inputs[index + 1 :]):
            return True
        return above.parent is not None and above.parent.node.kind == "join" and above.parent.node.inputs[0] is node
    if node.kind == "update" and node.name == "insert":
        where = node.inputs[1]
        return where.kind == "const" and where.value in (0, 1)
    return False


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    joined = "|".join(patterns)
    return re.compile(joined or r"(?!)")


__all__ = ["Conversation", "Sink", "Sinks", "is_of"]
