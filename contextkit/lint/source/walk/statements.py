"""The one walk over a file: statements, branches, loops, functions; patterns are asked on the way.

Takes a parsed file, gives its `Module` and what patterns found in it; knows nothing of other files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from contextkit.lint.finding import CodePlace, Finding
from contextkit.lint.source.rule import Hit, Kind, Pattern, Sink
from contextkit.lint.source.summary import CLEAN, MODULE_BODY, Function, Module, Value
from contextkit.lint.source.tables import sanitizers, sinks, sources
from contextkit.lint.source.walk.assignments import Assignments
from contextkit.lint.source.walk.displays import Handler
from contextkit.lint.source.walk.pieces import keeps_its_result, last_name, walk
from contextkit.lint.source.walk.view import BUILTINS, AnyFunction, Scope
from contextkit.lint.source.words import Words, longest_name

CodedPattern = tuple[str, Pattern]
"""A hazard's code and one of its patterns."""
_FROZEN = re.compile(rb"#\s*contextkit:\s*frozen\b")
_NOQA = re.compile(rb"#\s*noqa(?!\w)(?::\s*([A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FUNCTIONS = frozenset({ast.FunctionDef, ast.AsyncFunctionDef})
_AFTER = (ast.For, ast.AsyncFor, ast.While, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.ClassDef)
"""Statements a pattern is shown when the walk has been through them; others are shown before."""
Env = dict[str, Value]
_Group = tuple[bytes, ...]
_Wanted = tuple[str, Callable[[Any, Any], Iterable[Hit]], tuple[_Group, ...]]
"""A hazard's code, how it is looked for, and groups of words: one of each stands in the node."""
_Standing = tuple[str, Pattern, tuple[_Group, ...]]
"""A hazard's code, one of its patterns that may match in a file, and the groups of words of which one stands in the node."""
_Watch = tuple[dict[type, Handler], dict[type, list[_Wanted]], frozenset[type]]
"""Handlers with the patterns of some part of a file around them, those patterns by type of node, and those types."""


class Walk(Assignments):
    """One walk after the other, for all files of a worker."""

    def __init__(
        self,
        patterns: Iterable[CodedPattern],
        calls: dict[str, Kind],
        mends: dict[str, frozenset[Kind]],
        met: dict[str, sinks.Arguments],
        names: dict[str, Sink],
    ) -> None:
        self.patterns = [(code, pattern, _groups(pattern)) for code, pattern in patterns]
        self.matching: tuple[bytes, list[_Standing]] = b"", []
        self.words = Words({part for _, _, groups in self.patterns for parts, _ in groups for part in parts})
        self.call_sources, self.method_sources = {**sources.CALLS, **calls}, sources.METHODS
        self.sanitizing, self.call_sinks, self.named_sinks = {**sanitizers.CALLS, **mends}, met, {**sinks.NAMES, **names}
        self.known_calls = {}
        self.plain: dict[type, Handler] = {**self.handlers(), **self.statements(), ast.Call: self.call}

    known_roots: frozenset[str] = frozenset()
    """The packages of the tree that is linted."""

    def statements(self) -> dict[type, Callable[[Any], Any]]:
        """Statement type → handler."""
        table: dict[type, Callable[[Any], Any]] = {
            ast.Expr: self.inner, ast.Assign: self.assign, ast.AnnAssign: self.annotated, ast.AugAssign: self.augmented,
            ast.Return: self.returning, ast.If: self.branch, ast.For: self.loop_over, ast.AsyncFor: self.loop_over,
            ast.While: self.loop_while, ast.With: self.with_block, ast.AsyncWith: self.with_block, ast.Try: self.attempt,
            ast.FunctionDef: self.define, ast.AsyncFunctionDef: self.define, ast.ClassDef: self.define_class,
            ast.Import: self.import_names, ast.ImportFrom: self.import_from, ast.Match: self.match,
            ast.Raise: self.any_children, ast.Assert: self.any_children, ast.Delete: self.any_children,
            ast.Global: self.nothing, ast.Nonlocal: self.nothing, ast.Pass: self.nothing, ast.Break: self.nothing,
            ast.Continue: self.nothing,
        }  # fmt: skip
        if hasattr(ast, "TryStar"):
            table[ast.TryStar] = self.attempt
        if hasattr(ast, "TypeAlias"):
            table[ast.TypeAlias] = self.nothing
        for name, handler in (("TemplateStr", self.joined), ("Interpolation", self.formatted)):
            if hasattr(ast, name):
                table[getattr(ast, name)] = handler
        return table

    def read(self, module: Module, source: bytes, tree: ast.Module, roots: frozenset[str], package: str) -> None:
        """Walks a file; what it says stands in `module` afterwards."""
        self.open(module, source, tree, roots)
        if roots is not self.known_roots:
            self.known_calls, self.known_roots = {}, roots
        self.package = package
        self.waiting: list[tuple[AnyFunction, Scope, str, tuple[ast.AST, ...]]] = []
        self.growing, self.settled, self.fresh, self.begun, self.mid_conversation = {}, CLEAN, {}, set(), False
        self.branches, self.orders, self.annotations = 0, [], {}
        self.may_mark, self.choices, self.tool_loops = b"cache_control" in source, [], 0
        self._comments()
        self._watch()
        self._names_of(tree.body)
        module.functions[MODULE_BODY] = self.scope.function
        self.body(tree.body)
        if ast.Module in self.watched_types:
            self.show(tree)
        while self.waiting:
            self._function(*self.waiting.pop(0))

    def may_match(self, source: bytes) -> list[_Standing]:
        """The patterns whose words stand in a file, and of their words those that do."""
        if self.matching[0] is not source:
            standing, found = self.words.standing_in(source), list[_Standing]()
            for code, pattern, groups in self.patterns:
                for parts, _ in groups:
                    if parts.isdisjoint(standing):
                        break
                else:
                    near = tuple(tuple(word for word, part in words.items() if part in standing) for _, words in groups)
                    if pattern.is_near or not pattern.words:
                        found.append((code, pattern, near))
                    elif any(word in source for word in near[0]):
                        found.append((code, pattern, near[1:]))
            self.matching = source, found
        return self.matching[1]

    def _comments(self) -> None:
        lines = self.source.splitlines() if b"frozen" in self.source or b"noqa" in self.source or b"NOQA" in self.source else []
        self.frozen_lines = frozenset(at for at, line in enumerate(lines, 1) if b"frozen" in line and _FROZEN.search(line))
        for at, line in enumerate(lines, 1):
            found = _NOQA.search(line) if b"#" in line else None
            if found:
                self.module.silenced[at] = frozenset(re.split(r"[\s,]+", (found[1] or b"").decode().upper().strip())) - {""}

    # Patterns -------------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Puts the patterns this file may match around the handlers of their node types."""
        wanted: dict[type, list[_Wanted]] = {}
        for code, pattern, near in self.may_match(self.source):
            for kind in pattern.nodes:
                wanted.setdefault(kind, []).append((code, pattern.find, near))
        self.groups = [*dict.fromkeys(group for rows in wanted.values() for _, _, groups in rows for group in groups)]
        self.places = {group: 1 << place for place, group in enumerate(self.groups)}
        self.watches: dict[int, _Watch] = {}
        self.everything = wanted
        self._look_for(wanted)

    def _look_for(self, wanted: dict[type, list[_Wanted]]) -> _Watch:
        """Puts patterns around the handlers of their node types."""
        table = dict(self.plain)
        for kind, rows in wanted.items():
            plain = self.plain.get(kind)
            if plain is not None and kind not in _FUNCTIONS:
                is_before = issubclass(kind, ast.stmt) and kind not in _AFTER
                table[kind] = (self._shown_before if is_before else self._shown_after)(plain, rows)
        self.table, self.wanted, self.watched_types = found = table, wanted, frozenset(wanted)
        return found

    def _look_inside(self, node: AnyFunction) -> None:
        """Only patterns whose words stand in a function are asked about its nodes."""
        start, end = self.bytes_at(node)
        find_word, standing, bit = self.source.find, 0, 1
        for group in self.groups:
            for word in group:
                if find_word(word, start, end) >= 0:
                    standing |= bit
                    break
            bit <<= 1
        known = self.watches.get(standing)
        if known is not None:
            self.table, self.wanted, self.watched_types = known
            return
        wanted: dict[type, list[_Wanted]] = {}
        for kind, rows in self.everything.items():
            near = [row for row in rows if all(self.places[group] & standing for group in row[2])]
            if near:
                wanted[kind] = near
        self.watches[standing] = self._look_for(wanted)

    def _shown_before(self, plain: Handler, rows: list[_Wanted]) -> Handler:
        def handler(node: Any) -> Value:
            if not self.probing:
                self._show(node, rows)
            return plain(node)

        return handler

    def _shown_after(self, plain: Handler, rows: list[_Wanted]) -> Handler:
        def handler(node: Any) -> Value:
            value = plain(node)
            if not self.probing:
                self._show(node, rows)
            return value

        return handler

    def show(self, node: ast.AST) -> None:
        """Shows a node to the patterns that ask for its type."""
        rows = self.wanted.get(type(node))
        if rows and not self.probing:
            self._show(node, rows)

    def _show(self, node: ast.AST, rows: list[_Wanted]) -> None:
        if self.frozen_lines and self.statement_is_frozen():
            return
        self._asked = node
        start, end, find_word = -1, -1, self.source.find
        for code, find, groups in rows:
            if groups and end < 0:
                start, end = self.bytes_at(node)
            for group in groups:
                for word in group:
                    if find_word(word, start, end) >= 0:
                        break
                else:
                    break
            else:
                for hit in find(node, self) or ():
                    self._note(code, hit)

    def _note(self, code: str, hit: Hit) -> None:
        site = self.site(hit.node)
        place = CodePlace(self.module.path, *site[:4])
        self.module.findings.append(Finding(code, hit.message, place, "source", (site.place(self.module.path),), hit.fix))

    # Names ----------------------------------------------------------------------------------------------------------------

    def _names_of(self, body: Sequence[ast.stmt]) -> None:
        """Functions, classes and imports of a module, so that what stands above them finds them."""
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.names[node.name] = f"{self.module.name}.{node.name}"
            elif isinstance(node, ast.Import):
                self.import_names(node)
            elif isinstance(node, ast.ImportFrom):
                self.import_from(node)

    def import_names(self, node: ast.Import) -> Value:
        """`import a.b as c`."""
        for alias in node.names:
            self.names[alias.asname or alias.name.partition(".")[0]] = alias.name if alias.asname else alias.name.partition(".")[0]
        return CLEAN

    def import_from(self, node: ast.ImportFrom) -> Value:
        """`from .a import b as c`."""
        head = node.module or ""
        if node.level:
            parents = self.package.split(".")
            above = parents[: len(parents) - node.level + 1]
            head = ".".join((*above, *filter(None, (node.module,))))
        for alias in node.names:
            self.names[alias.asname or alias.name] = f"{head}.{alias.name}"
        return CLEAN

    # Blocks ---------------------------------------------------------------------------------------------------------------

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Statement after statement."""
        table = self.table
        for statement in statements:
            self.statement = statement
            table[type(statement)](statement)

    def branch(self, node: ast.If) -> Value:
        """Both ways; a way that leaves the function or the loop does not come back."""
        self.table[type(node.test)](node.test)
        before, tested = self.scope.env, self.tested
        if self.branches or _may_choose(node):
            self.tested = tested | {part.id for part in walk(node.test) if isinstance(part, ast.Name)}
        self.branches += 1
        n_choices = len(self.choices)
        if self.tool_loops:
            self.choices.append(self.filtered(self.looked_at(node.test), sanitizers.ORDER))
        ends = [self._way(node.body, before), self._way(node.orelse, before)]
        if not isinstance(node.body[-1], ast.Continue):  # what stands behind one is chosen, too
            del self.choices[n_choices:]
        self.branches -= 1
        self.tested = tested
        self.scope.env = _merged([env for env in ends if env is not None] or [before])
        return CLEAN

    def _way(self, statements: Sequence[ast.stmt], env: Env) -> Env | None:
        if not statements:
            return env
        self.scope.env = dict(env)
        self.body(statements)
        return None if isinstance(statements[-1], _LEAVES) else self.scope.env

    def loop_over(self, node: ast.For) -> Value:
        """`for x in xs`."""
        value = self.iterated(node.iter)
        before = dict(self.scope.env)
        self.bind(node.target, value)
        self.orders.append(frozenset(number for number in value if self._is_order(number)))
        is_of_tools, n_choices = self.is_of_tools(node.iter), len(self.choices)
        self.tool_loops += is_of_tools
        self._loop(node, before)
        self.tool_loops -= is_of_tools
        del self.choices[n_choices:]
        self.orders.pop()
        return CLEAN

    def loop_while(self, node: ast.While) -> Value:
        """`while test`."""
        self.table[type(node.test)](node.test)
        return self._loop(node, dict(self.scope.env))

    def _loop(self, node: Any, before: Env) -> Value:
        self.loops.append(node)
        self.body(node.body)
        self.loops.pop()
        self.body(node.orelse)
        self.scope.env = _merged([self.scope.env, before])
        return CLEAN

    def with_block(self, node: ast.With) -> Value:
        """`with a as b`."""
        for item in node.items:
            value = self.table[type(item.context_expr)](item.context_expr)
            if item.optional_vars is not None:
                self.store(item.optional_vars, value, item.context_expr)
        self.body(node.body)
        return CLEAN

    def attempt(self, node: ast.Try) -> Value:
        """`try`: a handler sees what stood before or what the body stored."""
        before = self.scope.env
        self.scope.env = dict(before)
        self.body(node.body)
        self.body(node.orelse)
        ends: list[Env | None] = [None if node.body and isinstance(node.body[-1], _LEAVES) else self.scope.env]
        seen = _merged([before, self.scope.env])
        for handler in node.handlers:
            if ast.ExceptHandler in self.watched_types:
                self.statement = handler
                self.show(handler)
            ends.append(self._way(handler.body, seen))
        self.scope.env = _merged([env for env in ends if env is not None] or [seen])
        self.body(node.finalbody)
        return CLEAN

    def match(self, node: ast.Match) -> Value:
        """`match`: what a pattern binds is a part of the subject."""
        subject = self.table[type(node.subject)](node.subject)
        before, ends = self.scope.env, []
        for case in node.cases:
            env = {**before, **{name: subject for part in walk(case.pattern) if (name := getattr(part, "name", None))}}
            ends.append(self._way(case.body, env))
        self.scope.env = _merged([before, *(env for env in ends if env is not None)])
        return CLEAN

    # Definitions ----------------------------------------------------------------------------------------------------------

    def define(self, node: AnyFunction) -> Value:
        """A function: its body waits until what stands around it has been walked."""
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

    def _function(self, node: AnyFunction, outer: Scope, owner: str, loops: tuple[ast.AST, ...]) -> None:
        """The body of a function."""
        inner = outer.function.name if outer.node is not None else f"{self.module.name}.{owner}" if owner else self.module.name
        is_kept = keeps_its_result(node)
        is_once = is_kept or node.name in sanitizers.ONCE or any(map(_is_asked_once, node.decorator_list))
        function = Function(f"{inner}.{node.name}", is_once=is_once)
        scope = Scope(function, node, dict(outer.env), dict(outer.types), owner)
        if outer.node is not None:
            scope.owner, scope.myself = outer.owner, outer.myself
        else:
            scope.env, scope.types = {}, {}
        self.scope, self.loops, self.branches, self.tested = scope, [], 0, frozenset()
        self._look_inside(node)
        self.settled, self.fresh, self.begun, self.orders, self.statement = CLEAN, {}, set(), [], node
        self.choices, self.tool_loops, self.stored = [], 0, {}
        self._parameters(node, is_method=bool(owner) and outer.node is None)
        decorators = {last_name(part.func if isinstance(part, ast.Call) else part) for part in node.decorator_list}
        function.is_property = bool(decorators & {"property", "cached_property", "computed_field", "hybrid_property"})
        function.is_frozen = is_kept or bool(decorators & sanitizers.FREEZING_DECORATORS) or node.lineno in self.frozen_lines
        self.returns_name, self.returns_to = node.name, self._returns_to(node, owner, decorators)
        self.global_names = frozenset(name for part in node.body if isinstance(part, ast.Global) for name in part.names)
        self.module.functions[function.name.removeprefix(f"{self.module.name}.")] = function
        self.body(node.body)
        function.arrivals = [arrival for arrival in function.arrivals if not (arrival.is_named and self._is_settled_here(arrival.value))]
        rows = self.wanted.get(type(node))
        if rows:
            self.statement, self.returns_to = node, None
            self._show(node, rows)

    def _is_settled_here(self, value: Value) -> bool:
        return bool(self.settled) and value <= self.settled

    def _returns_to(self, node: AnyFunction, owner: str, decorators: set[str]) -> Sink | None:
        name = node.name
        if sinks.PROMPT_FUNCTION.match(name) or decorators & sinks.PROMPT_DECORATORS:
            return "system"
        if owner and owner.endswith(("Tool", "Toolkit")):
            return sinks.TOOL_PROPERTIES.get(name)
        return "tools" if sinks.TOOLS_FUNCTION.match(name) else None

    def _parameters(self, node: AnyFunction, *, is_method: bool) -> None:
        arguments = node.args
        given = [*arguments.posonlyargs, *arguments.args]
        is_bound = is_method and bool(given) and not any(last_name(part) == "staticmethod" for part in node.decorator_list)
        if is_bound:
            self.scope.myself = given.pop(0).arg
        named = [*given, *arguments.kwonlyargs]
        self.annotations = {part.arg: part.annotation for part in named if part.annotation is not None}
        every = [*named, *filter(None, (arguments.vararg, arguments.kwarg))]
        function = self.scope.function
        function.parameters, function.named = tuple(argument.arg for argument in given), frozenset(argument.arg for argument in named)
        function.extra = arguments.kwarg.arg if arguments.kwarg else ""
        for argument in every:
            self._parameter(argument)
        defaults = zip(reversed([*given]), reversed(arguments.defaults), strict=False)
        for argument, default in (*defaults, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)):
            if isinstance(default, ast.Name | ast.Attribute) and (made := self.dotted(default)):
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
        made = self.dotted(note) if isinstance(note, ast.Name | ast.Attribute) else ""
        if made and made not in BUILTINS and made[0] != "?":
            self.scope.types[name] = made


def _groups(pattern: Pattern) -> tuple[tuple[frozenset[bytes], dict[bytes, bytes]], ...]:
    """The groups of a pattern's words, those first that may stand anywhere in its file."""
    encoded = ([word.encode() for word in words] for words in (pattern.words, *pattern.also) if words)
    named = [{word: longest_name(word) for word in words} for words in encoded]
    return tuple((frozenset(names.values()), names) for names in named)


def _is_asked_once(decorator: ast.expr) -> bool:
    """`@agent.system_prompt` of pydantic-ai is run where a conversation begins; with `dynamic=True` before each request."""
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    is_dynamic = any(keyword.arg == "dynamic" and getattr(keyword.value, "value", True) for keyword in keywords)
    return isinstance(func, ast.Attribute) and func.attr == "system_prompt" and not is_dynamic


def _merged(ends: list[Env]) -> Env:
    """What a variable may hold after ways that meet again."""
    first = dict(ends[0])
    for env in ends[1:]:
        if env is ends[0]:
            continue
        for name, value in env.items():
            known = first.get(name)
            first[name] = value if known is None else known | value if value else known
    return first


def _may_choose(node: ast.If) -> bool:
    return any(isinstance(part, ast.Assign) and last_name(part.targets[0]) in sources.FLAGS for part in (*node.body, *node.orelse))
