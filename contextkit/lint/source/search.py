"""Follows a value backward to everything it is made of: the worklist over the value graph.

A search begins at what a request is given (its system text, its list of messages) and visits inputs, across functions,
methods and modules, until the worklist is empty. A call is entered through its `return`s and left through the argument
given at that very call, so that two uses of one helper do not mix. What a state still may find (`kinds`) shrinks where
something on the way makes a value stable; how long a value lives (`lifetime`) grows where it is kept.

The default is to pass on: arithmetic, `round`, `str`, lookups and functions that are not known have in their result what
they were given, unless `knowledge` says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from contextkit.lint.source.graph import ANY, Class, Function, Key, Node, plain
from contextkit.lint.source.knowledge import KINDS, Knowledge, Source, ends_with
from contextkit.lint.source.lower import PARTIAL
from contextkit.lint.source.program import Program, Target

CALL, SESSION, PROCESS = 0, 1, 2
"""How long a value is kept: made for each call, made once for a session (an object's `__init__`), once for a process."""
MOST_STATES: Final = 6000
_DEEPEST: Final = 10
"""Calls that are entered from one another."""
_LONGEST_PATH: Final = 5
_MOST_DOUBT: Final = 4

Path = tuple[Key, ...]
Frame = tuple[Node, Target]


class State:
    """A value on the way, and how it was reached."""

    __slots__ = ("doubt", "kinds", "lifetime", "mode", "node", "parent", "path", "stack")

    def __init__(
        self,
        node: Node,
        path: Path,
        stack: tuple[Frame, ...],
        kinds: frozenset[str],
        lifetime: int,
        mode: str,
        parent: State | None,
        doubt: int = 0,
    ) -> None:
        self.node = node
        self.path = path
        """Keys that are still to be read from the value."""
        self.stack = stack
        """Calls that were entered and not yet left, innermost last."""
        self.kinds = kinds
        self.lifetime = lifetime
        self.mode = mode
        """`value`: everything in it; `list`: the list itself, whose items are reported and not followed; `select`: what
        decides which value it is."""
        self.parent = parent
        self.doubt = doubt
        """How much on the way was guessed: functions that are not known, objects whose class is not, callers one of which is
        meant. A way with too much of it is given up."""

    def chain(self) -> Iterator[State]:
        """The state and those before it, back to the beginning of the search."""
        state: State | None = self
        while state is not None:
            yield state
            state = state.parent


@dataclass(frozen=True, slots=True)
class Origin:
    """Something a search met: a value that varies, or (in mode `list`) something done to the list."""

    kind: str
    """A kind of source, or `item`, `slice`, `update`, `join`, `comp`, `call`, `reorder`, `open` (the search ends in something
    unknown: a parameter nobody gives, an attribute nobody sets)."""
    node: Node
    state: State


ALL_KINDS: Final = KINDS
_SAME: Final = frozenset(
    """list tuple copy.copy copy.deepcopy typing.cast iter dict asyncio.wait_for asyncio.run asyncio.shield next sum max min
    asyncio.ensure_future asyncio.create_task""".split()  # noqa: SIM905 - a list of words
)
"""Functions that give back what they are given, or one of its elements: path and list are kept."""
_SAME_METHODS: Final = frozenset(
    {"copy", "result", "run_until_complete", "model_copy", "model_dump", "to_dict", "dict", "tolist"}
)
_READS: Final = frozenset({"get", "pop", "setdefault"})
_RUNS: Final = {"asyncio.to_thread": 0, "anyio.to_thread.run_sync": 0, "run_in_executor": 1, "map": 0, "submit": 0}
_ANSWERS: Final = frozenset(
    "create invoke ainvoke complete acomplete completion acompletion generate agenerate chat achat predict run arun converse".split()  # noqa: SIM905 - a list of words
)
"""Last names of requests whose result is the model's answer."""
_DAY_FORMAT: Final = frozenset("HMSfIpsTXcrR")
_DAY_METHODS: Final = frozenset(
    {"date", "to_date_string", "toordinal", "isocalendar", "weekday", "isoweekday", "year", "month", "day"}
)
_TEXT: Final = frozenset(
    """str repr ascii int float round abs divmod pow hex oct bin format format_map join replace strip lstrip rstrip dedent indent fill
    shorten render render_async arender encode decode lower upper title capitalize splitlines split partition rpartition removeprefix
    removesuffix expandtabs concat substitute safe_substitute dumps loads isoformat strftime astimezone timestamp fromtimestamp
    from_string from_template Template zfill ljust rjust center translate append extend invoke format_messages format_prompt partial
    list tuple dict set union first last""".split()  # noqa: SIM905 - a list of words
)
"""Last names of functions whose result surely holds what they are given."""
CLOCKS: Final = frozenset({"clock"})
_TEMPLATE_CLOCK: Final = re.compile(r"\{\{[^}]*\b(?:utc)?now\(\)[^}]*\}\}")
DAY: Final = "day"
"""Among the kinds of a state: a clock that is met from here on was written to the day only."""
_CONTENT: Final = frozenset({"content", "text", "parts"})
_HISTORY: Final = re.compile(r"messages|history|conversation|transcript|turns|msgs", re.IGNORECASE)
SORTED: Final = "sorted"
"""Among the kinds of a state: the keys of mappings that are met from here on were sorted."""
_OTHER_ROLES: Final = frozenset({"user", "assistant", "tool", "function", "human", "ai", "model"})
_OBJECTS: Final = frozenset({"dict", "list", "tuple", "set", "const", "join", "comp", "func", "compare"})
"""What an object that is looked for may be; the search for objects ends there."""


class Search:
    """One program, and what is known of libraries."""

    def __init__(self, program: Program, knowledge: Knowledge) -> None:
        self.program = program
        self.knowledge = knowledge
        self.is_system = self.is_tools = self.selects = False
        self.last_states: list[State] = []
        """The states of the last search, in order."""
        self.order = knowledge.groups.get("order", frozenset())
        self.freezing = frozenset(name for row in knowledge.sections.get("freezing", ()) for name in row["names"])
        aside = knowledge.sections.get("aside", ())
        self.aside = frozenset(name for row in aside for name in row.get("names", ()))
        self.aside_pattern = re.compile("|".join(row["pattern"] for row in aside if "pattern" in row) or "(?!)")
        self.side_call = re.compile(
            "|".join(row["pattern"].removeprefix("(?i)") for row in knowledge.sections.get("side_call", ())) or "(?!)",
            re.IGNORECASE,
        )
        """Names of functions that ask something beside a conversation: a title, a summary, a verdict."""
        self.once_pattern = re.compile(
            "|".join(row["pattern"] for row in knowledge.sections.get("once", ()) if "pattern" in row) or "(?!)"
        )
        self.once = frozenset(name for row in knowledge.sections.get("once", ()) for name in row.get("names", ()))

    def objects(self, node: Node, *, path: Path = (), stack: tuple[Frame, ...] = ()) -> list[State]:
        """The displays, constants and calls outside of the program that a value may be."""
        results = self.origins(node, path=path, mode="object", stack=stack, most=400)
        return [origin.state for origin in results if origin.kind == "object"]

    def constants(self, node: Node, *, path: Path = (), stack: tuple[Frame, ...] = ()) -> set[Any]:
        """The constants that a value may be."""
        return {state.node.value for state in self.objects(node, path=path, stack=stack) if state.node.kind == "const"}

    def origins(
        self,
        node: Node,
        *,
        path: Path = (),
        kinds: frozenset[str] = ALL_KINDS,
        mode: str = "value",
        doubt: int = 0,
        selects: bool = False,
        lifetime: int = CALL,
        stack: tuple[Frame, ...] = (),
        most: int = MOST_STATES,
        is_system: bool = False,
        is_tools: bool = False,
    ) -> list[Origin]:
        """Everything that a value is made of, nearest first.

        `selects` follows what decides which of several values it is (conditions of branches, of comprehensions), too.
        `is_system` leaves out the text of messages of the user, the assistant and tools, where a system text is picked out of
        a list of messages; `is_tools` takes a function in a list for a tool, and not for what a framework calls.
        """
        self.is_system, self.is_tools = is_system, is_tools
        return self._walk(State(node, path, stack, kinds, lifetime, mode, None, doubt), selects, most)[0]

    def visited(
        self, node: Node, *, path: Path = (), stack: tuple[Frame, ...] = (), lifetime: int = CALL
    ) -> list[State]:
        """Every value that a value is made of, nearest first."""
        self.is_system = self.is_tools = False
        return self._walk(State(node, path, stack, ALL_KINDS, lifetime, "value", None), False, MOST_STATES)[1]

    def _walk(self, first: State, selects: bool, most: int) -> tuple[list[Origin], list[State]]:
        """What a search meets, and the states it comes through."""
        results: list[Origin] = []
        self.selects = selects
        work = self.last_states = [first]
        done: set[tuple[Any, ...]] = {_key(first)}
        index = 0
        while index < len(work) and index < most:
            state = work[index]
            index += 1
            if state.mode == "object" and not state.path and state.node.kind in _OBJECTS:
                results.append(Origin("object", state.node, state))
                continue
            handler = _HANDLERS.get(state.node.kind)
            if handler is None or (
                state.node.position is not None and state.node.position.line in state.node.module.frozen
            ):
                continue
            for following in handler(self, state, results, selects):
                if following.doubt > _MOST_DOUBT or (not following.kinds and following.mode not in {"list", "object"}):
                    continue
                key = _key(following)
                if key not in done:
                    done.add(key)
                    work.append(following)
        return results, work

    # One kind of node each: what comes before it

    def const(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """A text that a template engine fills in may ask for the time itself: `{{ now() }}`."""
        text = state.node.value
        if isinstance(text, str) and "now()" in text and "{{" in text and state.mode == "value":
            for requested in _TEMPLATE_CLOCK.findall(text):
                is_day = "strftime" in requested and not any(f"%{one}" in requested for one in _DAY_FORMAT)
                kind = "date" if is_day or DAY in state.kinds else "clock"
                if kind in state.kinds:
                    results.append(Origin(kind, state.node, state))
        return ()

    def ref(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """What a global name, or one of a library, holds."""
        node = state.node
        name = node.name.removeprefix("~")
        values = self.program.lookup(node.name, node.module)
        for value in values:
            if value is node:
                continue
            function = value.context.function
            lifetime = (
                max(state.lifetime, PROCESS)
                if function.is_top and value.kind not in {"func", "class"}
                else state.lifetime
            )
            if value.kind == "update" and not function.is_top:
                lifetime = state.lifetime
            yield _to(state, value, stack=() if value.kind != "func" else state.stack, lifetime=lifetime)
        if not values:
            kind = self.knowledge.globals.get(name) or self.knowledge.globals.get(name.rpartition(".")[0])
            if kind is not None and kind in state.kinds:
                results.append(Origin(kind, node, state))
            elif state.mode == "list" or not self.named(node, name.rpartition(".")[2], state, results):
                results.append(Origin("open", node, state))

    def named(self, node: Node, name: str, state: State, results: list[Origin]) -> bool:
        """Return whether a name says by itself that its value varies; then it is met."""
        kind = self.knowledge.names.get(name)
        if kind is None or kind not in state.kinds:
            return False
        results.append(Origin(kind, node, state))
        return True

    def param(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """What the callers give, and the default."""
        node = state.node
        function: Function = node.value
        if state.stack and state.stack[-1][1].function is function:
            call, target = state.stack[-1]
            supplied = self.program.arguments(call, target, node.name)
            yield from self.argument_states(state, supplied, state.stack[:-1], node.name == function.kwarg)
            if not supplied:
                yield from self.default(state, function, state.stack[:-1])
            if supplied or node.name in function.defaults or node.name in {function.vararg, function.kwarg}:
                return
            results.append(Origin("open", node, state))
            return
        if state.stack:
            # Entered a closure or a method of an object that was made elsewhere: its callers are not on the stack.
            state = _to(state, node, stack=())
        callers = self.program.callers(function)
        n_supplied = 0
        for call, target in callers:
            supplied = self.program.arguments(call, target, node.name)
            n_supplied += bool(supplied)
            lifetime = state.lifetime
            if target.constructs is not None and self.runs_once(call.context.function):
                lifetime = max(lifetime, SESSION)
            if call.context.function.is_top:
                lifetime = PROCESS
            yield from self.argument_states(
                _to(state, node, lifetime=lifetime, doubt=int(len(callers) > 1)),
                supplied,
                (),
                node.name == function.kwarg,
            )
        if n_supplied < len(callers) or not callers:
            yield from self.default(state, function, ())
        if not n_supplied and not self.named(node, node.name, state, results):
            results.append(Origin("open", node, state))

    def argument_states(
        self, state: State, supplied: list[tuple[Node, Path]], stack: tuple[Frame, ...], is_kwarg: bool
    ) -> Iterator[State]:
        """What calls give for a parameter."""
        for value, extra in supplied:
            path = state.path
            if extra and isinstance(extra[0], str) and extra[0].startswith("**") and extra[0] != "**":
                if not path or path[0] in (extra[0][2:], ANY, None):
                    yield _to(state, value, path=path[1:], stack=stack)
                continue
            if extra == (ANY,) and path:
                path = path[1:] if state.node.name == state.node.value.vararg else path
                yield _to(state, value, path=path, stack=stack)
                continue
            yield _to(state, value, path=(*extra, *path), stack=stack)

    def default(self, state: State, function: Function, stack: tuple[Frame, ...]) -> Iterator[State]:
        """The value of a parameter that a call leaves out."""
        default = function.defaults.get(state.node.name)
        if default is not None and (default.kind != "const" or state.mode == "object"):
            yield _to(state, default, stack=stack, lifetime=PROCESS)

    def join(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """The parts of a text, or the operands of an operation."""
        node = state.node
        if state.mode == "list" or state.path:
            if node.name == "+":
                if state.mode == "list":
                    results.append(Origin("join", node, state))
                for part in node.inputs:
                    yield _to(state, part)
            elif node.name in {"arith", "%", "*"} and not state.path:  # dict | dict
                for part in node.inputs:
                    yield _to(state, part)
            elif state.mode != "list":
                for part in node.inputs:
                    yield _to(state, part, path=())
            return
        for part in node.inputs:
            if part.kind != "const" or _is_template(part):
                yield _to(state, part)

    def compare(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """What is compared, where it decides which value it is."""
        if state.mode == "select":
            for part in state.node.inputs:
                yield _to(state, part, path=())

    def phi(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """The values that branches leave."""
        node = state.node
        if state.mode == "list" and node.value is not None:
            results.append(Origin("branch", node, state))
        lifetime = max(state.lifetime, SESSION) if self.is_stored_once(node) else state.lifetime
        for part in node.inputs:
            if part.kind != "const" or state.mode in {"list", "object"} or _is_template(part):
                yield _to(state, part, lifetime=lifetime)
        if selects and node.value is not None and state.mode != "list":
            yield _to(state, node.value, path=(), mode="select", doubt=3)

    def attr(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """What an attribute of an object holds."""
        node = state.node
        base = node.inputs[0]
        classes = self.program.classes_of(base)
        n_found = 0
        for cls in classes:
            for following in self.attribute(state, cls, node.name):
                n_found += 1
                yield following
        if n_found:
            return
        kinds = state.kinds
        if node.name in _DAY_METHODS and "clock" in kinds:
            kinds = kinds - CLOCKS | {DAY}
        for value in self.program.stores.get(node.name, ())[:6] if _is_distinctive(node.name) and not classes else ():
            yield _to(state, value, stack=(), doubt=2)
        if self.named(node, node.name, state, results):
            return
        if base.kind == "param" and _is_self(base):
            results.append(Origin("open", node, state))
            return
        if state.mode == "list":
            results.append(Origin("open", node, state))
        if len(state.path) < _LONGEST_PATH:
            yield _to(
                state,
                base,
                path=("." + node.name, *state.path),
                kinds=kinds,
                mode="value" if state.mode == "list" else state.mode,
                doubt=1,
            )

    def attribute(self, state: State, cls: Class, name: str) -> Iterator[State]:
        """What an attribute of an object of a class holds."""
        for one in self.program.family(cls):
            for value, function in one.stores.get(name, ()):
                lifetime = state.lifetime
                if self.runs_once(function) or _is_set_lazily(value, name):
                    lifetime = max(lifetime, SESSION)
                yield _to(state, value, stack=(), lifetime=lifetime)
            for value in one.attributes.get(name, ()):
                yield _to(state, value, stack=(), lifetime=PROCESS)
            method = one.methods.get(name)
            if method is not None:
                names = set(method.decorated())
                if "property" in names or "cached_property" in names:
                    yield from self.returns(
                        state, method, (), SESSION if "cached_property" in names else state.lifetime
                    )

    def is_stored_once(self, node: Node) -> bool:
        """Return whether a value is read where it was just stored, if it was not yet: `if self.key is None:
        self.key = …`.
        """
        for part in node.inputs if node.name in {"if", "or"} else ():
            if part.kind == "attr" and _is_set_lazily(node, part.name):
                stored = list(self.program.stores.get(part.name, ()))
                for cls in self.program.classes_of(part.inputs[0]):
                    stored += [value for one in self.program.family(cls) for value, _ in one.stores.get(part.name, ())]
                if any(value is node for value in stored):
                    return True
        return False

    def runs_once(self, function: Function) -> bool:
        """Return whether a session runs a function once: a constructor, or what only constructors call."""
        if self.is_once(function):
            return True
        callers = self.program.callers(function)
        return bool(callers) and all(
            self.is_once(call.context.function) and not call.context.loops() for call, _ in callers
        )

    def is_once(self, function: Function) -> bool:
        """Return whether a function runs once, as its name says."""
        return function.is_top or function.name in self.once or self.once_pattern.search(function.name) is not None

    def item(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """What stands under a key or position."""
        node = state.node
        base = node.inputs[0]
        if isinstance(node.value, str) and self.named(node, node.value, state, results):
            return
        newest = plain(base)
        if (
            "user" in state.kinds
            and node.value in _CONTENT
            and newest.kind == "item"
            and newest.value == -1
            and _is_history(newest.inputs[0])
        ):
            results.append(Origin("user", node, state))
            return
        if len(state.path) < _LONGEST_PATH:
            key = node.value if node.value is not None else ANY
            yield _to(state, base, path=(key, *state.path), mode="value" if state.mode == "list" else state.mode)
        if state.mode == "list":
            results.append(Origin("open", node, state))
        if len(node.inputs) > 1 and node.inputs[1].kind != "const":
            yield _to(state, node.inputs[1], path=(), kinds=state.kinds & {"clock", "date", "choice"})
            if selects:
                yield _to(state, node.inputs[1], path=(), mode="select", doubt=3)

    def slice(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """The list that is cut."""
        if state.mode == "list":
            results.append(Origin("slice", state.node, state))
        path = state.path
        if path and isinstance(path[0], int):
            path = (ANY, *path[1:])
        for base in state.node.inputs:
            yield _to(state, base, path=path)

    def iter(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """What is gone through."""
        if len(state.path) < _LONGEST_PATH:
            yield _to(state, state.node.inputs[0], path=(ANY, *state.path))

    def sequence(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """The items of a list, a tuple or a set."""
        node = state.node
        if (
            node.kind == "set"
            and "unordered" in state.kinds
            and not state.path
            and len(node.inputs) > 1
            and state.mode != "select"
        ) or (
            node.kind == "set"
            and "unordered" in state.kinds
            and not state.path
            and any(one.kind == "star" for one in node.inputs)
        ):
            results.append(Origin("unordered", node, state))
        has_star = False
        for index, part in enumerate(node.inputs):
            if part.kind == "star":
                has_star = True
                yield _to(state, part.inputs[0])
            elif state.mode == "list":
                results.append(Origin("item", part, _to(state, part, mode="value")))
            elif not state.path:
                yield _to(state, part)
            elif (
                state.path[0] in (index, ANY, None)
                or has_star
                or (isinstance(state.path[0], int) and state.path[0] < 0)
            ):
                yield _to(state, part, path=state.path[1:])

    def dict(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """The values of a dict."""
        if self.is_system and state.path and "role" in state.node.value:
            role = state.node.inputs[state.node.value.index("role")]
            if role.kind == "const" and role.value in _OTHER_ROLES:
                return
        for key, value in zip(state.node.value, state.node.inputs, strict=True):
            if key == "**":
                yield _to(state, value)
            elif not state.path:
                if (value.kind != "const" or _is_template(value)) and not self.is_aside(key):
                    yield _to(state, value)
            elif key is None or state.path[0] in (key, ANY):
                yield _to(state, value, path=state.path[1:])

    def is_aside(self, key: Key) -> bool:
        """Return whether a key or keyword says which one or when, and is no text: `id`, `created_at`, `metadata`."""
        if not isinstance(key, str):
            return False
        key = key.strip("_")
        return key in self.aside or self.aside_pattern.search(key) is not None

    def comp(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """The elements of a comprehension, and what it goes through."""
        node = state.node
        parts = node.value
        if node.name == "set" and not state.path and "unordered" in state.kinds:
            results.append(Origin("unordered", node, state))
        if state.mode == "list":
            results.append(Origin("comp", node, state))
            results.append(Origin("item", node.inputs[0], _to(state, node.inputs[0], mode="value")))
            for iterable in parts.iterables:
                yield _to(state, iterable)
            return
        element = node.inputs[0]
        copied = _copied_items(node.inputs[1], element) if node.name == "dict" and state.path else None
        if copied is not None:
            yield _to(state, copied)
        elif not state.path:
            yield _to(state, element)
            for iterable in parts.iterables if node.name != "dict" or SORTED not in state.kinds else ():
                yield _to(state, iterable, kinds=state.kinds & self.order)
        elif node.name == "dict" or state.path[0] in (ANY, None) or isinstance(state.path[0], int):
            yield _to(state, element, path=state.path[1:])
        if selects:
            for condition in parts.conditions:
                yield _to(state, condition, path=(), mode="select", doubt=2)

    def update(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """What was added to a container, and the container before."""
        node = state.node
        old, *operands = node.inputs
        name, keys, path = node.name, node.value, state.path
        if state.mode == "list":
            results.append(Origin("update", node, state))
            is_set = name in {"setitem", "replace"} and bool(keys) and path[: len(keys)] == keys
            if not (is_set and None not in keys and ANY not in keys):
                yield _to(state, old)
            if is_set:
                yield _to(state, operands[0], path=path[len(keys) :])
            elif not keys and path and name in {"update", "arith"}:
                for operand in operands:
                    yield _to(state, operand)
            elif path[: len(keys)] == keys:
                if name in {"append", "appendleft", "add"} and operands:
                    results.append(Origin("item", operands[-1], _to(state, operands[-1], mode="value")))
                elif name == "insert" and len(operands) > 1:
                    results.append(Origin("item", operands[1], _to(state, operands[1], mode="value")))
                elif name in {"extend", "+=", "extendleft", "replace"}:
                    for operand in operands:
                        yield _to(state, operand)
                for context in node.context.chain() if name in {"append", "insert", "extend", "+="} else ():
                    if context.kind == "for" and context.iterable is not None and _is_history(context.iterable):
                        yield _to(state, context.iterable, path=())
            return
        if name in {"append", "add", "appendleft"}:
            keys = (*keys, ANY)
            operands = operands[:1]
        elif name == "insert":
            keys = (*keys, ANY)
            operands = operands[1:2]
        elif name == "setitem":
            copied = _copied_items(operands[1], operands[0]) if len(keys) == 1 and keys[0] is None and path else None
            if copied is not None:
                yield _to(state, copied)
                yield _to(state, old)
                return
            operands = operands[:1]
        is_replaced = False
        if name in {"sort", "reverse", "del", "remove", "discard", "clear", "pop", "popleft", "popitem"}:
            kinds = state.kinds - self.order if name == "sort" and not keys else state.kinds
            yield _to(state, old, kinds=kinds)
            return
        if name == "shuffle":
            if "unordered" in state.kinds and not path:
                results.append(Origin("unordered", node, state))
            yield _to(state, old)
            return
        if name in {"+=", "arith"} and not path and not keys and "counter" in state.kinds and _is_count(operands):
            results.append(Origin("counter", node, state))
        shared = _match(keys, path)
        if shared:
            is_replaced = (
                name in {"setitem", "replace"}
                and len(path) >= len(keys)
                and all(
                    isinstance(key, str) or (isinstance(key, int) and key == wanted)
                    for key, wanted in zip(keys, path, strict=False)
                )
            )
            rest = path[len(keys) :]
            is_kept = name in {"append", "add", "insert", "appendleft", "extend"} and base_of(node).kind == "attr"
            for operand in operands:
                yield _to(state, operand, path=rest, lifetime=max(state.lifetime, SESSION) if is_kept else None)
            if name in {"append", "add", "insert", "+=", "extend"} and not path and state.kinds & self.order:
                yield from self.loop_order(state)
        if not is_replaced:
            yield _to(state, old)

    def loop_order(self, state: State) -> Iterator[State]:
        """The order of a list that is filled in a loop is the order of what the loop goes through."""
        for context in state.node.context.chain():
            if context.kind == "for" and context.iterable is not None:
                yield _to(state, context.iterable, path=(), kinds=state.kinds & self.order)

    def out(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """What a function leaves in an argument."""
        old, call = state.node.inputs
        yield _to(state, old)
        if len(state.stack) >= _DEEPEST:
            return
        for target in self.program.targets(call):
            for node in self.program.changed(target, state.node.value):
                yield _to(state, node, stack=(*state.stack, (call, target)))

    def func(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """A function given in place of a value: a framework calls it for the value."""
        if state.path or self.is_tools:
            return ()
        return self.returns(state, state.node.value, (), state.lifetime)

    def returns(self, state: State, function: Function, stack: tuple[Frame, ...], lifetime: int) -> Iterator[State]:
        """What a function returns or yields."""
        for value in function.returns:
            yield _to(state, value, stack=stack, lifetime=lifetime)
        if self.selects and len(function.returns) > 1 and state.mode == "value":
            for test in {
                id(one.test): one.test
                for value in function.returns
                for one in value.context.chain()
                if one.kind in {"if", "else"}
            }.values():
                if test is not None and test.context.function is function:
                    yield _to(state, test, path=(), stack=stack, lifetime=lifetime, mode="select", doubt=3)
        for value in function.yields:
            path = state.path[1:] if state.path and state.path[0] in (ANY, None) else state.path
            yield _to(state, value, path=path, stack=stack, lifetime=lifetime)

    def call(self, state: State, results: list[Origin], selects: bool) -> Iterable[State]:
        """A source, or what goes through a call."""
        node = state.node
        name: str = node.name
        last = name.rpartition(".")[2]
        text = _constant_text(node.value[0][1]) if name == "time.strftime" and node.value else None
        if text is not None and state.mode != "object" and not _says_time(text):
            return self.strftime_day(node, text, state, results)
        source = self.source_of(node, state)
        if source is not None and state.mode != "object":
            kind = (
                "date" if source.kind == "clock" and (DAY in state.kinds or _formats_day(node, last)) else source.kind
            )
            below = state.path[1:] if source.is_tuple else state.path
            if kind in state.kinds and not (kind in self.order and (below or state.mode == "select")):
                results.append(Origin(kind, node, state))
            if kind not in self.order:
                return ()
        day = self.as_day(node, last, state)
        if day is not None:
            return day
        removed = state.kinds
        passes: tuple[Any, ...] = ()
        for sanitizer in self.knowledge.sanitizers.find(name):
            supplied = [node.argument(key) for key in sanitizer.needs]
            if not supplied or any(
                one is not None and not (one.kind == "const" and one.value is False) for one in supplied
            ):
                removed = removed - sanitizer.removes | ({SORTED} if "mapping" in sanitizer.removes else set())
                passes = passes or sanitizer.passes
        if removed is not state.kinds:
            state = _to(state, node, kinds=removed)
        if last in {"sorted", "reversed", "filter"} and state.mode == "list":
            results.append(Origin("reorder" if last == "sorted" else "call", node, state))
        special = self.special(node, name, last, state, results)
        if special is not None:
            return special
        targets = self.program.targets(node)
        if targets and len(state.stack) < _DEEPEST:
            return self.enter(node, targets, state, results)
        if state.mode != "select" and self.knowledge.opaque.find(name):
            return ()
        if state.mode == "value" and last in _ANSWERS and self.knowledge.requests.find(name):
            return ()  # what a model says is something new
        return self.unknown(node, state, results)

    def source_name(self, node: Node) -> str:
        """The name of what is called, through a default of a parameter, another name, and `functools.partial`."""
        callee = node.inputs[0]
        if callee.kind == "param":
            default = callee.value.defaults.get(callee.name)
            return default.name if default is not None and default.kind == "ref" else node.name
        if callee.kind == "ref" and not self.knowledge.sources.find(node.name):
            for value in self.program.lookup(callee.name, callee.module):
                is_partial = value.kind == "call" and value.name in PARTIAL and value.value
                called = value.value[0][1] if is_partial else value
                if called.kind in {"ref", "attr"}:
                    return called.name.removeprefix("~")
        return node.name

    def source_of(self, node: Node, state: State) -> Source | None:
        """The row of the source that a call is, None for any other."""
        for source in self.knowledge.sources.find(self.source_name(node)):
            if source.receivers:
                receiver = node.inputs[0].inputs[0] if node.inputs[0].kind == "attr" else None
                if not (
                    receiver is not None and receiver.name and ends_with(receiver.name, source.receivers)
                ) and not ends_with(node.name.rpartition(".")[0], source.receivers):
                    continue
            supplied = {str(key) for key, _ in node.value}
            if source.arguments and supplied.isdisjoint(source.arguments):
                continue
            if source.without and not supplied.isdisjoint(source.without):
                continue
            if source.text and not any(re.search(source.text, text) for text in _texts(node, self)):
                continue
            if node.name in {"set", "frozenset"} and not node.value:
                return source
            if "." not in node.name and self.program.targets(node):
                continue  # a function of the program that is called like a builtin
            return source
        return None

    def strftime_day(self, node: Node, text: str, state: State, results: list[Origin]) -> list[State]:
        """`time.strftime("%Y-%m-%d")` is a date, `time.strftime("%Z")` is neither date nor time."""
        if "date" in state.kinds and node.argument(1) is None and re.search(r"%[-#]?[aAbBdDjmUuVwWxyY]", text):
            results.append(Origin("date", node, state))
        return [_to(state, supplied) for _, supplied in node.value[1:]]

    def as_day(self, node: Node, last: str, state: State) -> list[State] | None:
        """A clock that is written to the day only is a date."""
        if "clock" not in state.kinds:
            return None
        receiver = node.inputs[0].inputs[0] if node.inputs[0].kind == "attr" else None
        is_day = False
        if (last in _DAY_METHODS and receiver is not None and last != "date") or (
            last == "date" and receiver is not None and not node.value
        ):
            is_day = True
        else:
            is_day = _formats_day(node, last)
        if not is_day:
            return None
        kinds = state.kinds - CLOCKS | {DAY}
        value = receiver if receiver is not None and receiver.kind != "ref" else None
        following = [] if value is None else [_to(state, value, path=(), kinds=kinds)]
        following += [
            _to(state, supplied, path=(), kinds=kinds) for _, supplied in node.value if supplied.kind != "const"
        ]
        return following

    def special(self, node: Node, name: str, last: str, state: State, results: list[Origin]) -> list[State] | None:
        """Functions whose result keeps the structure of what they are given."""
        arguments = node.value
        callee = node.inputs[0]
        receiver = callee.inputs[0] if callee.kind == "attr" else None
        first = arguments[0][1] if arguments else None
        if name in _SAME or name == "sorted" or name == "reversed":
            if name == "dict":
                return self.keywords(node, state)
            picked = arguments[1][1] if name == "typing.cast" and len(arguments) > 1 else first
            return [] if picked is None else [_to(state, picked)]
        if name in {"set", "frozenset"}:
            return [] if first is None else [_to(state, first, kinds=state.kinds - self.order)]
        if receiver is not None and last in _SAME_METHODS:
            return [_to(state, receiver)] if not self.program.targets(node) else None
        if receiver is not None and last in _READS and arguments and not self.program.targets(node):
            key = first.value if first is not None and first.kind == "const" else ANY
            if isinstance(key, str) and self.named(node, key, state, results):
                return []
            mode = "value" if state.mode == "list" else state.mode
            if state.mode == "list":
                results.append(Origin("open", node, state))
            following = [_to(state, receiver, path=(key, *state.path)[:_LONGEST_PATH], mode=mode)]
            return following + [_to(state, value) for _, value in arguments[1:] if value.kind != "const"]
        if (
            receiver is not None
            and last in {"values", "items", "keys"}
            and not arguments
            and not self.program.targets(node)
        ):
            path = state.path
            if last == "items" and len(path) >= 2:
                path = (ANY, *path[2:]) if path[1] != 0 else ()
            return [_to(state, receiver, path=path)]
        if name == "enumerate" and first is not None:
            if len(state.path) >= 2 and state.path[1] == 0:
                if "counter" in state.kinds:
                    results.append(Origin("counter", node, state))
                return []
            return [_to(state, first, path=(ANY, *state.path[2:]) if state.path else ())]
        if name == "range":
            if "counter" in state.kinds and state.mode != "select":
                results.append(Origin("counter", node, state))
            return []
        if name == "zip":
            wanted = state.path[1] if len(state.path) > 1 else ANY
            return [
                _to(state, value, path=(ANY, *state.path[2:]) if state.path else ())
                for key, value in arguments
                if wanted in (key, ANY, None)
            ]
        if name in {
            "itertools.chain",
            "itertools.islice",
            "itertools.chain.from_iterable",
            "asyncio.gather",
            "itertools.cycle",
        }:
            if name == "asyncio.gather":
                return [
                    _to(state, value, path=state.path[1:] if key != ANY and state.path else state.path)
                    for key, value in arguments
                ]
            if name.endswith("from_iterable"):
                return [] if first is None else [_to(state, first, path=(ANY, *state.path) if state.path else ())]
            return [_to(state, value) for key, value in arguments if key == ANY or isinstance(key, int)]
        if name in {"map", "filter"} and len(arguments) > 1:
            rest = [
                _to(state, value, kinds=state.kinds if name == "filter" else state.kinds & self.order)
                for _, value in arguments[1:]
            ]
            if name == "map" and first is not None:
                inner = _to(state, first, path=state.path[1:] if state.path else ())
                rest += [
                    one
                    for target in self.program.callables(first)
                    for one in self.returns(inner, target.function, (), state.lifetime)
                ]
                rest += (
                    [_to(state, value) for _, value in arguments[1:]] if not list(self.program.callables(first)) else []
                )
            return rest
        if name == "getattr" and len(arguments) > 1:
            attribute = _constant_text(arguments[1][1])
            if attribute is not None and first is not None:
                following = [_to(state, Node("attr", node.context, node.position, (first,), attribute))]
                return following + [_to(state, value) for _, value in arguments[2:] if value.kind != "const"]
        if name in PARTIAL:
            following = []
            for target in self.program.callables(node):
                following += list(self.returns(state, target.function, (*state.stack, (node, target)), state.lifetime))
            return following
        if (name in _RUNS or (receiver is not None and last in _RUNS)) and len(arguments) > _RUNS.get(
            name, _RUNS.get(last, 0)
        ):
            index = _RUNS.get(name, _RUNS.get(last, 0))
            function = arguments[index][1]
            following = []
            for target in self.program.callables(function):
                call = Node(
                    "call",
                    node.context,
                    node.position,
                    (function,),
                    node.name,
                    [(i, value) for i, (_, value) in enumerate(arguments[index + 1 :])],
                )
                following += list(self.returns(state, target.function, (*state.stack, (call, target)), state.lifetime))
            return following or None
        return None

    def keywords(self, node: Node, state: State) -> list[State]:
        """What a call of `dict`, or of a class of nobody knows, holds."""
        following = []
        for key, value in node.value:
            if key == "**" or isinstance(key, int) or not state.path:
                following.append(_to(state, value))
            elif state.path[0] in (key, ANY, None):
                following.append(_to(state, value, path=state.path[1:]))
        return following

    def enter(self, node: Node, targets: tuple[Target, ...], state: State, results: list[Origin]) -> Iterator[State]:
        """What the functions return that a call may run."""
        for target in targets[:8]:
            function = target.function
            if any(frame[0] is node for frame in state.stack):
                continue  # a function that calls itself
            stack = (*state.stack, (node, target))
            if target.constructs is not None:
                yield from self.object(node, target, state, stack)
                continue
            names = set(function.decorated())
            lifetime = max(state.lifetime, PROCESS) if names & self.freezing else state.lifetime
            yield from self.returns(state, function, stack, lifetime)

    def object(self, node: Node, target: Target, state: State, stack: tuple[Frame, ...]) -> Iterator[State]:
        """An object of the program's own class: one of its attributes, or all it is made of."""
        cls = target.constructs
        if cls is None:
            return
        if self.is_system and any(value.kind == "const" and value.value in _OTHER_ROLES for _, value in node.value):
            return
        if state.path and isinstance(state.path[0], str) and state.path[0].startswith("."):
            name = state.path[0][1:]
            inner = _to(state, node, path=state.path[1:])
            n_found = 0
            for one in self.program.family(cls, up_only=True):
                for value, function in one.stores.get(name, ()):
                    n_found += 1
                    yield _to(inner, value, stack=stack if function.name == "__init__" else ())
                for value in one.attributes.get(name, ()):
                    n_found += 1
                    yield _to(inner, value, stack=(), lifetime=PROCESS)
                if name in one.methods and "property" in set(one.methods[name].decorated()):
                    n_found += 1
                    yield from self.returns(inner, one.methods[name], (), state.lifetime)
            for key, value in node.value:
                if key == name:
                    yield _to(inner, value)
            if n_found:
                return
        if not state.path:
            written = [one for name in ("__str__", "__repr__") for one in self.program.method(cls, name, up_only=True)]
            if written:
                yield from self.returns(state, written[0], stack, state.lifetime)
                return
        if not state.path or state.path[0] == ANY:
            for key, value in node.value:
                if not self.is_aside(key):
                    yield _to(state, value, path=(), doubt=3, kinds=state.kinds - self.order)

    def unknown(self, node: Node, state: State, results: list[Origin]) -> Iterator[State]:
        """A function that is not of the program: its result has what it is given, and what it is called on."""
        if state.mode == "object":
            results.append(Origin("object", node, state))
            return
        if state.mode == "list":
            results.append(Origin("call", node, state))
        path = state.path if state.mode == "list" else ()
        callee = node.inputs[0]
        doubt = 0 if node.name.rpartition(".")[2] in _TEXT else 2
        if state.mode == "select":
            doubt = 0 if doubt == 0 or self.knowledge.opaque.find(node.name) else 2
        if callee.kind == "attr" and state.mode != "list":
            yield _to(
                state,
                callee.inputs[0],
                path=(),
                doubt=doubt,
                kinds=state.kinds if doubt == 0 else state.kinds - self.order,
            )
        elif callee.kind == "param":
            # A function that was given: what the callers give is what runs.
            pass
        elif callee.kind == "call":
            yield _to(state, callee, path=(), doubt=doubt)
        kinds = state.kinds if doubt == 0 else state.kinds - self.order
        wanted = (
            state.path[0][1:]
            if state.path and isinstance(state.path[0], str) and state.path[0].startswith(".")
            else None
        )
        if wanted is not None and any(key == wanted for key, _ in node.value):
            yield from (_to(state, value, path=state.path[1:]) for key, value in node.value if key == wanted)
            return
        for key, value in node.value:
            if (value.kind not in {"const", "func"} or _is_template(value)) and not self.is_aside(key):
                yield _to(state, value, path=path, doubt=doubt, kinds=kinds)


def base_of(node: Node) -> Node:
    """What a list that is added to was before, in this function."""
    while node.kind in {"update", "out"} or (node.kind == "phi" and node.name == "loop"):
        node = node.inputs[0]
    return node


def _to(
    state: State,
    node: Node,
    *,
    path: Path | None = None,
    stack: tuple[Frame, ...] | None = None,
    kinds: frozenset[str] | None = None,
    lifetime: int | None = None,
    mode: str | None = None,
    doubt: int = 0,
) -> State:
    return State(
        node,
        state.path if path is None else path,
        state.stack if stack is None else stack,
        state.kinds if kinds is None else kinds,
        state.lifetime if lifetime is None else lifetime,
        state.mode if mode is None else mode,
        state,
        state.doubt + doubt,
    )


def _key(state: State) -> tuple[Any, ...]:
    return (
        id(state.node),
        state.path,
        tuple(id(call) for call, _ in state.stack),
        state.kinds,
        state.lifetime,
        state.mode,
    )


def _match(keys: Path, path: Path) -> bool:
    """Return whether what is stored under some keys is on a path, or below it."""
    for key, wanted in zip(keys, path, strict=False):
        if key in (None, ANY) or wanted in (None, ANY) or key == wanted:
            continue
        if isinstance(key, int) and isinstance(wanted, int) and (key < 0) != (wanted < 0):
            continue
        return False
    return True


def _formats_day(node: Node, last: str) -> bool:
    """Return whether a call writes a clock by a format that has nothing smaller than a day."""
    if last not in {"strftime", "format"} or not node.value:
        return False
    text = _constant_text(node.value[0][1] if last == "strftime" else node.value[-1][1])
    return (
        text is not None
        and "%" in text
        and not any(f"%{one}" in text.replace("%-", "%").replace("%#", "%") for one in _DAY_FORMAT)
    )


def _is_set_lazily(value: Node, name: str) -> bool:
    """Return whether an attribute is given a value only where it has none: `if self.tools is None: self.tools = …`."""
    if value.kind != "phi" or value.name not in {"if", "or"}:
        return False
    tests = [value.value] if value.value is not None else []
    if value.name == "or":
        tests = list(value.inputs[:1])
    waiting = list(tests)
    for _ in range(12):
        if not waiting:
            return False
        one = waiting.pop()
        if one.kind == "attr" and one.name == name:
            return True
        if one.kind == "call" and one.name == "hasattr":
            return True
        if one.kind in {"compare", "phi"}:
            waiting += one.inputs
    return False


def _copied_items(key: Node, value: Node) -> Node | None:
    """The dict whose items are copied one by one: `d` of `{k: v for k, v in d.items()}`."""
    if (
        key.kind != "item"
        or value.kind != "item"
        or key.inputs[0] is not value.inputs[0]
        or (key.value, value.value) != (0, 1)
    ):
        return None
    iterable = key.inputs[0].inputs[0] if key.inputs[0].kind == "iter" else None
    if (
        iterable is None
        or iterable.kind != "call"
        or iterable.inputs[0].kind != "attr"
        or iterable.inputs[0].name != "items"
    ):
        return None
    return iterable.inputs[0].inputs[0]


def _is_history(node: Node) -> bool:
    """Return whether a loop goes through messages, one by one, by their name: it copies or converts them."""
    for _ in range(8):
        node = plain(node)
        if node.kind in {"param", "attr", "ref"}:
            return _HISTORY.search(node.name.rpartition(".")[2]) is not None
        if node.kind == "call" and node.name in {"enumerate", "reversed", "list", "tuple"} and node.value:
            node = node.value[0][1]
        elif node.kind in {"slice", "update", "phi", "out"}:
            node = node.inputs[0]
        elif node.kind == "item" and isinstance(node.value, str):
            return _HISTORY.search(node.value) is not None
        else:
            return False
    return False


def _says_time(text: str) -> bool:
    """Return whether a format of `strftime` has a part finer than a day."""
    text = re.sub("%[-#]", "%", text)
    return any(f"%{one}" in text for one in _DAY_FORMAT)


def _is_template(node: Node) -> bool:
    return node.kind == "const" and isinstance(node.value, str) and "now()" in node.value


def _is_count(operands: list[Node]) -> bool:
    """Return whether something is counted: `n += 1`, `budget -= reply.usage.output_tokens`."""
    if len(operands) != 1:
        return False
    by = plain(operands[0])
    return (by.kind == "const" and isinstance(by.value, int)) or (
        by.kind in {"attr", "item"} and "token" in str(by.name or by.value)
    )


def _is_self(node: Node) -> bool:
    function: Function = node.value
    return function.cls is not None and next(iter(function.params), "") == node.name


def _is_distinctive(name: str) -> bool:
    return len(name) > 8 and "_" in name


def _texts(node: Node, search: Search) -> Iterator[str]:
    """The constant texts that a call is given, or the object it is called on was made of."""
    waiting = [value for _, value in node.value]
    if node.inputs[0].kind == "attr":
        waiting.append(node.inputs[0].inputs[0])
    for _ in range(40):
        if not waiting:
            return
        one = waiting.pop()
        if one.kind == "const":
            if isinstance(one.value, str):
                yield one.value
        elif one.kind == "ref":
            waiting += [
                value
                for value in search.program.lookup(one.name, one.module)
                if value.kind in {"const", "join", "call", "list", "tuple"}
            ]
        elif one.kind == "call":
            waiting += [value for _, value in one.value]
            waiting += [base for base in one.inputs if base.kind == "attr"]
        else:
            waiting += one.inputs


def _constant_text(node: Node) -> str | None:
    if node.kind == "const" and isinstance(node.value, str):
        return node.value
    if node.kind == "join" and all(one.kind == "const" for one in node.inputs):
        return "".join(str(one.value) for one in node.inputs)
    return None


_Handler = Callable[[Search, State, list[Origin], bool], Iterable[State]]
_HANDLERS: Final[dict[str, _Handler]] = {
    "const": Search.const,
    "ref": Search.ref,
    "param": Search.param,
    "join": Search.join,
    "compare": Search.compare,
    "phi": Search.phi,
    "attr": Search.attr,
    "item": Search.item,
    "slice": Search.slice,
    "iter": Search.iter,
    "list": Search.sequence,
    "tuple": Search.sequence,
    "set": Search.sequence,
    "dict": Search.dict,
    "comp": Search.comp,
    "update": Search.update,
    "out": Search.out,
    "func": Search.func,
    "class": Search.const,
    "call": Search.call,
}
