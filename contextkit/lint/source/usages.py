"""Follows usages of model calls: where a usage comes from, which counters are read of it, whether it is handed on whole.

A usage is told apart by where it comes from: `response.usage` is the path `usage` of the value `response`, whatever
variables, helper functions, `getattr` or `.get` it goes through. All reads of one usage thus have a path in common. What
providers call their counters, and which calls report no cached ones, is said in `knowledge` (`[[usage]]`,
`[[uncached_usage]]`, `[[marked_usage]]`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from contextkit.lint.source.analysis import Analysis
from contextkit.lint.source.graph import ANY, Function, Key, Module, Node

_MOST_PATHS: Final = 8
"""Places a value may come from; of more the first count."""
MOST_HOPS: Final = 3
"""Functions a usage is followed through, up and down."""
_SAME: Final = frozenset(
    {
        "dict",
        "vars",
        "copy",
        "deepcopy",
        "cast",
        "model_dump",
        "to_dict",
        "model_copy",
        "asdict",
        "json",
        "loads",
        "model_dump_json",
    }
)
"""Calls whose result holds the counters of what they are given or called on."""
_NUMBERS: Final = frozenset({"int", "float", "max", "min", "round", "sum", "Decimal", "abs"})
QUIET: Final = frozenset(
    {
        "isinstance",
        "hasattr",
        "bool",
        "type",
        "len",
        "id",
        "callable",
        "repr",
        "str",
        "print",
        "format",
        "dir",
        "issubclass",
        *_NUMBERS,
    }
)
"""Functions that keep nothing of what they are given."""
LOGS: Final = frozenset(
    {"debug", "info", "warning", "error", "exception", "critical", "log", "print", "echo", "secho", "trace"}
)
Path = tuple[int, tuple[Key, ...]]
"""A value by where it comes from: identity of a node, and the keys and attributes that are read from it."""


class Read(NamedTuple):
    """A counter that is read from a usage."""

    node: Node
    name: str
    usage: frozenset[Path]
    base: Node


@dataclass(slots=True)
class Scope:
    """A function and those defined in it: what is read of usages there, and what is handed on whole."""

    function: Function
    nodes: list[Node] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    stored: list[tuple[str, Node]] = field(default_factory=list)
    """Attribute → value given to it."""


class Counters:
    """What is known of providers' counters."""

    def __init__(self, analysis: Analysis) -> None:
        sections = analysis.knowledge.sections
        self.pairs: dict[str, set[str]] = defaultdict(set)
        self.holders: set[str] = set()
        self.answers: set[str] = set()
        """Words in the names of parameters that are given a model's answer."""
        self.details: set[str] = set()
        self.apart: set[str] = set()
        """Cached counters that `input` leaves out, whoever the provider is."""
        self.inside: set[str] = set()
        """What holds the cached counters that are a part of `input`: `prompt_tokens_details`."""
        self.lost: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
        for row in sections.get("usage", ()):
            self.holders.update(row["holders"])
            self.answers.update(row.get("answers", ()))
            cached = [*row["read"], *row["write"]]
            self.details.update(part for name in cached for part in name.split("."))
            for name in row["input"]:
                self.pairs[name].update(row["output"])
                for other in row["output"]:
                    self.lost[name, other].update(dict.fromkeys(row["read"]))
            if row.get("input_includes_cached", True):
                self.inside.update(name.partition(".")[0] for name in row["read"] if "." in name)
            else:
                self.apart.update(row["read"])
        self.inputs = frozenset(self.pairs)
        self.outputs = frozenset().union(*self.pairs.values())
        rows = sections.get("uncached_usage", ())
        self.uncached_packages = frozenset(package for row in rows for package in row["packages"])
        self.uncached_words = tuple(word for row in rows for word in row["words"])
        self.telling_words = tuple(word for row in rows for word in row["modules"])
        self.telling_calls = tuple(word for row in rows for word in row["calls"])
        self.marked = sections.get("marked_usage", ())

    def is_cached(self, name: str) -> bool:
        """Return whether a key or attribute tells of cached tokens."""
        return name in self.details or "cache" in name.lower()

    def is_counter(self, name: str) -> bool:
        """Return whether a key or attribute is read from usages."""
        return name in self.inputs or name in self.outputs or self.is_cached(name)


