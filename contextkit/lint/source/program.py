"""Finds what a name or a call stands for: in its function, module and class, in base classes by name, one import away.

Every answer is best effort: what leads out of the files that are linted resolves to nothing.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import TypeAlias

from contextkit.lint.source.scopes import At, Binding, CallSite, Class, Module, Scope, Target, last_name

_MOST = 12
"""Bases and subclasses of one class that are looked at."""
_MOST_CALLERS = 60
_PROGRAM = 5
"""Files of a package from which on what nobody calls is taken for dead; fewer may be a part of a program."""
_DEEPEST = 4
"""Names that lead to one another: re-exports, variables that hold variables."""
Named: TypeAlias = "Scope | Class | list[Binding] | None"
"""What a name stands for: a function, a class, the bindings of a variable of a module."""


class Program:
    """The files that are linted together, each read when something asks for it."""

    def __init__(self, load: Callable[[str], Module | None]) -> None:
        self.load = load
        """Gives the module of a full name, None for one that is not among the files."""
        self.modules: dict[str, Module | None] = {}
        """Those that were asked for, by full name."""
        self.changed: set[str] = set()
        """Attributes that are set on other objects than the method's own."""
        self.texts: list[bytes] = []
        """Of all files."""
        self.sizes: Counter[str] = Counter()
        """Top of a package → number of its files."""
        self.breakpoint_words: dict[str, set[str]] = defaultdict(set)
        """Top of a package → words of breakpoints that stand in its files."""
        self._used: dict[str, bool] = {}
        self._callers: dict[int, tuple[list[tuple[CallSite, Target]], bool]] = {}
        self._calls: dict[str, list[CallSite]] = defaultdict(list)
        self._subclasses: dict[str, list[Class]] = defaultdict(list)
        self._classes: dict[int, tuple[ast.expr, Class | None]] = {}
        self._targets: dict[int, tuple[ast.Call, list[Target]]] = {}
        self._names: dict[int, tuple[ast.expr, str]] = {}
        self._families: dict[int, list[Class]] = {}

    def module(self, name: str) -> Module | None:
        """Return the module of a full name, read if it is among the files."""
        if name not in self.modules:
            self.modules[name] = None  # while it is read: modules that import one another
            module = self.load(name)
            self.modules[name] = module if module is None else self.add(module)
        return self.modules[name]

    def add(self, module: Module) -> Module:
        """Take the calls and classes of a module that was read."""
        self._callers.clear()
        for scope in module.scopes:
            for site in scope.calls:
                self._calls[last_name(site.node.func)].append(site)
            self.changed |= {
                name.partition(".")[2] for name in scope.bindings if not name.startswith(f"{scope.receiver}.")
            }
        for cls in module.classes.values():
            for base in cls.bases:
                self._subclasses[base.rpartition(".")[2]].append(cls)
        return module

    # Names

    def lookup(self, dotted: str, depth: int = 0) -> Named:
        """Return what a full dotted name stands for."""
        base, _, name = dotted.rpartition(".")
        if not base or depth > _DEEPEST:
            return None
        module = self.module(base)
        if module is None:
            cls = self.lookup(base, depth + 1)
            return self.method(cls, name) if isinstance(cls, Class) else None
        return self.in_module(module, name, depth)

    def in_module(self, module: Module, name: str, depth: int = 0) -> Named:
        """Return what a name stands for at the top of a module."""
        found = module.top.functions.get(name) or module.classes.get(name) or module.top.bindings.get(name)
        return self.lookup(module.imports[name], depth + 1) if not found and name in module.imports else found

    def resolve(self, name: str, scope: Scope) -> Named:
        """Return what a name that is no variable of a function stands for there."""
        inner = next((one.functions[name] for one in scope.around() if name in one.functions), None)
        return inner or self.in_module(scope.module, name)

    def named(self, node: ast.expr, scope: Scope) -> Named:
        """Return what a dotted name that begins with a name of the module or an import stands for."""
        if isinstance(node, ast.Name):
            return self.resolve(node.id, scope)
        if not isinstance(node, ast.Attribute):
            return None
        if isinstance(node.value, ast.Name) and node.value.id in scope.module.imports:
            return self.lookup(f"{scope.module.imports[node.value.id]}.{node.attr}")
        outer = self.named(node.value, scope)
        return self.method(outer, node.attr) if isinstance(outer, Class) else None

    def dotted(self, node: ast.expr, at: At, depth: int = 0) -> str:
        """Return the full name of an expression as far as it is known: `anthropic.Anthropic().messages.create`.

        A variable is what it was assigned; a parameter keeps its name; what is neither is `?`.
        """
        if id(node) not in self._names:
            self._names[id(node)] = node, self._name(node, at, depth)
        return self._names[id(node)][1]

    def _name(self, node: ast.expr, at: At, depth: int) -> str:
        match node:
            case ast.Attribute(value=ast.Name(id=name)) if name == at.scope.receiver:
                return self._assigned(node, at, depth) or f"self.{node.attr}"
            case ast.Attribute():
                return f"{self.dotted(node.value, at, depth)}.{node.attr}"
            case ast.Call():
                return f"{self.dotted(node.func, at, depth)}()"
            case ast.Await() | ast.NamedExpr():
                return self.dotted(node.value, at, depth)
            case ast.Name():
                is_own = node.id in at.scope.bindings and not at.scope.is_module
                imported = None if is_own else at.scope.module.imports.get(node.id)
                return imported or self._assigned(node, at, depth) or node.id
        return "?"

    def _assigned(self, node: ast.expr, at: At, depth: int) -> str:
        """Return the full name of the call or name that a variable or attribute was assigned; empty where that is not
        one.
        """
        for one in self.bindings_of(node, at) if depth < _DEEPEST else ():
            if (
                one.kind == "set"
                and not one.path
                and isinstance(one.value, ast.Call | ast.Attribute | ast.Name | ast.Await)
            ):
                return self.dotted(one.value, one.at, depth + 1)
        return ""

    def bindings_of(self, node: ast.expr, at: At) -> list[Binding]:
        """Return the bindings of a variable, or of an attribute of an object whose class is among the files."""
        if isinstance(node, ast.Name):
            changes: list[Binding] = []
            for scope in at.scope.around():
                if node.id in scope.bindings:
                    changes += scope.reaching(node.id, at.place) if scope is at.scope else scope.bindings[node.id]
                    if any(one.kind not in ("add", "item", "take") for one in scope.bindings[node.id]):
                        return changes
            found = self.resolve(node.id, at.scope)
            return changes + [one for one in found if one not in changes] if isinstance(found, list) else changes
        cls = self.class_of(node.value, at) if isinstance(node, ast.Attribute) else None
        if cls is None or not isinstance(node, ast.Attribute):
            return []
        return [one for member in self.family(cls) for one in member.attributes.get(node.attr, ())]

    # Classes

    def class_of(self, node: ast.expr, at: At) -> Class | None:
        """Return the class of the object that an expression is, None where that is not known."""
        if id(node) not in self._classes:
            self._classes[id(node)] = node, None  # while it is looked for: values that are made of one another end here
            self._classes[id(node)] = node, self._class(node, at)
        return self._classes[id(node)][1]

    def _class(self, node: ast.expr, at: At) -> Class | None:
        if isinstance(node, ast.Call):
            found = self.named(node.func, at.scope)
            if isinstance(found, Class) or (isinstance(node.func, ast.Name) and node.func.id == "super"):
                return found if isinstance(found, Class) else at.scope.cls
            made = [(value, inner) for target in self.targets(node, at) for value, inner in target.scope.returns]
            return next(
                (cls for value, inner in made[:_DEEPEST] if (cls := self.class_of(value, inner)) is not None), None
            )
        if isinstance(node, ast.BoolOp):
            return next((cls for value in node.values if (cls := self.class_of(value, at)) is not None), None)
        if isinstance(node, ast.Name):
            for scope in at.scope.around():
                if scope.receiver == node.id:
                    return scope.cls
            found = None if node.id in at.scope.bindings else self.resolve(node.id, at.scope)
            if isinstance(found, Class):
                return found
        found = None
        for one in self.bindings_of(node, at):
            if one.kind == "param" and isinstance(one.node, ast.arg):
                found = self.resolve(one.scope.annotation(one.node.arg), one.scope)
            elif one.kind == "set" and not one.path and one.value is not None:
                found = self.class_of(one.value, one.at)
            if isinstance(found, Class):
                return found
        return None

    def bases(self, cls: Class) -> Iterator[Class]:
        """Yield the bases of a class among the files."""
        for name in cls.bases:
            found = self.lookup(name) if "." in name else self.in_module(cls.module, name)
            if isinstance(found, Class) and found is not cls:
                yield found

    def family(self, cls: Class) -> list[Class]:
        """Return a class, its bases, and the classes that are based on it, nearest first."""
        if id(cls) not in self._families:
            found = [cls]
            for one in found:
                found += [base for base in self.bases(one) if base not in found and len(found) < _MOST]
            found += [one for one in self._subclasses[cls.name] if one not in found and cls in self.bases(one)]
            self._families[id(cls)] = found[:_MOST]
        return self._families[id(cls)]

    def method(self, cls: Class, name: str) -> Scope | None:
        """Return the method of a class or of its bases, None without."""
        return next((one.methods[name] for one in self.family(cls) if name in one.methods), None)

    # Calls

    def targets(self, call: ast.Call, at: At) -> list[Target]:
        """Return the functions of the linted files that a call may run."""
        if id(call) not in self._targets:
            self._targets[id(call)] = call, self._find_targets(call, at)
        return self._targets[id(call)][1]

    def _find_targets(self, call: ast.Call, at: At) -> list[Target]:
        function = call.func
        is_own = isinstance(function, ast.Name) and function.id in at.scope.bindings
        found = None if is_own else self.named(function, at.scope)
        receiver = function.value if isinstance(function, ast.Attribute) else None
        if isinstance(found, Scope):
            return [Target(found, receiver if found.cls is not None else None)]
        if isinstance(found, Class):
            made = self.method(found, "__init__")
            return [Target(made, None, found)] if made is not None else []
        cls = self.class_of(receiver, at) if receiver is not None else None
        methods = [one.methods.get(last_name(function)) for one in (self.family(cls) if cls is not None else ())]
        return [Target(one, receiver) for one in methods if one is not None][:_DEEPEST]

    def callers(self, scope: Scope) -> list[tuple[CallSite, Target]]:
        """Return the calls of a function, among the modules that were read."""
        return self._calls_of(scope)[0]

    def has_other_callers(self, scope: Scope) -> bool:
        """Return whether calls of the function's name are in view whose object is not known."""
        return self._calls_of(scope)[1]

    def _calls_of(self, scope: Scope) -> tuple[list[tuple[CallSite, Target]], bool]:
        if id(scope) not in self._callers:
            is_init = scope.cls is not None and scope.name == "__init__"
            name = scope.cls.name if is_init and scope.cls is not None else scope.name
            found: list[tuple[CallSite, Target]] = []
            has_others = False
            for site in self._calls[name]:
                targets = self.targets(*site)
                found += [(site, one) for one in targets if one.scope is scope and site.at.scope is not scope][:1]
                has_others = has_others or not targets
            self._callers[id(scope)] = found[:_MOST_CALLERS], has_others
        return self._callers[id(scope)]

    def is_used(self, scope: Scope) -> bool:
        """Return whether a function of a package is called or handed on somewhere, or a framework may call it."""
        if (
            self.sizes[scope.module.package.partition(".")[0]] < _PROGRAM
            or scope.is_module
            or scope.name.startswith("__")
            or scope.decorators()
        ):
            return True
        if scope.name not in self._used:
            name = re.escape(scope.name.encode())
            used = re.compile(rb"(?<!def )\b%b\s*\(|\.%b\b|[(=,]\s*%b\s*[,)]" % (name, name, name))
            name = scope.name.encode()
            self._used[scope.name] = any(name in text and used.search(text) is not None for text in self.texts)
        return self._used[scope.name]

    def gives(self, name: str, param: str, depth: int = 0) -> bool:
        """Return whether a call of a function's name is in view that gives a parameter by its keyword, and not None."""
        for site in self._calls[name]:
            for value in (one.value for one in site.node.keywords if one.arg == param):
                is_passed_on = isinstance(value, ast.Name) and value.id in site.at.scope.params
                if is_passed_on and depth < _DEEPEST and self.gives(site.at.scope.name, last_name(value), depth + 1):
                    return True
                if not is_passed_on and not isinstance(value, ast.Constant):
                    return True
        return False
