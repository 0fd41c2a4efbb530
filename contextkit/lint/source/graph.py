"""Defines the value graph of a program: what every expression is made of.

`lower` builds one `Module` per file. A `Node` is a value at one place; its inputs are the values it is made of, so that
following inputs leads from a prompt back to everything that is in it. Variables are gone: a read of a variable is the
node that was assigned to it, or a `phi` of those that may have been.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Key: TypeAlias = "str | int | None"
"""A constant key or index of a container; None where it is not constant."""
ANY: Final = "*"
"""Any element of a container, on a path."""


class Position(NamedTuple):
    """Where an expression stands: lines from 1, columns in bytes from 0, as `ast` counts them."""

    line: int
    column: int
    end_line: int
    end_column: int


class Context:
    """What a value is computed under: a branch, a loop, a function; linked to the one around it."""

    __slots__ = ("breaks", "function", "has_exits", "iterable", "kind", "parent", "test")

    def __init__(
        self,
        kind: str,
        parent: Context | None,
        function: Function,
        test: Node | None = None,
        iterable: Node | None = None,
    ) -> None:
        self.kind = kind
        """`function`, `if`, `else`, `for`, `while`, `except`, `comprehension`."""
        self.parent = parent
        self.function = function
        self.test = test
        """The condition of an `if`, `else` or `while`."""
        self.iterable = iterable
        """What a `for` or a comprehension goes through."""
        self.breaks: list[Context] = []
        """Of a loop: where it is left by `break`."""
        self.has_exits = False
        """Whether a loop has a `break` or a `continue`."""

    def chain(self) -> Iterator[Context]:
        """The context and those around it, innermost first, up to the function's own."""
        context: Context | None = self
        while context is not None:
            yield context
            context = context.parent

    def loops(self) -> list[Context]:
        """The loops of the function around a value, innermost first."""
        return [context for context in self.chain() if context.kind in {"for", "while"}]


class Node:
    """A value.

    | kind | inputs | name | value |
    |---|---|---|---|
    | const | | | the constant |
    | ref | | full dotted name | |
    | param | | name of the parameter | its `Function` |
    | join | operands | `fstring`, `+`, `%`, `*`, `/`, `//`, `arith` | |
    | compare | operands | | |
    | phi | alternatives | `if`, `or`, `loop`, … | the condition's node, or None |
    | attr | object | attribute | |
    | item | object, [key node] | | constant key or None |
    | slice | object | | (lower, upper, step): nodes or None |
    | iter | iterable | | |
    | call | callee | dotted callee, `?` for what is unknown | [(key, node)] with `*` and `**` |
    | list, tuple, set | items | | |
    | star | iterable | | |
    | dict | values | | keys: constant, None, or `**` |
    | comp | element(s) | `list`, `set`, `dict`, `generator` | `Comprehension` |
    | update | old value, operands (of `setitem`: value, key, what holds it) | operation | path of keys |
    | out | old value, call | | argument's key |
    | func | | | `Function` |
    | class | | | `Class` |
    """

    __slots__ = ("context", "inputs", "kind", "name", "position", "value")

    def __init__(
        self,
        kind: str,
        context: Context,
        position: Position | None = None,
        inputs: tuple[Node, ...] = (),
        name: str = "",
        value: Any = None,
    ) -> None:
        self.kind = kind
        self.context = context
        self.position = position
        self.inputs = inputs
        self.name = name
        self.value = value

    @property
    def module(self) -> Module:
        """The module it stands in."""
        return self.context.function.module

    def argument(self, *keys: Key) -> Node | None:
        """The argument of a call under the first of some keywords or positions it is given under, None without."""
        for key in keys:
            for supplied, node in self.value:
                if supplied == key and type(supplied) is type(key):
                    return node  # type: ignore[no-any-return]
        return None

    def __repr__(self) -> str:
        place = f":{self.position.line}" if self.position else ""
        return f"<{self.kind} {self.name or self.value!r}{place}>"


def plain(node: Node) -> Node:
    """A value without the helpers around it: what a call returns, where that is one expression of what it is given."""
    for _ in range(8):
        inlined = node.module.inlined(node) if node.kind == "call" else None
        if inlined is None:
            break
        node = inlined
    return node


class Comprehension(NamedTuple):
    """The parts of a comprehension besides its element."""

    iterables: tuple[Node, ...]
    conditions: tuple[Node, ...]