_WHOLE = re.compile(r"^_?raw(?:_|$)|^(?:original|provider|full)_(?:response|answer|data)$")
"""Names under which a whole answer is kept."""


class Usages:
    """Reads of usages in a program."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.program = analysis.program
        self.known = Counters(analysis)
        self.scopes: dict[int, dict[int, Scope]] = {}
        self.roots: dict[int, Node] = {}
        self._numbers: dict[int | tuple[str, str], int] = {}
        self._paths: dict[int, frozenset[Path]] = {}
        self._keys: dict[str, frozenset[Key]] = {}
        self._kept: dict[tuple[int, Path], bool] = {}

    # Where values come from

    def paths(self, node: Node) -> frozenset[Path]:
        """Where a value comes from; more than one where it is one of several."""
        key = id(node)
        if key not in self._paths:
            self._paths[key] = frozenset()  # a value that is made of itself
            self._paths[key] = frozenset(
                sorted(self._paths_of(node), key=lambda path: (len(path[1]), [str(key) for key in path[1]], path[0]))[
                    :_MOST_PATHS
                ]
            )
        return self._paths[key]

    def _paths_of(self, node: Node) -> Iterable[Path]:
        if node.kind == "ref":
            head, *rest = node.name.removeprefix("~").split(".")
            return [self.root(node, tuple(rest), head)]
        if node.kind == "phi":
            return [path for one in node.inputs if one.kind != "const" for path in self.paths(one)]
        if node.kind in {"update", "out"}:
            return self.paths(node.inputs[0])
        if node.kind == "attr":
            return (
                [(root, (*keys, node.name)) for root, keys in self.paths(node.inputs[0])]
                if node.name != "__dict__"
                else self.paths(node.inputs[0])
            )
        if node.kind == "item":
            return [
                (root, (*keys, node.value if node.value is not None else ANY))
                for root, keys in self.paths(node.inputs[0])
            ]
        if node.kind == "iter":
            return [(root, (*keys, ANY)) for root, keys in self.paths(node.inputs[0])]
        if node.kind == "call":
            return self._paths_of_call(node)
        return [self.root(node, ())]

    def root(self, node: Node, keys: tuple[Key, ...], name: str = "") -> Path:
        """The path of some keys from a value; a name of a module is one value wherever it stands."""
        identity = (node.module.name, name) if name else id(node)
        number = self._numbers.setdefault(identity, len(self._numbers))
        self.roots.setdefault(number, node)
        return number, keys

    def _paths_of_call(self, node: Node) -> Iterable[Path]:
        read = read_of(node)
        if read is not None:
            return [(root, (*keys, read[1])) for root, keys in self.paths(read[0])]
        last = node.name.rpartition(".")[2]
        receiver = node.inputs[0].inputs[0] if node.inputs[0].kind == "attr" else None
        if last in _SAME:
            same = (
                receiver
                if (receiver is not None and not node.value) or last in {"model_dump", "to_dict"}
                else node.value[-1][1]
                if node.value
                else None
            )
            if same is not None:
                return self.paths(same)
        results: list[Path] = []
        targets = [target for target in self.program.targets(node) if target.constructs is None][:3]
        for target in targets:
            for value in target.function.returns[:6]:
                for root, keys in self.paths(value):
                    supplied = self.roots.get(root)
                    if supplied is not None and supplied.kind == "param" and supplied.value is target.function:
                        results += [
                            (r, (*k, *keys))
                            for one, _ in self.program.arguments(node, target, supplied.name)
                            for r, k in self.paths(one)
                        ]
                    else:
                        results.append((root, keys))
        return results or [self.root(node, ())]

    # Modules and functions

    def imports(self, module: Module) -> frozenset[str]:
        """First parts of the packages a module imports or names."""
        named = [node for nodes in module.top.values() for node in nodes]
        named += [node for scope in self.scopes_of(module).values() for node in scope.nodes]
        return frozenset(
            node.name.partition(".")[0] for node in named if node.kind == "ref" and not node.name.startswith("~")
        )

    def keys_of(self, package: str) -> frozenset[Key]:
        """Keys of dicts, names of arguments and of parameters that the modules of a folder write."""
        if package not in self._keys:
            results: set[Key] = set()
            for module in self.analysis.modules:
                if module.name.rpartition(".")[0] == package:
                    results.update(key for node in module.dicts for key in node.value)
                    results.update(key for node in module.updates for key in node.value)
                    results.update(key for node in module.calls for key, _ in node.value)
                    results.update(name for function in module.functions for name in function.params)
            self._keys[package] = frozenset(results)
        return self._keys[package]

    def scope(self, function: Function) -> Scope:
        """What a function and those in it do."""
        function = _outermost(function)
        return self.scopes_of(function.module).get(id(function)) or Scope(function)

    def scopes_of(self, module: Module) -> dict[int, Scope]:
        """The functions of a module that are defined in no other."""
        if id(module) in self.scopes:
            return self.scopes[id(module)]
        scopes: dict[int, Scope] = {}
        self.scopes[id(module)] = scopes

        def of(function: Function) -> Scope:
            function = _outermost(function)
            return scopes.setdefault(id(function), Scope(function))

        for node in _nodes(module):
            scope = of(node.context.function)
            scope.nodes.append(node)
            read = read_of(node)
            if (
                read is not None
                and (not isinstance(read[1], str) or self.known.is_counter(read[1]))
                and (paths := self.paths(read[0]))
            ):
                scope.reads.append(Read(node, read[1] if isinstance(read[1], str) else "", paths, read[0]))
            elif node.kind == "ref" and "." in node.name and self.known.is_counter(node.name.rpartition(".")[2]):
                name = node.name.rpartition(".")[2]
                scope.reads.append(
                    Read(node, name, frozenset((root, keys[:-1]) for root, keys in self.paths(node)), node)
                )
        for attribute, values in module.other_stores.items():
            for value in values:
                of(value.context.function).stored.append((attribute, value))
        for cls in module.classes:
            for attribute, stores in cls.stores.items():
                for value, function in stores:
                    of(function).stored.append((attribute, value))
        return scopes

    # Whether cached counters are kept

    def is_preserved(
        self, function: Function, usage: frozenset[Path], hops: int = 0, ignored: Node | None = None
    ) -> bool:
        """Return whether a function, or one that gives it the usage or is given it, reads the cached counters or keeps it whole."""
        scope = self.scope(function)
        if any(self.known.is_cached(read.name) or not read.name for read in scope.reads if read.usage & usage):
            return True
        if any(self.hands_on(node, usage, hops, ignored) for node in scope.nodes) or self.keeps_answer(scope, usage):
            return True
        if any(self.paths(value) & usage for _, value in scope.stored):
            return True
        if ignored is not None and ignored.kind == "param":
            return False  # what is returned, its caller has
        if any(self.paths(value) & usage for value in (*scope.function.returns, *scope.function.yields)):
            return True
        return hops < MOST_HOPS and any(
            self.is_preserved(call.context.function, above, hops + 1, call)
            for call, above in self.above(scope.function, usage)
        )

    def keeps_answer(self, scope: Scope, usage: frozenset[Path]) -> bool:
        """Return whether the whole answer is put beside what is written: `Reply(usage=…, raw=response)`."""
        answers = {(root, keys[:length]) for root, keys in usage for length in range(len(keys))}
        for node in scope.nodes:
            if node.kind == "call":
                supplied = node.value
            elif node.kind == "dict":
                supplied = list(zip(node.value, node.inputs, strict=True))
            else:
                continue
            for key, value in supplied:
                if isinstance(key, str) and _WHOLE.search(key) and not answers.isdisjoint(self.paths(value)):
                    return True
        return False

    def above(self, function: Function, usage: frozenset[Path]) -> Iterator[tuple[Node, frozenset[Path]]]:
        """Calls that give a function the usage, or what holds it; and the usage there."""
        for root, keys in usage:
            supplied = self.roots[root]
            if supplied.kind != "param" or supplied.value is not function:
                continue
            for call, target in self.program.callers(function)[:12]:
                paths = frozenset(
                    (r, (*k, *keys))
                    for one, _ in self.program.arguments(call, target, supplied.name)
                    for r, k in self.paths(one)
                )
                if paths and paths.isdisjoint(usage):
                    yield call, paths

    def hands_on(self, node: Node, usage: frozenset[Path], hops: int, ignored: Node | None) -> bool:
        """Return whether an expression keeps a usage whole."""
        if node is ignored:
            return False
        if node.kind in {"dict", "list", "tuple", "set", "star"}:
            return any(self.paths(one) & usage for one in node.inputs)
        if node.kind == "update":
            return any(self.paths(one) & usage for one in node.inputs[1:])
        if node.kind == "iter":
            return bool(self.paths(node.inputs[0]) & usage)
        if node.kind != "call" or read_of(node) is not None:
            return False
        last = node.name.rpartition(".")[2]
        callee = node.inputs[0]
        if callee.kind == "attr" and last not in _SAME and self.paths(callee.inputs[0]) & usage:
            return not self.program.targets(node)
        if last in QUIET or last in LOGS or last in _SAME:
            return False
        for _, supplied in node.value:
            if supplied.kind != "const" and any(
                self.is_passed_on(node, supplied, path, usage, hops) for path in self.paths(supplied)
            ):
                return True
        return False

    def is_passed_on(self, call: Node, supplied: Node, path: Path, usage: frozenset[Path], hops: int) -> bool:
        """Return whether a call keeps the usage, or of what holds it the cached counters."""
        rests = [keys[len(path[1]) :] for root, keys in usage if root == path[0] and keys[: len(path[1])] == path[1]]
        if not rests:
            return False
        targets = self.program.targets(call)
        if not targets or hops >= MOST_HOPS:
            return not all(rests)
        for target in targets[:4]:
            for name, param in target.function.params.items():
                if any(one is supplied for one, _ in self.program.arguments(call, target, name)):
                    for rest in rests:
                        if self.keeps_param(target.function, self.root(param, rest), param, hops):
                            return True
            if target.constructs is not None and target.function.name == "<fields>" and not all(rests):
                return True
        return False

    def keeps_param(self, function: Function, path: Path, param: Node, hops: int) -> bool:
        """Return whether a function keeps the cached counters of a usage that a parameter is, or holds."""
        key = id(function), path
        if key not in self._kept:
            self._kept[key] = False  # a function that calls itself
            self._kept[key] = self.is_preserved(function, frozenset({path}), max(hops, MOST_HOPS - 1), param)
        return self._kept[key]


def _outermost(function: Function) -> Function:
    while function.parent is not None:
        function = function.parent
    return function


def read_of(node: Node) -> tuple[Node, Key] | None:
    """What an expression reads, and the key: `usage.x`, `usage["x"]`, `usage.get("x")`, `getattr(usage, "x")`, and functions
    that are called like it: `field(usage, "x")`.
    """
    if node.kind == "attr":
        return node.inputs[0], node.name
    if node.kind == "item":
        return node.inputs[0], node.value
    if node.kind != "call" or not node.value:
        return None
    callee = node.inputs[0]
    last = node.name.rpartition(".")[2]
    first = node.value[0][1]
    if callee.kind == "attr" and last in {"get", "pop", "setdefault"}:
        return callee.inputs[0], first.value if first.kind == "const" else None
    if last in {"getattr", "hasattr"} and len(node.value) > 1:
        key = node.value[1][1]
        return first, key.value if key.kind == "const" else None
    if len(node.value) in {2, 3} and first.kind != "const":
        key = node.value[1][1]
        if (
            node.value[1][0] == 1
            and key.kind == "const"
            and isinstance(key.value, str)
            and key.value.isidentifier()
            and "oken" in key.value
        ):
            return first, key.value
    return None


def _nodes(module: Module) -> Iterator[Node]:
    """Every node of a module once."""
    work: list[Node] = [*module.calls, *module.dicts, *module.updates]
    for function in module.functions:
        work += [*function.returns, *function.yields]
    for cls in module.classes:
        work += [value for stores in cls.stores.values() for value, _ in stores]
    work += [value for values in module.other_stores.values() for value in values]
    visited: set[int] = set()
    contexts: set[int] = set()
    while work:
        node = work.pop()
        if id(node) in visited or node.module is not module:
            continue
        visited.add(id(node))
        yield node
        work += node.inputs
        if node.kind == "call":
            work += [supplied for _, supplied in node.value]
        elif node.kind == "comp":
            work += [*node.value.iterables, *node.value.conditions]
        elif node.kind == "phi" and node.value is not None:
            work.append(node.value)
        for context in node.context.chain():
            if id(context) in contexts:
                break
            contexts.add(id(context))
            work += [one for one in (context.test, context.iterable) if one is not None]
