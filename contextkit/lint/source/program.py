"""Resolves names across the modules of a program: what a name stands for, what a call calls, who calls a function.

All answers are best effort: a name that leads out of the program resolves to nothing, a method of an object whose class
is not known resolves where one class only has a method of that name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from contextkit.lint.source.files import as_meant
from contextkit.lint.source.graph import ANY, Class, Comprehension, Function, Key, Module, Node
from contextkit.lint.source.lower import PARTIAL, callee_name

_MOST_CALLERS: Final = 40
_MOST_METHODS: Final = 4
_MOST_COPIED: Final = 60
"""Nodes of what a function returns that are looked at in place of its call."""
"""Methods of one name that a call on an unknown object may mean; of more it means none."""
_COMMON: Final = frozenset(
    """get set add pop update append extend items keys values copy clear run call close open read write send start stop next execute
    format join strip split create list load save delete invoke process render""".split()  # noqa: SIM905 - a list of words
)
"""Names that objects of the standard library have as well: a method of an unknown object is none of the program's."""


class Target(NamedTuple):
    """A function that a call may run."""

    function: Function
    is_bound: bool
    """Whether the first parameter is the object (or class) the method is called on."""
    extra: tuple[tuple[Key, Node], ...] = ()
    """Arguments that `functools.partial` gives before those of the call."""
    constructs: Class | None = None
    """The class, where the call makes an object."""


