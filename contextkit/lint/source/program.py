"""Finds what a name or a call stands for: in its function, module and class, in base classes by name, one import away.

Every answer is best effort: what leads out of the files that are linted resolves to nothing.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from contextkit.lint.source.scopes import Binding, CallSite, Class, Module, Place, Scope, last_name

_MOST_CALLERS = 12
_DEEPEST = 4
"""Names that lead to one another: re-exports, variables that hold variables."""


@dataclass(frozen=True, slots=True)
class Target:
    """A function that a call may run."""

    scope: Scope
    receiver: ast.expr | None = None
    """The object a method is called on."""
    constructs: Class | None = None
    """The class, where the call makes an object and the function is its `__init__`."""

    def parameter_of(self, call: ast.Call, key: int | str) -> str:
        """The parameter that an argument under a position or keyword is given to; empty where there is none."""
        if isinstance(key, str):
            return key
        index = key + (1 if self.scope.receiver else 0)
        return self.scope.params[index] if index < len(self.scope.params) else ""


class Program:
    """The files that are linted together, each read when something asks for it."""

    def __init__(self, load: Callable[[str], Module | None]) -> None:
        self.load = load
        """Gives the module of a full name, None for one that is not among the files."""
        self.modules: dict[str, Module] = {}
        """Those that were read, by full name."""
        self.marked: dict[str, set[str]] = defaultdict(set)
        """Top of a package → words of breakpoints that stand in its files."""
        self._calls: dict[str, list[CallSite]] = defaultdict(list)
        self._classes: dict[str, list[Class]] = defaultdict(list)
        self._subclasses: dict[str, list[Class]] = defaultdict(list)
        self._class_of: dict[int, tuple[ast.expr, Class | None]] = {}
        self._targets: dict[int, tuple[ast.Call, list[Target]]] = {}
        self._dotted: dict[int, tuple[ast.expr, str]] = {}
        self._families: dict[int, list[Class]] = {}

    def add(self, module: Module) -> None:
        """Take a module among those whose calls and classes are known."""
        self.modules[module.name] = module
        for scope in module.scopes:
            for site in scope.calls:
                self._calls[last_name(site.node.func)].append(site)
        for cls in module.classes.values():
            self._classes[cls.name].append(cls)
            for base in cls.bases:
                self._subclasses[base.rpartition(".")[2]].append(cls)

    def module(self, name: str) -> Module | None:
        """The module of a full name, read if it is among the files."""
        if name not in self.modules:
            module = self.load(name)
            if module is None:
                return None
            self.add(module)
        return self.modules[name]

    # Names

    def lookup(self, dotted: str, depth: int = 0) -> Scope | Class | list[Binding] | None:
        """What a full dotted name stands for: a function, a class, the bindings of a variable of a module."""
        base, _, name = dotted.rpartition(".")
        if not base or depth > _DEEPEST:
            return None
        module = self.module(base)
        if module is None:
            cls = self.lookup(base, depth + 1)
            return self.method(cls, name) if isinstance(cls, Class) else None
        found = self.in_module(module, name)
        if found is None and name in module.imports:
            return self.lookup(module.imports[name], depth + 1)
        return found

    def in_module(self, module: Module, name: str) -> Scope | Class | list[Binding] | None:
        """What a name stands for at the top of a module."""
        return module.top.functions.get(name) or module.classes.get(name) or module.top.bindings.get(name)

    def resolve(self, name: str, scope: Scope) -> Scope | Class | list[Binding] | None:
        """What a name that is no variable of a function stands for there."""
        around: Scope | None = scope
        while around is not None:
            if name in around.functions:
                return around.functions[name]
            around = around.parent
        found = self.in_module(scope.module, name)
        if found is None and name in scope.module.imports:
            return self.lookup(scope.module.imports[name])
        return found

    def dotted(self, node: ast.expr, scope: Scope, place: Place, depth: int = 0) -> str:
        """The full name of an expression as far as it is known: `anthropic.Anthropic().messages.create`.

        A variable is what it was assigned; a parameter keeps its name; what is neither is `?`.
        """
        if depth:
            return self._find_name(node, scope, place, depth)
        known = self._dotted.get(id(node))
        if known is None:
            known = self._dotted[id(node)] = node, self._find_name(node, scope, place, depth)
        return known[1]

    def _find_name(self, node: ast.expr, scope: Scope, place: Place, depth: int) -> str:
        match node:
            case ast.Attribute():
                if depth <= _DEEPEST and isinstance(node.value, ast.Name) and node.value.id == scope.receiver:
                    made = self.made(node, scope, place, depth)
                    return made or f"self.{node.attr}"
                return f"{self.dotted(node.value, scope, place, depth)}.{node.attr}"
            case ast.Call():
                return f"{self.dotted(node.func, scope, place, depth)}()"
            case ast.Await() | ast.Starred() | ast.NamedExpr():
                return self.dotted(node.value, scope, place, depth)
            case ast.Name():
                if node.id in scope.bindings and not scope.is_module:
                    return (self.made(node, scope, place, depth) if depth <= _DEEPEST else "") or node.id
                imported = scope.module.imports.get(node.id)
                if imported is not None:
                    return imported
                return (self.made(node, scope, place, depth) if depth <= _DEEPEST else "") or node.id
            case _:
                return "?"

    def made(self, node: ast.expr, scope: Scope, place: Place, depth: int) -> str:
        """The full name of the call or name that a variable or attribute was assigned; empty where that is not one."""
        for one in self.bindings_of(node, scope, place):
            if (
                one.kind == "set"
                and not one.path
                and isinstance(one.value, ast.Call | ast.Attribute | ast.Name | ast.Await)
            ):
                return self.dotted(one.value, one.scope, one.place, depth + 1)
        return ""

    def bindings_of(self, node: ast.expr, scope: Scope, place: Place) -> list[Binding]:
        """The bindings of a variable, or of an attribute of the method's own object."""
        if isinstance(node, ast.Name):
            around: Scope | None = scope
            while around is not None:
                if node.id in around.bindings:
                    return around.reaching(node.id, place) if around is scope else around.bindings[node.id]
                around = around.parent
            found = self.resolve(node.id, scope)
            return found if isinstance(found, list) else []
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            cls = self.class_of(node.value, scope, place)
            if cls is not None:
                return [one for member in self.family(cls) for one in member.attributes.get(node.attr, ())]
        return []

    # Classes

    def class_of(self, node: ast.expr, scope: Scope, place: Place) -> Class | None:
        """The class of the object that an expression is, None where that is not known."""
        known = self._class_of.get(id(node))
        if known is None:
            self._class_of[id(node)] = (
                node,
                None,
            )  # while it is looked for: values that are made of one another end here
            known = self._class_of[id(node)] = node, self._find_class(node, scope, place)
        return known[1]

    def _find_class(self, node: ast.expr, scope: Scope, place: Place) -> Class | None:
        if isinstance(node, ast.Call):
            found = self.named(node.func, scope)
            if isinstance(found, Class):
                return found
            if isinstance(node.func, ast.Name) and node.func.id == "super" and scope.cls is not None:
                return scope.cls
            return None
        if isinstance(node, ast.Name):
            around: Scope | None = scope
            while around is not None:
                if around.receiver == node.id:
                    return around.cls
                around = around.parent
            found = self.resolve(node.id, scope) if node.id not in scope.bindings else None
            if isinstance(found, Class):
                return found
        for one in self.bindings_of(node, scope, place):
            if one.kind == "param" and isinstance(one.node, ast.arg):
                found = self.resolve(one.scope.annotation(one.node.arg), one.scope)
                if isinstance(found, Class):
                    return found
            elif one.kind == "set" and not one.path and one.value is not None:
                cls = self.class_of(one.value, one.scope, one.place)
                if cls is not None:
                    return cls
        return None

    def named(self, node: ast.expr, scope: Scope) -> Scope | Class | list[Binding] | None:
        """What a dotted name that begins with a name of the module or an import stands for."""
        if isinstance(node, ast.Name):
            return self.resolve(node.id, scope)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            if isinstance(node.value, ast.Name) and node.value.id in scope.module.imports:
                return self.lookup(f"{scope.module.imports[node.value.id]}.{node.attr}")
            outer = self.named(node.value, scope)
            return self.method(outer, node.attr) if isinstance(outer, Class) else None
        return None

    def bases(self, cls: Class) -> Iterator[Class]:
        """The bases of a class among the files."""
        for name in cls.bases:
            found = self.lookup(name) if "." in name else self.in_module(cls.module, name)
            if isinstance(found, Class) and found is not cls:
                yield found

    def family(self, cls: Class) -> list[Class]:
        """A class, its bases, and the classes that are based on it, nearest first."""
        known = self._families.get(id(cls))
        if known is not None:
            return known
        found = [cls]
        for one in found:
            found += [base for base in self.bases(one) if base not in found]
            if len(found) > _MOST_CALLERS:
                break
        found += [one for one in self._subclasses.get(cls.name, ()) if one not in found and cls in self.bases(one)]
        return self._families.setdefault(id(cls), found[:_MOST_CALLERS])

    def method(self, cls: Class, name: str) -> Scope | None:
        """The method of a class or of its bases, None without."""
        return next((one.methods[name] for one in self.family(cls) if name in one.methods), None)

    # Calls

    def applied(self, call: ast.Call, scope: Scope, place: Place) -> ast.Call:
        """The call that `send = partial(client.messages.create, …)` makes of `send(…)`; any other call as it is."""
        if not isinstance(call.func, ast.Name | ast.Attribute):
            return call
        for one in self.bindings_of(call.func, scope, place):
            made = one.value
            if one.kind == "set" and isinstance(made, ast.Call) and last_name(made.func) == "partial" and made.args:
                arguments, keywords = [*made.args[1:], *call.args], [*made.keywords, *call.keywords]
                return ast.copy_location(ast.Call(made.args[0], arguments, keywords), call)
        return call

    def targets(self, call: ast.Call, scope: Scope, place: Place) -> list[Target]:
        """The functions of the linted files that a call may run."""
        known = self._targets.get(id(call))
        if known is None:
            known = self._targets[id(call)] = call, self._find_targets(call, scope, place)
        return known[1]

    def _find_targets(self, call: ast.Call, scope: Scope, place: Place) -> list[Target]:
        function = call.func
        found = (
            None if isinstance(function, ast.Name) and function.id in scope.bindings else self.named(function, scope)
        )
        if isinstance(found, Scope):
            is_method = found.cls is not None and isinstance(function, ast.Attribute)
            return [Target(found, function.value if is_method and isinstance(function, ast.Attribute) else None)]
        if isinstance(found, Class):
            made = self.method(found, "__init__")
            return [Target(made, None, found)] if made is not None else []
        if isinstance(function, ast.Attribute):
            cls = self.class_of(function.value, scope, place)
            if cls is not None:
                own = [one.methods[function.attr] for one in self.family(cls) if function.attr in one.methods]
                return [Target(one, function.value) for one in own[:4]]
        return []

    def callers(self, scope: Scope) -> list[tuple[CallSite, Target]]:
        """The calls of a function, among the modules that were read."""
        found: list[tuple[CallSite, Target]] = []
        name = scope.cls.name if scope.cls is not None and scope.name == "__init__" else scope.name
        for site in self._calls.get(name, ())[: 4 * _MOST_CALLERS]:
            if site.scope is scope:
                continue
            for target in self.targets(site.node, site.scope, site.place):
                if target.scope is scope:
                    found.append((site, target))
                    break
            if len(found) >= _MOST_CALLERS:
                break
        return found

    def has_other_callers(self, scope: Scope) -> bool:
        """Whether calls of the function's name are in view whose object is not known."""
        sites = self._calls.get(scope.name, ())[: 4 * _MOST_CALLERS]
        return any(not self.targets(site.node, site.scope, site.place) for site in sites)
