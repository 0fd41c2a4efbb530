"""Functions and classes: what each is called, which parameters it has, what its name and decorators say of its result.

Takes the walk's state, gives the handlers of definitions; a function's body waits until what stands around it has been
walked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from contextkit.lint.source.rule import Sink
from contextkit.lint.source.summary import CLEAN, Function, Value
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.pieces import keeps_its_result, last_name, made_by
from contextkit.lint.source.tables import sanitizers, sinks, sources
from contextkit.lint.source.view.state import BUILTINS, AnyFunction, Scope
from contextkit.lint.source.watch.watching import Watching

_NONE = frozenset[str]()
_PROPERTIES = frozenset({"property", "cached_property", "computed_field", "hybrid_property"})
_NAMES = frozenset({ast.Name, ast.Attribute})


class Definitions(Watching):
    """The handlers of definitions."""

    __slots__ = ("waiting",)

    waiting: list[tuple[AnyFunction, Scope, str, tuple[ast.AST, ...]]]
    """Functions whose bodies are still to be walked: each with the scope, the class and the loops around it."""

    body: Callable[[Sequence[ast.stmt]], None]
    """Walks statements."""

    def define(self, node: AnyFunction) -> Value:
        """A function: its body waits until what stands around it has been walked."""
        if node.decorator_list:  # they stand above its first line
            self.table = self.watched
        for default in (*node.args.defaults, *filter(None, node.args.kw_defaults), *node.decorator_list):
            self.table[type(default)](default)
        scope = self.scope
        if scope.node is not None:
            inner = f"{scope.function.name}.{node.name}"
            scope.types[node.name] = inner
            scope.env.pop(node.name, None)
        self.waiting.append((node, scope, scope.owner if scope.node is None else "", tuple(self.loops)))
        return CLEAN

    def define_class(self, node: ast.ClassDef) -> Value:
        """A class: its body is walked at once, its methods wait."""
        outer = self.scope
        owner = f"{outer.owner}.{node.name}" if outer.owner else node.name
        self.module.classes[owner] = tuple(filter(None, map(self.dotted, node.bases)))
        if outer.node is not None:
            outer.types[node.name] = f"{self.module.name}.{owner}"
        self.scope = Scope(outer.function, None, dict(outer.env), dict(outer.types), owner)
        function, self.scope.function = outer.function, Function(f"{self.module.name}.{owner}.<body>", is_once=True)
        self.module.functions.setdefault(owner + ".<body>", self.scope.function)
        self.body(node.body)
        self.scope, outer.function = outer, function
        return CLEAN

    def function_body(self, node: AnyFunction, outer: Scope, owner: str, loops: tuple[ast.AST, ...]) -> None:
        """The body of a function."""
        inner = (
            outer.function.name
            if outer.node is not None
            else f"{self.module.name}.{owner}"
            if owner
            else self.module.name
        )
        is_kept = keeps_its_result(node)
        is_once = (
            is_kept
            or node.name in sanitizers.ONCE
            or (bool(node.decorator_list) and any(map(_is_asked_once, node.decorator_list)))
        )
        function = Function(f"{inner}.{node.name}", is_once=is_once)
        if outer.node is not None:
            scope = Scope(function, node, dict(outer.env), dict(outer.types), outer.owner, outer.myself)
        else:
            scope = Scope(function, node, {}, {}, owner)
        self.scope, self.loops, self.branches = scope, [], []
        self.settled, self.fresh, self.begun, self.orders, self.statement, self.probed = CLEAN, {}, set(), [], node, {}
        self.choices, self.tool_loops, self.stored, self.fields = [], 0, {}, {}
        decorators = _decorators(node) if node.decorator_list else _NONE
        self._parameters(node, decorators, is_method=bool(owner) and outer.node is None)
        function.is_property = bool(decorators) and not decorators.isdisjoint(_PROPERTIES)
        function.is_frozen = (
            is_kept or not decorators.isdisjoint(sanitizers.FREEZING_DECORATORS) or node.lineno in self.frozen_lines
        )
        self.returns_name, self.returns_to = node.name, self._returns_to(node, owner, decorators)
        said = [part.names for part in node.body if type(part) is ast.Global]
        self.global_names = frozenset(name for names in said for name in names) if said else frozenset()
        self.module.functions[function.name.removeprefix(f"{self.module.name}.")] = function
        self.body(node.body)
        if self.settled and function.arrivals:
            function.arrivals = [one for one in function.arrivals if not (one.is_named and one.value <= self.settled)]
        if any(one.sink in sinks.IN_FRONT for one in function.arrivals):
            function.is_per_request = self._is_per_request(node, decorators)
        asking = self.wanted.get(type(node))
        if asking:
            self.statement, self.returns_to, self.probed = node, None, {}
            self.show_to(node, asking)

    def _is_per_request(self, node: AnyFunction, decorators: frozenset[str]) -> bool:
        if decorators & sinks.PROMPT_DECORATORS:
            return True
        if sinks.SELDOM.search(node.name):
            return False
        names = {part.id for part in self.nodes(node, ast.Name)} | {
            part.attr for part in self.nodes(node, ast.Attribute)
        }
        return any(map(sinks.RUNNING.search, names | self.scope.function.named))

    def _returns_to(self, node: AnyFunction, owner: str, decorators: frozenset[str]) -> Sink | None:
        sink = made_by(node.name)
        if sink == "system" or decorators & sinks.PROMPT_DECORATORS:
            return "system"
        return sinks.TOOL_PROPERTIES.get(node.name) if owner and owner.endswith(("Tool", "Toolkit")) else sink

    def _parameters(self, node: AnyFunction, decorators: frozenset[str], *, is_method: bool) -> None:
        arguments = node.args
        given = arguments.posonlyargs + arguments.args
        if is_method and given and "staticmethod" not in decorators:
            self.scope.myself = given.pop(0).arg
        named = given + arguments.kwonlyargs
        self.annotations = {part.arg: part.annotation for part in named if part.annotation is not None}
        function, extra = self.scope.function, arguments.kwarg
        function.parameters = tuple([argument.arg for argument in given])
        function.named = frozenset([argument.arg for argument in named])
        function.extra = extra.arg if extra else ""
        function.rest = arguments.vararg.arg if arguments.vararg else ""
        for argument in (*named, arguments.vararg, extra):
            if argument is not None:
                self._parameter(argument)
        if arguments.defaults or arguments.kw_defaults:
            self._defaults(given, arguments)

    def _defaults(self, given: list[ast.arg], arguments: ast.arguments) -> None:
        """`client=Anthropic`: a parameter is of the class it is made of where nobody gives one."""
        defaults = zip(reversed(given), reversed(arguments.defaults), strict=False)
        for argument, default in (*defaults, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)):
            if type(default) in _NAMES and (made := self.dotted(default)):  # type: ignore[arg-type]
                self.scope.types.setdefault(argument.arg, made)

    def _parameter(self, argument: ast.arg) -> None:
        name = argument.arg
        value = self.parameter(name)
        kind = sources.PARAMETERS.get(name)
        if kind is not None:
            value |= self.varies(kind, argument)
        self.scope.env[name] = value
        self.scope.types.pop(name, None)
        note = argument.annotation
        made = self.dotted(note) if note is not None and type(note) in _NAMES else ""
        if made and made not in BUILTINS and made[0] != "?":
            self.scope.types[name] = made


def _is_asked_once(decorator: ast.expr) -> bool:
    """`@agent.system_prompt` of pydantic-ai is run where a conversation begins.

    With `dynamic=True` before each request.
    """
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    is_dynamic = any(keyword.arg == "dynamic" and getattr(keyword.value, "value", True) for keyword in keywords)
    return isinstance(func, ast.Attribute) and func.attr == "system_prompt" and not is_dynamic


def _decorators(node: AnyFunction) -> frozenset[str]:
    return frozenset(last_name(part.func if isinstance(part, ast.Call) else part) for part in node.decorator_list)