class Program:
    """All modules that are read together."""

    def __init__(self, modules: Sequence[Module]) -> None:
        self.modules = {module.name: module for module in modules}
        self.classes: dict[str, list[Class]] = defaultdict(list)
        self.methods: dict[str, list[Function]] = defaultdict(list)
        self.calls: dict[str, list[Node]] = defaultdict(list)
        self.stores: dict[str, list[Node]] = defaultdict(list)
        self.subclasses: dict[int, list[Class]] = defaultdict(list)
        self._targets: dict[int, tuple[Target, ...]] = {}
        self._callers: dict[int, tuple[tuple[Node, Target], ...]] = {}
        self._classes_of: dict[int, tuple[Class, ...]] = {}
        self._changes: dict[tuple[int, str], bool] = {}
        self._families: dict[int, tuple[Class, ...]] = {}
        self._starred: dict[tuple[str, str], list[Node]] = {}
        self._inlined: dict[int, tuple[Node, Node | None]] = {}
        for module in modules:
            module.inlined = self.inlined
            for cls in module.classes:
                self.classes[cls.name].append(cls)
                for name, function in cls.methods.items():
                    self.methods[name].append(function)
            for call in module.calls:
                self.calls[call.name.rpartition(".")[2].removesuffix("()")].append(call)
                if call.name in PARTIAL and call.value:
                    wrapped = call.value[0][1]
                    self.calls[(wrapped.name or "").rpartition(".")[2]].append(call)
            for attribute, nodes in module.other_stores.items():
                self.stores[attribute] += nodes
        for classes in list(self.classes.values()):
            for cls in classes:
                for base in self.bases(cls):
                    self.subclasses[id(base)].append(cls)

    # Names

    def lookup(self, dotted: str, module: Module, depth: int = 0) -> list[Node]:
        """The values of a dotted name: nodes of kind func, class, or what a global holds; empty for what is not ours."""
        if depth > 8:
            return []
        if dotted.startswith("~"):
            dotted = f"{module.name}.{dotted[1:]}"
        elif module.meant:
            dotted = as_meant(dotted, module.meant)
        parts = dotted.split(".")
        for length in range(len(parts) - 1, 0, -1):
            results = self.modules.get(".".join(parts[:length]))
            if results is None:
                continue
            values = self._member(results, parts[length], depth)
            for part in parts[length + 1 :]:
                values = [below for value in values for below in self._part(value, part, depth)]
            return values
        return []

    def _member(self, module: Module, name: str, depth: int) -> list[Node]:
        values: list[Node] = []
        for node in module.top.get(name, ()):
            if node.kind == "ref" and node.name not in (f"{module.name}.{name}", f"~{name}"):
                values += self.lookup(node.name, module, depth + 1) or [node]
            else:
                values.append(node)
        if not values and module.stars:
            key = module.name, name
            if key not in self._starred:
                self._starred[key] = []  # modules that import everything of one another
                results = (self.lookup(f"{star}.{name}", module, depth + 1) for star in module.stars)
                self._starred[key] = next((values for values in results if values), [])
            return self._starred[key]
        return values

    def _part(self, value: Node, name: str, depth: int) -> list[Node]:
        if value.kind == "class":
            return [node for cls in self.family(value.value, up_only=True) for node in _class_member(cls, name)]
        if value.kind == "ref":
            return self.lookup(f"{value.name}.{name}", value.module, depth + 1)
        return []

    # Classes

    def bases(self, cls: Class) -> list[Class]:
        """The classes of the program that a class derives from directly."""
        results: list[Class] = []
        for node in cls.bases:
            base = node.inputs[0] if node.kind == "item" else node
            values = (
                [base] if base.kind == "class" else self.lookup(base.name, cls.module) if base.kind == "ref" else []
            )
            results += [value.value for value in values if value.kind == "class" and value.value is not cls]
        return results

    def family(self, cls: Class, *, up_only: bool = False) -> tuple[Class, ...]:
        """A class, its bases, and (unless `up_only`) its subclasses."""
        key = id(cls) * 2 + up_only
        if key not in self._families:
            results = [cls]
            for one in results:
                results += [base for base in self.bases(one) if base not in results]
            if not up_only:
                below = [cls]
                for one in below:
                    below += [sub for sub in self.subclasses[id(one)] if sub not in below]
                results += [one for one in below if one not in results]
            self._families[key] = tuple(results)
        return self._families[key]

    def method(self, cls: Class, name: str, *, up_only: bool = False) -> list[Function]:
        """The methods of a name that a call on an object of a class may run: the nearest one, and those of subclasses."""
        results: list[Function] = []
        for one in self.family(cls, up_only=True):
            if name in one.methods:
                results.append(one.methods[name])
                break
        if not up_only:
            results += [
                one.methods[name]
                for one in self.family(cls)
                if name in one.methods and one.methods[name] not in results and cls in self.family(one, up_only=True)
            ]
        return results[:12]

    def classes_of(self, node: Node, depth: int = 0) -> tuple[Class, ...]:
        """The classes of the program that a value may be an object of, as far as can be told."""
        if depth > 5:
            return ()
        key = id(node)
        if key not in self._classes_of:
            self._classes_of[key] = ()  # a value that is made of itself
            self._classes_of[key] = tuple(dict.fromkeys(self._infer(node, depth)))[:6]
        return self._classes_of[key]

    def _infer(self, node: Node, depth: int) -> Iterator[Class]:
        if node.kind == "param":
            function: Function = node.value
            first = next(iter(function.params), "")
            if function.cls is not None and node.name == first and "staticmethod" not in set(function.decorated()):
                yield function.cls
            elif node.name in function.annotations:
                yield from self._named(function.annotations[node.name], function.module)
            elif node.name in function.defaults:
                yield from self.classes_of(function.defaults[node.name], depth + 1)
        elif node.kind == "call":
            for target in self.targets(node, depth + 1):
                if target.constructs is not None:
                    yield target.constructs
                elif len(target.function.returns) <= 4:
                    for value in target.function.returns:
                        yield from self.classes_of(value, depth + 1)
        elif node.kind == "phi":
            for value in node.inputs:
                yield from self.classes_of(value, depth + 1)
        elif node.kind == "ref":
            for value in self.lookup(node.name, node.module):
                if value.kind not in {"ref", "class", "func"}:
                    yield from self.classes_of(value, depth + 1)
        elif node.kind == "attr":
            for cls in self.classes_of(node.inputs[0], depth + 1):
                for one in self.family(cls, up_only=True):
                    for value, _ in one.stores.get(node.name, ()):
                        yield from self.classes_of(value, depth + 1)
                    for value in one.attributes.get(node.name, ()):
                        yield from self.classes_of(value, depth + 1)
        elif node.kind in {"update", "out"}:
            yield from self.classes_of(node.inputs[0], depth + 1)

    def _named(self, name: str, module: Module) -> Iterator[Class]:
        head, dot, rest = name.partition(".")
        values = [
            value
            for node in self._member(module, head, 0)
            for value in ([node] if not dot else self._part(node, rest, 0))
        ]
        yield from (value.value for value in values if value.kind == "class")

    # Calls

    def targets(self, call: Node, depth: int = 0) -> tuple[Target, ...]:
        """The functions of the program that a call may run."""
        key = id(call)
        if key not in self._targets:
            self._targets[key] = ()
            self._targets[key] = tuple(self.callables(call.inputs[0], depth))
        return self._targets[key]

    def callables(self, callee: Node, depth: int = 0) -> Iterator[Target]:
        """The functions a value stands for."""
        if depth > 6:
            return
        if callee.kind == "func":
            yield Target(callee.value, False)
        elif callee.kind == "class":
            yield from self._constructor(callee.value)
        elif callee.kind == "ref":
            for value in self.lookup(callee.name, callee.module):
                if value.kind == "func" and value.value.cls is not None and "." in callee.name:
                    yield Target(value.value, "classmethod" in set(value.value.decorated()))
                elif value.kind != "ref":
                    yield from self.callables(value, depth + 1)
        elif callee.kind == "attr":
            yield from self._method_targets(callee, depth)
        elif callee.kind == "phi":
            for value in callee.inputs[:6]:
                yield from self.callables(value, depth + 1)
        elif callee.kind == "call":
            if callee.name in PARTIAL and callee.value:
                extra = tuple((key, value) for key, value in callee.value[1:])
                shifted = tuple((key - 1 if isinstance(key, int) else key, value) for key, value in extra)
                for target in self.callables(callee.value[0][1], depth + 1):
                    yield target._replace(extra=(*shifted, *target.extra))
            else:
                for target in self.targets(callee, depth + 1):
                    if target.constructs is None:
                        for value in target.function.returns[:3]:
                            if value.kind in {"func", "call"}:
                                yield from self.callables(value, depth + 1)
                    else:
                        for function in self.method(target.constructs, "__call__"):
                            yield Target(function, True)

    def _constructor(self, cls: Class) -> Iterator[Target]:
        for one in self.family(cls, up_only=True):
            if "__init__" in one.methods:
                yield Target(one.methods["__init__"], True, (), cls)
                return
        body = Function("<fields>", cls.module, cls, None, cls.position)
        yield Target(body, True, (), cls)

    def _method_targets(self, callee: Node, depth: int) -> Iterator[Target]:
        base, name = callee.inputs[0], callee.name
        if base.kind == "call" and base.name == "super":
            cls = callee.context.function.cls
            for one in self.family(cls, up_only=True)[1:] if cls is not None else ():
                if name in one.methods:
                    yield Target(one.methods[name], True)
                    return
            return
        classes = self.classes_of(base, depth + 1)
        if classes:
            visited: set[int] = set()
            is_self = base.kind == "param"
            for cls in classes:
                for function in self.method(cls, name, up_only=not is_self and len(classes) > 1):
                    if id(function) not in visited:
                        visited.add(id(function))
                        yield Target(function, "staticmethod" not in set(function.decorated()))
                for one in self.family(cls, up_only=True):
                    for value, _ in one.stores.get(name, ()):
                        yield from self.callables(value, depth + 1)
            return
        if base.kind == "class" or name in _COMMON or name.startswith("__"):
            return
        methods = self.methods.get(name, ())
        if 0 < len(methods) <= _MOST_METHODS:
            for function in methods:
                yield Target(function, "staticmethod" not in set(function.decorated()))

    def callers(self, function: Function) -> tuple[tuple[Node, Target], ...]:
        """The calls that may run a function."""
        key = id(function)
        if key not in self._callers:
            self._callers[key] = ()
            names = [function.name]
            if function.name == "__init__" and function.cls is not None:
                names = [cls.name for cls in self.family(function.cls)] + ["__init__", "cls"]
            elif function.name == "<lambda>" or (function.name == "__call__" and function.cls is not None):
                names = []
            results: list[tuple[Node, Target]] = []
            for name in names:
                for call in self.calls.get(name, ())[:400]:
                    source = call.value[0][1] if call.name in PARTIAL and call.value else None
                    targets: Iterable[Target]
                    if source is not None:
                        shifted = [(key - 1 if isinstance(key, int) else key, value) for key, value in call.value[1:]]
                        targets = [target._replace(extra=tuple(shifted)) for target in self.callables(source)]
                    else:
                        targets = self.targets(call)
                    results += [(call, target) for target in targets if target.function is function]
            self._callers[key] = tuple(results[:_MOST_CALLERS])
        return self._callers[key]

    def changed(self, target: Target, key: Key) -> list[Node]:
        """What an argument of a call holds when the call ends, where the function changes it; empty otherwise."""
        name = self.parameter(target, key)
        nodes = target.function.outs.get(name)
        if not nodes:
            return []
        results = self._changes.get((id(target.function), name))
        if results is None:
            self._changes[id(target.function), name] = False  # functions that call each other
            results = self._changes[id(target.function), name] = any(self._is_changed(node, set()) for node in nodes)
        return nodes if results else []

    def _is_changed(self, node: Node, visited: set[int]) -> bool:
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if id(one) in visited:
                continue
            visited.add(id(one))
            if one.kind == "update":
                return True
            if one.kind == "phi":
                waiting += one.inputs
            elif one.kind == "out":
                waiting.append(one.inputs[0])
                if any(self.changed(target, one.value) for target in self.targets(one.inputs[1])):
                    return True
        return False

    def inlined(self, call: Node) -> Node | None:
        """What a call returns, where its function is one expression of what it is given; None for any other call."""
        if id(call) not in self._inlined:
            self._inlined[id(call)] = call, None
            targets = self.targets(call)
            if len(targets) == 1 and targets[0].constructs is None:
                function = targets[0].function
                is_plain = (
                    len(function.returns) == 1 and not function.yields and not (function.vararg or function.kwarg)
                )
                is_plain = is_plain and set(function.decorated()) <= {"staticmethod"}
                if is_plain and not any(self.changed(targets[0], key) for key, _ in call.value):
                    inlining = _Inlining(self, call, targets[0])
                    returned = inlining.copy(function.returns[0])
                    self._inlined[id(call)] = call, returned if inlining.is_expression else None
        return self._inlined[id(call)][1]

    def parameter(self, target: Target, key: Key) -> str:
        """The parameter that an argument under a keyword or position is given to; empty where there is none."""
        function = target.function
        if isinstance(key, str):
            return key if key in function.params else ""
        if not isinstance(key, int):
            return ""
        positional = self.positional(function)
        index = key + (1 if target.is_bound else 0) + sum(isinstance(extra, int) for extra, _ in target.extra)
        return positional[index] if index < len(positional) else function.vararg

    def positional(self, function: Function) -> list[str]:
        """The parameters that are no `*args` or `**kwargs`, in order."""
        return [name for name in function.params if name not in (function.vararg, function.kwarg)]

    def arguments(self, call: Node, target: Target, name: str) -> list[tuple[Node, tuple[Key, ...]]]:
        """What a call gives for a parameter: nodes, and the path into each (`**kwargs`, `*args`)."""
        function = target.function
        positional = self.positional(function)
        supplied: list[tuple[Key, Node]] = list(target.extra)
        n_extra = sum(isinstance(key, int) for key, _ in supplied)
        if not (call.name in PARTIAL and target.extra):
            supplied += [(key + n_extra if isinstance(key, int) else key, value) for key, value in call.value]
        offset = 1 if target.is_bound else 0
        index = positional.index(name) - offset if name in positional else None
        results: list[tuple[Node, tuple[Key, ...]]] = []
        for key, value in supplied:
            if (key == name and isinstance(key, str)) or (isinstance(key, int) and index is not None and key == index):
                results.append((value, ()))
            elif key == "**" and name != function.vararg:
                results.append((value, () if name == function.kwarg else (name,)))
            elif key == ANY and index is not None:
                results.append((value, (ANY,)))
            elif name == function.vararg and (key == ANY or (isinstance(key, int) and key >= len(positional) - offset)):
                results.append((value, () if key == ANY else (ANY,)))
            elif name == function.kwarg and isinstance(key, str) and key not in positional and key not in {"**", ANY}:
                results.append((value, ("**" + key,)))
        return results


