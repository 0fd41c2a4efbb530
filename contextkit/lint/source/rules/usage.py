"""Finds code that gets a usage wrong: cached counters that are lost (CKA03), counted twice (CKA01), summed over repeated
lines of a session file (CKA02).

A usage is followed by where it comes from: `response.usage` is the path `usage` of the value `response`, whatever
variables, helper functions, `getattr` or `.get` it goes through. All reads of one usage thus have a path in common. What
providers call their counters, and which calls report no cached ones, is said in `knowledge` (`[[usage]]`,
`[[uncached_usage]]`, `[[marked_usage]]`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from contextkit.lint.source.analysis import Analysis, Hit, text_of
from contextkit.lint.source.graph import ANY, Class, Function, Key, Module, Node

CODES: Final = frozenset({"CKA01", "CKA02", "CKA03"})
_MOST_PATHS: Final = 8
"""Places a value may come from; of more the first count."""
_MOST_HOPS: Final = 3
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
_QUIET: Final = frozenset(
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
_LOGS: Final = frozenset(
    {"debug", "info", "warning", "error", "exception", "critical", "log", "print", "echo", "secho", "trace"}
)
_IDS: Final = frozenset({"requestId", "request_id", "message_id", "id"})
"""What a line of a session file is told apart by."""

Path = tuple[int, tuple[Key, ...]]
"""A value by where it comes from: identity of a node, and the keys and attributes that are read from it."""


class _Read(NamedTuple):
    """A counter that is read from a usage."""

    node: Node
    name: str
    usage: frozenset[Path]
    base: Node


@dataclass(slots=True)
class _Scope:
    """A function and those defined in it: what is read of usages there, and what is handed on whole."""

    function: Function
    nodes: list[Node] = field(default_factory=list)
    reads: list[_Read] = field(default_factory=list)
    stored: list[tuple[str, Node]] = field(default_factory=list)
    """Attribute → value given to it."""


class _Counters:
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
            if row["input_includes_cached"]:
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
        return name in self.details or "cache" in name.lower()

    def is_counter(self, name: str) -> bool:
        return name in self.inputs or name in self.outputs or self.is_cached(name)


class _Usages:
    """Reads of usages in a program."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self.program = analysis.program
        self.known = _Counters(analysis)
        self.scopes: dict[int, dict[int, _Scope]] = {}
        self.roots: dict[int, Node] = {}
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
                sorted(self._paths_of(node), key=lambda path: (len(path[1]), str(path)))[:_MOST_PATHS]
            )
        return self._paths[key]

    def _paths_of(self, node: Node) -> Iterable[Path]:
        if node.kind == "ref":
            head, *rest = node.name.removeprefix("~").split(".")
            return (
                [self.root(node, tuple(rest), hash((node.module.name, head)))]
                if rest
                else [self.root(node, (), hash((node.module.name, head)))]
            )
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

    def root(self, node: Node, keys: tuple[Key, ...], identity: int = 0) -> Path:
        self.roots[identity or id(node)] = node
        return identity or id(node), keys

    def _paths_of_call(self, node: Node) -> Iterable[Path]:
        read = _read_of(node)
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
        found: list[Path] = []
        targets = [target for target in self.program.targets(node) if target.constructs is None][:3]
        for target in targets:
            for value in target.function.returns[:6]:
                for root, keys in self.paths(value):
                    given = self.roots.get(root)
                    if given is not None and given.kind == "param" and given.value is target.function:
                        found += [
                            (r, (*k, *keys))
                            for one, _ in self.program.arguments(node, target, given.name)
                            for r, k in self.paths(one)
                        ]
                    else:
                        found.append((root, keys))
        return found or [self.root(node, ())]

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
            found: set[Key] = set()
            for module in self.analysis.modules:
                if module.name.rpartition(".")[0] == package:
                    found.update(key for node in module.dicts for key in node.value)
                    found.update(key for node in module.updates for key in node.value)
                    found.update(key for node in module.calls for key, _ in node.value)
                    found.update(name for function in module.functions for name in function.params)
            self._keys[package] = frozenset(found)
        return self._keys[package]

    def scope(self, function: Function) -> _Scope:
        """What a function and those in it do."""
        function = _outermost(function)
        return self.scopes_of(function.module).get(id(function)) or _Scope(function)

    def scopes_of(self, module: Module) -> dict[int, _Scope]:
        """The functions of a module that are defined in no other."""
        if id(module) in self.scopes:
            return self.scopes[id(module)]
        scopes: dict[int, _Scope] = {}
        self.scopes[id(module)] = scopes

        def of(function: Function) -> _Scope:
            function = _outermost(function)
            return scopes.setdefault(id(function), _Scope(function))

        for node in _nodes(module):
            scope = of(node.context.function)
            scope.nodes.append(node)
            read = _read_of(node)
            if (
                read is not None
                and (not isinstance(read[1], str) or self.known.is_counter(read[1]))
                and (paths := self.paths(read[0]))
            ):
                scope.reads.append(_Read(node, read[1] if isinstance(read[1], str) else "", paths, read[0]))
            elif node.kind == "ref" and "." in node.name and self.known.is_counter(node.name.rpartition(".")[2]):
                name = node.name.rpartition(".")[2]
                scope.reads.append(
                    _Read(node, name, frozenset((root, keys[:-1]) for root, keys in self.paths(node)), node)
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

    def is_kept(self, function: Function, usage: frozenset[Path], hops: int = 0, ignored: Node | None = None) -> bool:
        """Whether a function, or one that gives it the usage or is given it, reads the cached counters or keeps it whole."""
        scope = self.scope(function)
        if any(self.known.is_cached(read.name) or not read.name for read in scope.reads if read.usage & usage):
            return True
        if any(self.hands_on(node, usage, hops, ignored) for node in scope.nodes):
            return True
        if any(self.paths(value) & usage for _, value in scope.stored):
            return True
        if not ignored or ignored.kind != "param":
            returned = [*scope.function.returns, *scope.function.yields]
            if any(self.paths(value) & usage for value in returned):
                return True
        return hops < _MOST_HOPS and any(
            self.is_kept(call.context.function, above, hops + 1, call)
            for call, above in self.above(scope.function, usage)
        )

    def above(self, function: Function, usage: frozenset[Path]) -> Iterator[tuple[Node, frozenset[Path]]]:
        """Calls that give a function the usage, or what holds it; and the usage there."""
        for root, keys in usage:
            given = self.roots[root]
            if given.kind != "param" or given.value is not function:
                continue
            for call, target in self.program.callers(function)[:12]:
                paths = frozenset(
                    (r, (*k, *keys))
                    for one, _ in self.program.arguments(call, target, given.name)
                    for r, k in self.paths(one)
                )
                if paths and paths.isdisjoint(usage):
                    yield call, paths

    def hands_on(self, node: Node, usage: frozenset[Path], hops: int, ignored: Node | None) -> bool:
        """Whether an expression keeps a usage whole."""
        if node is ignored:
            return False
        if node.kind in {"dict", "list", "tuple", "set", "star"}:
            return any(self.paths(one) & usage for one in node.inputs)
        if node.kind == "update":
            return any(self.paths(one) & usage for one in node.inputs[1:])
        if node.kind == "iter":
            return bool(self.paths(node.inputs[0]) & usage)
        if node.kind != "call" or _read_of(node) is not None:
            return False
        last = node.name.rpartition(".")[2]
        callee = node.inputs[0]
        if callee.kind == "attr" and last not in _SAME and self.paths(callee.inputs[0]) & usage:
            return not self.program.targets(node)
        if last in _QUIET or last in _LOGS or last in _SAME:
            return False
        for _, given in node.value:
            if given.kind != "const" and any(
                self.is_given(node, given, path, usage, hops) for path in self.paths(given)
            ):
                return True
        return False

    def is_given(self, call: Node, given: Node, path: Path, usage: frozenset[Path], hops: int) -> bool:
        """Whether a call keeps the usage, or of what holds it the cached counters."""
        rests = [keys[len(path[1]) :] for root, keys in usage if root == path[0] and keys[: len(path[1])] == path[1]]
        if not rests:
            return False
        targets = self.program.targets(call)
        if not targets:
            return not all(rests)
        if hops >= _MOST_HOPS:
            return not all(rests)
        for target in targets[:4]:
            for name, param in target.function.params.items():
                if any(one is given for one, _ in self.program.arguments(call, target, name)):
                    for rest in rests:
                        if self.keeps_param(target.function, (id(param), rest), param, hops):
                            return True
            if target.constructs is not None and target.function.name == "<fields>" and not all(rests):
                return True
        return False

    def keeps_param(self, function: Function, path: Path, param: Node, hops: int) -> bool:
        key = id(function), path
        if key not in self._kept:
            self._kept[key] = False  # a function that calls itself
            self.roots[id(param)] = param
            self._kept[key] = (
                self.is_kept(function, frozenset({path}), max(hops, _MOST_HOPS - 1) + 0, param)
                if hops < _MOST_HOPS
                else not path[1]
            )
        return self._kept[key]


def find(analysis: Analysis) -> Iterator[Hit]:
    """All findings of these codes."""
    usages = _Usages(analysis)
    known = usages.known
    for module in analysis.modules:
        text = module.text
        is_copied = any(
            name.encode() in text and any(other.encode() in text for other in others)
            for name, others in known.pairs.items()
        )
        if not is_copied and not (b"_tokens" in text and b"usage" in text):
            continue
        for scope in usages.scopes_of(module).values():
            if scope.reads:
                yield from _mixed(usages, scope)
                yield from _repeated(usages, scope)
                if is_copied:
                    yield from _dropped(usages, scope)


# CKA03


class _Copy(NamedTuple):
    """Values that are written together."""

    place: Node
    what: str
    slots: list[tuple[Key, Node]]


def _dropped(usages: _Usages, scope: _Scope) -> Iterator[Hit]:
    known = usages.known
    if not any(read.name in known.inputs for read in scope.reads) or _is_uncached(usages, scope.function):
        return
    reads = {id(read.node): read for read in scope.reads}
    done: list[frozenset[Path]] = []
    for copy in _copies(usages, scope, reads):
        taken = [(key, [reads[id(one)] for one in _counters_in(value, reads)]) for key, value in copy.slots]
        if any(known.is_cached(read.name) for _, slot in taken for read in slot):
            continue
        inputs = [read for _, slot in taken for read in slot if _is_one(slot) and read.name in known.inputs]
        for read in inputs:
            outputs = [
                other
                for _, slot in taken
                for other in slot
                if _is_one(slot) and other.name in known.pairs[read.name] and other.usage & read.usage
            ]
            if not outputs or any(read.usage & one for one in done):
                continue
            if _is_unmarked(usages, scope.function.module, read.name) or not _is_reported(usages, read):
                continue
            if _is_with_whole(usages, copy, read) or usages.is_kept(scope.function, read.usage):
                continue
            done.append(read.usage)
            yield _hit(usages, copy, read, outputs[0])
            break


def _hit(usages: _Usages, copy: _Copy, read: _Read, output: _Read) -> Hit:
    names = usages.known.lost[read.name, output.name]
    lost = f"`{next(iter(names))}`" if len(names) == 1 else "its cached counters"
    base = _shown(read.base)
    source = text_of(base)
    message = (
        f"`{read.name}` and `{output.name}` of `{source}` are written to {copy.what} without {lost}: "
        "what was read from the cache is lost from here on"
    )
    trail = (
        (base, f"the usage: `{source}`"),
        (read.node, f"`{read.name}` is read"),
        (copy.place, f"written to {copy.what}"),
    )
    return Hit("CKA03", message, copy.place, trail, None, copy.place)


def _shown(node: Node) -> Node:
    """The part of a value that stands in the text: of several the first."""
    for _ in range(8):
        if node.position is not None and node.kind != "phi":
            break
        node = next((one for one in node.inputs if one.kind != "const"), node)
    return node


def _is_one(slot: list[_Read]) -> bool:
    """Whether a value is one counter, and no total."""
    return len({read.name for read in slot}) == 1


def _copies(usages: _Usages, scope: _Scope, reads: dict[int, _Read]) -> Iterator[_Copy]:
    """What is written in a function, most telling first; not what a log or a trace is told."""
    told: set[int] = set()
    for node in scope.nodes:
        if node.kind == "call" and (
            (last := node.name.rpartition(".")[2].lower()) in _LOGS
            or any(word in last for word in usages.known.telling_calls)
        ):
            told.update(id(part) for part in (node, *(given for _, given in node.value)))
    added: list[tuple[Key, Node]] = []
    sums: list[_Copy] = []
    for node in scope.nodes:
        if id(node) in told:
            continue
        if node.kind == "dict":
            yield _Copy(node, "a dict", list(zip(node.value, node.inputs, strict=True)))
        elif node.kind == "call" and len(node.value) > 1 and _read_of(node) is None:
            last = node.name.rpartition(".")[2]
            if last not in _QUIET and last not in _LOGS and last not in {"append", "format"}:
                yield _Copy(node, f"`{last}(…)`", list(node.value))
        elif (
            node.kind == "update"
            and (node.inputs[0].kind in {"attr", "item"} or node.value)
            and not _is_told(usages, node)
        ):
            old = node.inputs[0]
            key = (
                old.name
                if old.kind == "attr"
                else node.value[-1]
                if node.value
                else old.value
                if old.kind == "item"
                else None
            )
            added += [(key, one) for one in node.inputs[1:2]]
        elif (
            node.kind == "join"
            and node.name == "+"
            and len(node.inputs) > 1
            and any(_is_priced(one) for one in node.inputs)
        ):
            sums.append(_Copy(node, "a cost", [(index, one) for index, one in enumerate(node.inputs)]))
    yield from sums
    slots = [*added, *scope.stored]
    placed = [one for _, value in slots for one in _counters_in(value, reads)]
    if placed:
        names = dict.fromkeys(key for key, value in slots if isinstance(key, str) and _counters_in(value, reads))
        what = ", ".join(f"`{name}`" for name in names) or "a record"
        yield _Copy(min(placed, key=lambda node: node.position or (0,)), what, slots)
    for returned in [*scope.function.returns, *scope.function.yields]:
        if returned.kind == "tuple":
            yield _Copy(returned, "the result", list(enumerate(returned.inputs)))


def _is_told(usages: _Usages, update: Node) -> bool:
    """Whether what is changed belongs to a trace, by its name."""
    roots = [usages.roots[root] for root, _ in usages.paths(update)]
    return any(word in one.name.lower() for one in roots if one.kind == "param" for word in usages.known.telling_calls)


def _is_priced(node: Node) -> bool:
    return node.kind == "join" and node.name in {"*", "/", "arith"}


def _counters_in(value: Node, reads: dict[int, _Read]) -> list[Node]:
    """The reads of counters that a number is made of."""
    found: list[Node] = []
    work = [value]
    seen: set[int] = set()
    while work and len(seen) < 60:
        node = work.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if id(node) in reads:
            found.append(node)
        elif node.kind in {"phi", "join"}:
            work += node.inputs
        elif node.kind == "update" and not node.value:
            work += node.inputs[1:] if node.name == "+=" else ()
            work += node.inputs[:1] if node.inputs[0].kind in {"update", "phi"} else ()
        elif node.kind == "call" and len(node.value) <= 2:
            work += [given for _, given in node.value if given.kind not in {"const", "func"}]
    return found


def _is_with_whole(usages: _Usages, copy: _Copy, read: _Read) -> bool:
    """Whether the usage, or the answer it is of, is written beside its counters; or the answer is one of the program's own."""
    wholes = {(root, keys[:length]) for root, keys in read.usage for length in range(len(keys) + 1)}
    wholes |= {(root, (*keys, "cost")) for root, keys in wholes - read.usage}  # no provider's answer says what it cost
    return any(
        usages.paths(value) & wholes for _, value in copy.slots if value.kind not in {"const", "join", "compare"}
    )


def _is_reported(usages: _Usages, read: _Read) -> bool:
    """Whether a value is a usage as a provider gives it, or one of the program's own that has cached counters."""
    if (
        read.base.kind == "param"
        and next(iter(read.base.value.params)) == read.base.name
        and read.base.value.cls is not None
    ):
        return False  # an object that tells of itself in parts
    classes = _classes_of(usages, read)
    if classes:
        return any(usages.known.is_cached(name) for cls in classes for name in _fields(usages, cls))
    return any(_is_usage(usages, root, keys) for root, keys in read.usage)


def _is_usage(usages: _Usages, root: int, keys: tuple[Key, ...], hops: int = 0) -> bool:
    names = [key for key in keys if isinstance(key, str) and key != ANY]
    node = usages.roots[root]
    if names and names[-1] not in usages.known.holders:
        return False
    is_of_answer = any(word in str(name).lower() for name in names[:-1] for word in usages.known.answers)
    if node.kind == "param":
        function: Function = node.value
        if next(iter(function.params)) == node.name and function.cls is not None:
            return len(names) > 1
        callers = list(usages.above(function, frozenset({(root, keys)})))
        if callers and hops < _MOST_HOPS:
            return any(_is_usage(usages, r, k, hops + 1) for _, above in callers for r, k in above)
        own = _named(usages, function.annotations.get(node.name, ""), node.module)
        declared = [
            one.fields[names[0]]
            for cls in own
            for one in usages.program.family(cls, up_only=True)
            if names and names[0] in one.fields
        ]
        if own and (
            not names
            or not all(name and name.rpartition(".")[2].lower() not in {"dict", "any", "mapping"} for name in declared)
        ):
            return False  # a value of the program's own that is no usage of a provider, as far as can be told
        if names:
            return is_of_answer or any(word in node.name.lower() for word in usages.known.answers)
        return node.name in usages.known.holders
    return bool(names) and (is_of_answer or not (node.kind == "call" and usages.program.targets(node)))


def _classes_of(usages: _Usages, read: _Read) -> tuple[Class, ...]:
    """The classes of the program that a usage is an object of."""
    found = usages.program.classes_of(read.base)
    if found:
        return found
    for root, keys in read.usage:
        node = usages.roots[root]
        classes = usages.program.classes_of(node)
        for key in keys:
            classes = tuple(
                one
                for cls in classes
                for above in usages.program.family(cls, up_only=True)
                if isinstance(key, str) and key in above.fields
                for one in _named(usages, above.fields[key], above.module)
            )
        if classes:
            return classes
    return ()


def _named(usages: _Usages, name: str, module: Module) -> list[Class]:
    return [node.value for node in usages.program.lookup(f"~{name}", module) if node.kind == "class"] if name else []


def _fields(usages: _Usages, cls: Class) -> Iterator[str]:
    for one in usages.program.family(cls, up_only=True):
        yield from one.fields
        yield from one.attributes
        yield from one.stores


def _is_uncached(usages: _Usages, function: Function) -> bool:
    """Whether what a function asks reports no cached tokens."""
    known, module = usages.known, function.module
    names = [function.name, function.cls.name if function.cls else "", *function.annotations.values()]
    names += [node.name for node in usages.scope(function).nodes if node.kind == "call" and _read_of(node) is None]
    if any(word in module.name.lower() for word in known.telling_words):
        return True
    if any(word in name.lower() for name in names for word in known.uncached_words):
        return True
    return any(package in module.name for package in known.uncached_packages) or not usages.imports(module).isdisjoint(
        known.uncached_packages
    )


def _is_unmarked(usages: _Usages, module: Module, counter: str) -> bool:
    """Whether a service caches only what is marked, and no module of its folder marks anything."""
    for row in usages.known.marked:
        packages = usages.imports(module)
        is_of = not packages.isdisjoint(row["packages"]) and packages.isdisjoint(row["unless"])
        is_of = is_of or counter in row["counters"] or any(word in module.name.lower() for word in row["modules"])
        if is_of and usages.keys_of(module.name.rpartition(".")[0]).isdisjoint(row["keys"]):
            return True
    return False


# CKA01


def _mixed(usages: _Usages, scope: _Scope) -> Iterator[Hit]:
    known = usages.known
    reads = {id(read.node): read for read in scope.reads}
    for node in scope.nodes:
        if node.kind != "join" or node.name not in {"+", "/"}:
            continue
        parts = [[reads[id(one)] for one in _counters_in(part, reads)] for part in node.inputs]
        names = [{read.name for read in part} for part in parts]
        if (
            node.name == "/"
            and len(parts) == 2
            and names[0]
            and names[0] <= known.apart
            and len(names[1]) == 1
            and names[1] <= known.inputs
        ):
            if parts[0][0].usage & parts[1][0].usage:
                divisor = text_of(node.inputs[1])
                yield Hit(
                    "CKA01", f"`{divisor}` leaves out what was read from the cache: this share can exceed 100 %", node
                )
        elif node.name == "+":
            for whole in (read for part in parts for read in part if _is_one(part) and read.name in known.inputs):
                inside = {(root, (*keys, name)) for root, keys in whole.usage for name in known.inside}
                if any(read.usage & inside for part in parts for read in part if _is_one(part)):
                    yield Hit(
                        "CKA01",
                        f"`{text_of(whole.node)}` holds the cached tokens already: adding them counts them twice",
                        node,
                    )
                    break


# CKA02


def _repeated(usages: _Usages, scope: _Scope) -> Iterator[Hit]:
    """Sums of the usage in lines that have a `message` with a `usage`, where no id of the call is looked at."""
    lines = {
        id(read.node): read for read in scope.reads if read.name and any(_is_of_line(keys) for _, keys in read.usage)
    }
    if not lines or _looks_at_ids(usages, scope):
        return
    for node in scope.nodes:
        if node.kind == "call" and node.name == "sum" and node.value and node.value[0][1].kind == "comp":
            summed = [node.value[0][1].inputs[0]]
        elif node.kind == "update" and node.name == "+=" and not node.value and node.context.loops():
            summed = [node.inputs[1]]
        elif (
            node.kind == "join"
            and node.name == "+"
            and any(one.kind == "phi" and one.name == "loop" for one in node.inputs)
        ):
            summed = [one for one in node.inputs if one.kind != "phi"]
        else:
            continue
        counters = [one for part in summed for one in _counters_in(part, lines)]
        if counters:
            read = lines[id(counters[0])]
            message = (
                f"`{read.name}` is summed over the lines of a session file, which holds a call's usage once for each content "
                "block: count each `requestId` with its `message.id` once"
            )
            yield Hit("CKA02", message, node, ((read.node, f"`{read.name}` of a line"), (node, "summed")), None, node)


def _is_of_line(keys: tuple[Key, ...]) -> bool:
    return len(keys) > 2 and keys[-2:] == ("message", "usage") and ANY in keys[:-2]


def _looks_at_ids(usages: _Usages, scope: _Scope) -> bool:
    """Whether a function, one that calls it, or one that it calls, reads what tells calls apart."""
    around = [call.context.function for call, _ in usages.program.callers(scope.function)]
    around += [
        target.function for node in scope.nodes if node.kind == "call" for target in usages.program.targets(node)
    ]
    return any(
        (read := _read_of(node)) is not None and read[1] in _IDS
        for one in [scope, *(usages.scope(function) for function in around)]
        for node in one.nodes
    )


def _outermost(function: Function) -> Function:
    while function.parent is not None:
        function = function.parent
    return function


def _read_of(node: Node) -> tuple[Node, Key] | None:
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
    seen: set[int] = set()
    contexts: set[int] = set()
    while work:
        node = work.pop()
        if id(node) in seen or node.module is not module:
            continue
        seen.add(id(node))
        yield node
        work += node.inputs
        if node.kind == "call":
            work += [given for _, given in node.value]
        elif node.kind == "comp":
            work += [*node.value.iterables, *node.value.conditions]
        elif node.kind == "phi" and node.value is not None:
            work.append(node.value)
        for context in node.context.chain():
            if id(context) in contexts:
                break
            contexts.add(id(context))
            work += [one for one in (context.test, context.iterable) if one is not None]