class Function:
    """A function, method, lambda, or the body of a module or class."""

    __slots__ = (
        "annotations",
        "cls",
        "context",
        "decorators",
        "defaults",
        "is_async",
        "kwarg",
        "module",
        "name",
        "outs",
        "params",
        "parent",
        "position",
        "returns",
        "vararg",
        "yields",
    )

    def __init__(
        self, name: str, module: Module, cls: Class | None, parent: Function | None, position: Position
    ) -> None:
        self.name = name
        self.module = module
        self.cls = cls
        self.parent = parent
        """The function it is defined in, None at the top of a module or class."""
        self.position = position
        self.context = Context("function", None, self)
        self.params: dict[str, Node] = {}
        self.annotations: dict[str, str] = {}
        """Parameter → the dotted name its annotation says, where it is a plain name."""
        self.defaults: dict[str, Node] = {}
        self.vararg = ""
        self.kwarg = ""
        self.decorators: list[Node] = []
        self.returns: list[Node] = []
        self.yields: list[Node] = []
        self.outs: dict[str, list[Node]] = {}
        """Parameter → what it holds when the function ends, where it was changed."""
        self.is_async = False

    @property
    def is_top(self) -> bool:
        """Return whether it is the body of a module or of a class, which runs once."""
        return self.name in {"<module>", "<class>"}

    def decorated(self) -> Iterator[str]:
        """The last names of its decorators."""
        for node in self.decorators:
            yield node.name.removeprefix("~").rpartition(".")[2]

    def __repr__(self) -> str:
        return f"<function {self.qualified}>"

    @property
    def qualified(self) -> str:
        """`Agent.ask`."""
        return f"{self.cls.name}.{self.name}" if self.cls else self.name


class Class:
    """A class: its methods, and everything that is stored in an attribute of its instances."""

    __slots__ = ("attributes", "bases", "fields", "methods", "module", "name", "position", "stores")

    def __init__(self, name: str, module: Module, position: Position) -> None:
        self.name = name
        self.module = module
        self.position = position
        self.bases: list[Node] = []
        self.methods: dict[str, Function] = {}
        self.attributes: dict[str, list[Node]] = {}
        """Attribute → values given in the class's body."""
        self.fields: dict[str, str] = {}
        """Attribute that the class's body annotates → the dotted name its annotation says, empty where it is none."""
        self.stores: dict[str, list[tuple[Node, Function]]] = {}
        """Attribute → values given to `self.attribute` when a method ends."""

    @property
    def qualified(self) -> str:
        """`package.module.Agent`."""
        return f"{self.module.name}.{self.name}"


class Module:
    """One file."""

    __slots__ = (
        "_lines",
        "body",
        "calls",
        "classes",
        "dicts",
        "frozen",
        "functions",
        "inlined",
        "meant",
        "name",
        "other_stores",
        "package",
        "parsed",
        "path",
        "silenced",
        "stars",
        "text",
        "top",
        "updates",
    )

    def __init__(self, path: str, name: str, package: str) -> None:
        self.path = path
        self.name = name
        self.package = package
        self.body: Function
        self.functions: list[Function] = []
        """Every function, nested ones and lambdas too."""
        self.classes: list[Class] = []
        self.top: dict[str, list[Node]] = {}
        """Global name → its values."""
        self.calls: list[Node] = []
        self.dicts: list[Node] = []
        """Dict displays and `dict(…)` calls with a constant key."""
        self.updates: list[Node] = []
        self.other_stores: dict[str, list[Node]] = {}
        """Attribute → values given to it on objects other than `self`."""
        self.stars: list[str] = []
        """Modules of which everything is imported."""
        self.text: bytes = b""
        self.parsed: Any = None
        self.silenced: dict[int, frozenset[str]] = {}
        """Line → codes that are not reported there; none for all."""
        self.meant: Mapping[str, str] = {}
        """First part of an imported name → what it has in this program, where several folders have one of that name."""
        self.frozen: frozenset[int] = frozenset()
        """Lines whose values are declared to be made once."""
        self.inlined: Callable[[Node], Node | None] = lambda call: None
        """A call of a function of the program → what it returns, where that is one expression of what it is given."""
        self._lines: list[bytes] = []

    def lines(self) -> list[bytes]:
        """The text by lines."""
        if not self._lines:
            self._lines = self.text.split(b"\n")
        return self._lines