class _Inlining:
    """Copies what a function returns, with the arguments of a call in place of its parameters."""

    def __init__(self, program: Program, call: Node, target: Target) -> None:
        self.program = program
        self.call = call
        self.target = target
        self.copies: dict[int, Node] = {}
        self.is_expression = True
        """Whether nothing in it was made by statements: in a loop, in branches, by changing it."""

    def copy(self, node: Node) -> Node:
        """A value as it is at the call."""
        if id(node) in self.copies:
            return self.copies[id(node)]
        function = self.target.function
        if node.kind == "param" and node.value is function:
            return self.argument(node)
        if node.context.function is not function or node.kind in {"func", "class"}:
            return node
        if (
            len(self.copies) > _MOST_COPIED
            or node.kind in {"update", "out"}
            or (node.kind == "phi" and node.position is None)
        ):
            self.is_expression = False
            return node
        context = self.call.context if node.context is function.context else node.context
        copied = self.copies[id(node)] = Node(node.kind, context, node.position, (), node.name, node.value)
        copied.inputs = tuple(map(self.copy, node.inputs))
        if node.kind == "call":
            copied.value = [(key, self.copy(value)) for key, value in node.value]
            copied.name = callee_name(copied.inputs[0])
        elif node.kind == "slice":
            copied.value = tuple(None if bound is None else self.copy(bound) for bound in node.value)
        elif node.kind == "comp":
            copied.value = Comprehension(
                tuple(map(self.copy, node.value.iterables)), tuple(map(self.copy, node.value.conditions))
            )
        elif node.kind == "phi" and node.value is not None:
            copied.value = self.copy(node.value)
        return copied

    def argument(self, param: Node) -> Node:
        if self.target.is_bound and param.name == next(iter(self.target.function.params)):
            callee = self.call.inputs[0]
            return callee.inputs[0] if callee.kind == "attr" else param
        supplied = self.program.arguments(self.call, self.target, param.name)
        if len(supplied) == 1 and not supplied[0][1]:
            return supplied[0][0]
        return param if supplied else self.target.function.defaults.get(param.name, param)


def _class_member(cls: Class, name: str) -> list[Node]:
    if name in cls.methods:
        function = cls.methods[name]
        return [Node("func", cls.methods[name].context, function.position, (), f"{cls.qualified}.{name}", function)]
    return cls.attributes.get(name, [])
