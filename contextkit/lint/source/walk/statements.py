"""The one walk over a file: statements, branches, loops, functions; patterns are asked on the way.

Takes a parsed file, gives its `Module` and what patterns found in it; knows nothing of other files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from contextkit.lint.source.rule import Kind, Sink
from contextkit.lint.source.summary import CLEAN, MODULE_BODY, Module, Value
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.counters import counter_of, counts
from contextkit.lint.source.syntax.pieces import as_meant, forget, last_name, walk
from contextkit.lint.source.syntax.templates import places_in_system
from contextkit.lint.source.tables import sanitizers, sinks, sources
from contextkit.lint.source.walk.calls import TOLD, last_parts
from contextkit.lint.source.walk.definitions import Definitions
from contextkit.lint.source.walk.displays import Handler
from contextkit.lint.source.watch.comments import frozen_lines, silenced_lines
from contextkit.lint.source.watch.patterns import CodedPattern

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_HOLDERS = frozenset({ast.Name, ast.Attribute})
_IMPORTS = frozenset({ast.Import, ast.ImportFrom})
_STEPS = (b"+=", b"-=")
Env = dict[str, Value]


class Walk(Definitions):
    """One walk after the other, for all files of a worker."""

    __slots__ = ("known_roots", "meant", "package")

    def __init__(
        self,
        patterns: tuple[CodedPattern, ...],
        calls: dict[str, Kind],
        mends: dict[str, frozenset[Kind]],
        met: dict[str, sinks.Arguments],
        names: dict[str, Sink],
    ) -> None:
        self.look_for(patterns)
        self.call_sources, self.method_sources = {**sources.CALLS, **calls}, sources.METHODS
        self.sanitizing, self.call_sinks, self.named_sinks = (
            {**sanitizers.CALLS, **mends},
            met,
            {**sinks.NAMES, **names},
        )
        self.called = None, "", []
        self.told = TOLD | last_parts(calls, mends, met) if calls or mends or met else TOLD
        self.known_calls, self.known_roots, self.display = {}, frozenset(), (None, {})
        self.global_names, self.returns_to, self.returns_name = frozenset(), None, ""
        self.plain: dict[type, Handler] = {**self.handlers(), **self.statements(), ast.Call: self.call}
        self.table = self.watched = self.quiet = self.plain

    known_roots: frozenset[str]
    """The packages of the tree that is linted."""

    def statements(self) -> dict[type, Callable[[Any], Any]]:
        """Statement type → handler."""
        table: dict[type, Callable[[Any], Any]] = {
            ast.Expr: self.inner,
            ast.Assign: self.assign,
            ast.AnnAssign: self.annotated,
            ast.AugAssign: self.augmented,
            ast.Return: self.returning,
            ast.If: self.branch,
            ast.For: self.loop_over,
            ast.AsyncFor: self.loop_over,
            ast.While: self.loop_while,
            ast.With: self.with_block,
            ast.AsyncWith: self.with_block,
            ast.Try: self.attempt,
            ast.FunctionDef: self.define,
            ast.AsyncFunctionDef: self.define,
            ast.ClassDef: self.define_class,
            ast.Import: self.import_names,
            ast.ImportFrom: self.import_from,
            ast.Match: self.match,
            ast.Raise: self.any_children,
            ast.Assert: self.any_children,
            ast.Delete: self.any_children,
            ast.Global: self.nothing,
            ast.Nonlocal: self.nothing,
            ast.Pass: self.nothing,
            ast.Break: self.nothing,
            ast.Continue: self.nothing,
        }
        if hasattr(ast, "TryStar"):
            table[ast.TryStar] = self.attempt
        if hasattr(ast, "TypeAlias"):
            table[ast.TypeAlias] = self.nothing
        for name, handler in (("TemplateStr", self.joined), ("Interpolation", self.formatted)):
            if hasattr(ast, name):
                table[getattr(ast, name)] = handler
        return table

    def read(
        self,
        module: Module,
        source: bytes,
        tree: ast.Module,
        roots: frozenset[str],
        package: str,
        meant: Mapping[str, str],
    ) -> None:
        """Walks a file.

        What it says stands in `module` afterwards. `meant` says what first parts of imported names stand for.
        """
        self.open(module, source, tree, roots)
        if roots is not self.known_roots:
            self.known_calls, self.known_roots = {}, roots
        self.package, self.meant = package, meant
        self.waiting = []
        self.imported = {}
        self.growing, self.settled, self.fresh, self.begun, self.mid_conversation = {}, CLEAN, {}, set(), False
        self.branches, self.orders, self.annotations = [], [], {}
        self.choices, self.tool_loops, self.in_handler, self.fields = [], 0, False, {}
        self.template_places = places_in_system(tree, source)
        self.watch()
        self._comments()
        self._names_of(tree.body)
        module.functions[MODULE_BODY] = self.scope.function
        self.body([part for part in tree.body if type(part) not in _IMPORTS])
        if ast.Module in self.watched_types:
            self.show(tree)
        while self.waiting:
            self.function_body(*self.waiting.pop(0))

    def close(self) -> None:
        """Lets go of the last file, and of the circle through its own handlers: nothing is left for garbage collection."""
        forget()
        for made in (self.plain, self.watches, self.shown, self.watched, self.quiet):
            made.clear()

    def _comments(self) -> None:
        self.frozen_lines = frozen_lines(self.source) if self.may_freeze else frozenset()
        for word in self.silencing:
            self.module.silenced.update(silenced_lines(self.source, self._index(), word))

    # Names
    # ----------------------------------------------------------------------------------------------------------------

    def _names_of(self, body: Sequence[ast.stmt]) -> None:
        """Functions, classes and imports of a module, so that what stands above them finds them."""
        for node in body:
            if isinstance(node, ast.ImportFrom):
                self.import_from(node)
            elif isinstance(node, ast.Import):
                self.import_names(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.names[node.name] = f"{self.module.name}.{node.name}"

    def import_names(self, node: ast.Import) -> Value:
        """`import a.b as c`."""
        for alias in node.names:
            name = as_meant(alias.name, self.meant) if self.meant else alias.name
            self.names[alias.asname or alias.name.partition(".")[0]] = name if alias.asname else name.partition(".")[0]
        return CLEAN

    def import_from(self, node: ast.ImportFrom) -> Value:
        """`from .a import b as c`."""
        head = node.module or ""
        if node.level:
            parents = self.package.split(".")
            above = parents[: len(parents) - node.level + 1]
            head = ".".join((*above, *filter(None, (node.module,))))
        elif self.meant:
            head = as_meant(head, self.meant)
        for alias in node.names:
            if alias.name != "*" or self.is_ours(head):
                self.names[alias.asname or alias.name] = f"{head}.{alias.name}"
        return CLEAN

    # Blocks
    # ---------------------------------------------------------------------------------------------------------------

    def body(self, statements: Sequence[ast.stmt]) -> None:
        """Statement after statement."""
        marks, table, watched = self.marks, self.quiet, self.watched
        is_watched = bool(statements) and marks[statements[-1].end_lineno] > marks[statements[0].lineno - 1]  # type: ignore[index]
        for statement in statements:
            if is_watched:
                is_marked = marks[statement.end_lineno] > marks[statement.lineno - 1]  # type: ignore[index]
                table = watched if is_marked else self.quiet
            self.statement, self.table, self.probed = statement, table, {}
            table[type(statement)](statement)

    def branch(self, node: ast.If) -> Value:
        """Both ways; a way that leaves the function or the loop does not come back."""
        self.table[type(node.test)](node.test)
        before = self.scope.env
        self.branches.append(node)
        n_choices = len(self.choices)
        if self.tool_loops:
            self.choices.append(self.filtered(self.looked_at(node.test), sanitizers.ORDER))
        ends = [self._way(node.body, before), self._way(node.orelse, before)]
        if not isinstance(node.body[-1], ast.Continue):  # what stands behind one is chosen, too
            del self.choices[n_choices:]
        self.branches.pop()
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
        before = dict(self.scope.env)
        if type(node.test) is not ast.Constant:
            self._work_off(node)
        return self._loop(node, before)

    def _work_off(self, loop: ast.While) -> None:
        """`while not plan.done:` around a call of the model: what stands in the plan is another in each turn."""
        for part in walk(loop.test):
            held = ast.unparse(part) if type(part) in _HOLDERS and sources.PLAN.match(last_name(part)) else ""
            if held and held.count(".") < 2 and self.asks_model(loop):
                self.scope.env[held] = self.scope.env.get(held, CLEAN) | self.varies("plan", part)

    def _loop(self, node: Any, before: Env) -> Value:
        self.loops.append(node)
        self._count(node)
        self.body(node.body)
        self.loops.pop()
        self.body(node.orelse)
        self.scope.env = _merged([self.scope.env, before])
        return CLEAN

    def _count(self, loop: ast.AST) -> None:
        """What a conversation's loop counts differs in each turn, above the place where it is counted as well."""
        steps = self.nodes(loop, ast.AugAssign) if self._stands_in(loop, *_STEPS) else ()
        targets = [part.target for part in steps if counts(part)]
        counted = [target for target in (*targets, counter_of(loop)) if type(target) is ast.Name]
        if not counted or not self.converses(loop):
            return
        for target in counted:
            self.scope.env[target.id] = self.scope.env.get(target.id, CLEAN) | self.varies("counter", target)

    def _stands_in(self, node: ast.AST, *words: bytes) -> bool:
        """Whether one of some words is written in it."""
        start, end = self.bytes_at(node)
        return any(self.source.find(word, start, end) >= 0 for word in words)

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
            ends.append(self._mishap(handler.body, seen))
        self.scope.env = _merged([env for env in ends if env is not None] or [seen])
        self.body(node.finalbody)
        return CLEAN

    def _mishap(self, statements: Sequence[ast.stmt], env: Env) -> Env | None:
        """What is done where something failed: what varies there is not sent with each request."""
        before, self.in_handler = self.in_handler, True
        end = self._way(statements, env)
        self.in_handler = before
        return end

    def match(self, node: ast.Match) -> Value:
        """`match`: what a pattern binds is a part of the subject."""
        subject = self.table[type(node.subject)](node.subject)
        before, ends = self.scope.env, []
        for case in node.cases:
            env = {**before, **{name: subject for part in walk(case.pattern) if (name := getattr(part, "name", None))}}
            ends.append(self._way(case.body, env))
        self.scope.env = _merged([before, *(env for env in ends if env is not None)])
        return CLEAN


def _merged(ends: list[Env]) -> Env:
    """What a variable may hold after ways that meet again."""
    first = dict(ends[0])
    for env in ends[1:]:
        if env is ends[0]:
            continue
        for name, value in env.items():
            known = first.get(name)
            if known is not value:
                first[name] = value if known is None else known | value if value else known
    return first
