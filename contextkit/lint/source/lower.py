"""Builds the value graph of one module from its syntax tree.

The statements of a function are followed in order with an environment: variable → the node it holds. Branches merge
into `phi` nodes, a loop's head is a `phi` of what comes in and what comes round. A change of a container in place
(`tools.append(…)`, `params["system"] = …`) makes a new node of the variable, so that order matters. What is known only
with other modules at hand (imports, calls, attributes of other objects) is left to `program`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from contextkit.lint.source.graph import ANY, Class, Comprehension, Context, Function, Key, Module, Node, Position

Environment = dict[str, Node]

MUTATORS: Final = frozenset(
    "append add extend insert update setdefault pop popleft popitem remove clear sort reverse appendleft extendleft discard".split()  # noqa: SIM905 - a list of words
)
"""Methods that change the object they are called on."""
PARTIAL: Final = frozenset({"functools.partial", "partial"})
SHUFFLES: Final = frozenset({"random.shuffle", "numpy.random.shuffle"})
_LITERAL_COMPREHENSIONS: Final = {
    ast.ListComp: "list",
    ast.SetComp: "set",
    ast.GeneratorExp: "generator",
    ast.DictComp: "dict",
}
_OPERATORS: Final = {ast.Add: "+", ast.Mod: "%", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//"}


def lower(tree: ast.Module, path: str, name: str, package: str, text: bytes = b"") -> Module:
    """The value graph of a module; `name` and `package` are dotted and resolve its imports."""
    module = Module(path, name, package)
    module.text = text
    body = Function("<module>", module, None, None, Position(1, 0, 1, 0))
    module.body = body
    module.functions.append(body)
    _Lowering(module).run(tree, body)
    return module


_STATE: Final = (
    "env",
    "aliases",
    "function",
    "context",
    "closure",
    "frames",
    "exits",
    "globals",
    "cls",
    "later",
    "is_module_level",
)
"""What is of one function while its body is lowered."""


class _Frame:
    """The environments that leave a loop early."""

    __slots__ = ("breaks", "continues")

    def __init__(self) -> None:
        self.breaks: list[Environment] = []
        self.continues: list[Environment] = []


class _Lowering:
    """Follows the statements of one module."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.env: Environment = {}
        self.aliases: dict[str, tuple[str, tuple[Key, ...]]] = {}
        """Variable → the variable it is a part of, and the path to it: `m` of `for m in messages`."""
        self.function: Function = module.body
        self.context: Context = self.function.context
        self.closure: list[Environment] = []
        self.frames: list[_Frame] = []
        self.exits: list[Environment] = []
        self.globals: frozenset[str] = frozenset()
        self.later: list[Callable[[], None]] = []
        self.cls: Class | None = None
        self.is_module_level = True
        self.depth = 0

    # Functions and classes

    def run(self, tree: ast.Module, body: Function) -> None:
        """Lowers the module's statements, then the functions in it."""
        end = self.block(tree.body, {})
        self.env = end if end is not None else {}
        self.store_globals(self.env)
        self.run_later()

    def store_globals(self, env: Environment) -> None:
        for name, node in env.items():
            if "." not in name:
                self.store_global(name, node)

    def store_global(self, name: str, node: Node) -> None:
        nodes = self.module.top.setdefault(name, [])
        if node not in nodes:
            nodes.append(node)

    def run_later(self) -> None:
        while self.later:
            waiting, self.later = self.later, []
            for begin in waiting:
                begin()

    def define(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, name: str) -> Function:
        """A function object; its body is lowered when the one around it has ended."""
        cls = self.cls if self.function.is_top and self.function.name == "<class>" else None
        parent = None if self.function.is_top else self.function
        function = Function(name, self.module, cls, parent, _position(node))
        function.is_async = isinstance(node, ast.AsyncFunctionDef)
        self.module.functions.append(function)
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        for arg in [*positional, *arguments.kwonlyargs]:
            self.parameter(function, arg)
        if arguments.vararg:
            function.vararg = arguments.vararg.arg
            self.parameter(function, arguments.vararg)
        if arguments.kwarg:
            function.kwarg = arguments.kwarg.arg
            self.parameter(function, arguments.kwarg)
        for arg, default in zip(
            positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True
        ):
            function.defaults[arg.arg] = self.expression(default)
        for arg, supplied in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if supplied is not None:
                function.defaults[arg.arg] = self.expression(supplied)
        around = [] if self.function.is_top else [self.env, *self.closure]
        state = self.cls, around
        self.later.append(lambda: self.body(function, node, *state))
        return function

    def parameter(self, function: Function, arg: ast.arg) -> None:
        function.params[arg.arg] = Node("param", function.context, _position(arg), (), arg.arg, function)
        if arg.annotation is not None and (stated := _annotation(arg.annotation)):
            function.annotations[arg.arg] = stated

    def body(
        self,
        function: Function,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        cls: Class | None,
        around: list[Environment],
    ) -> None:
        saved = {name: getattr(self, name) for name in _STATE}
        self.env, self.aliases, self.function, self.context = dict(function.params), {}, function, function.context
        self.closure, self.frames, self.exits, self.globals = around, [], [], frozenset()
        self.later, self.is_module_level, self.cls = [], False, cls
        if isinstance(node, ast.Lambda):
            function.returns.append(self.expression(node.body))
        else:
            end = self.block(node.body, self.env)
            if end is not None:
                self.exits.append(end)
            self.env = self.exits[0] if len(self.exits) == 1 else _first(self.merge_all(self.exits, "end"), {})
            self.finish(function)
        self.run_later()
        for name, value in saved.items():
            setattr(self, name, value)

    def finish(self, function: Function) -> None:
        """Notes what a function leaves behind: changed parameters, attributes of `self`, globals."""
        first = next(iter(function.params), "")
        for name, node in self.env.items():
            base, dot, attribute = name.partition(".")
            if not dot:
                if name in function.params:
                    if node is not function.params[name] and node.kind in {"update", "phi", "out"}:
                        function.outs.setdefault(name, []).append(node)
                elif name in self.globals:
                    self.store_global(name, node)
            elif "." not in attribute:
                self.store_attribute(base, attribute, node, first)

    def store_attribute(self, base: str, attribute: str, node: Node, first: str) -> None:
        if base == first and self.cls is not None:
            stores = self.cls.stores.setdefault(attribute, [])
            if (node, self.function) not in stores:
                stores.append((node, self.function))
        else:
            self.module.other_stores.setdefault(attribute, []).append(node)

    def define_class(self, node: ast.ClassDef) -> Node:
        cls = Class(node.name, self.module, _position(node))
        self.module.classes.append(cls)
        cls.bases = [self.expression(base) for base in node.bases]
        body = Function("<class>", self.module, cls, None, _position(node))
        saved = self.env, self.function, self.context, self.cls, self.aliases, self.closure, self.exits
        self.closure = [self.env, *self.closure] if not self.is_module_level else self.closure
        outer = self.env
        self.env, self.function, self.context, self.cls, self.aliases, self.exits = {}, body, body.context, cls, {}, []
        if self.is_module_level:
            self.closure = [outer]
        end = self.block(node.body, self.env) or {}
        for name, value in end.items():
            if value.kind == "func" and value.value.cls is cls:
                cls.methods[name] = value.value
            elif "." not in name:
                cls.attributes.setdefault(name, []).append(value)
        self.env, self.function, self.context, self.cls, self.aliases, self.closure, self.exits = saved
        return self.node("class", node, (), f"{self.module.name}.{node.name}", cls)

    # Statements

    def block(self, statements: Sequence[ast.stmt], env: Environment | None) -> Environment | None:
        """The environment behind some statements, None where nothing comes behind."""
        for statement in statements:
            if env is None:
                return None
            self.env = env
            env = _STATEMENTS.get(type(statement), _Lowering.other)(self, statement)
        return env

    def other(self, node: ast.stmt) -> Environment | None:
        return self.env

    def s_expr(self, node: ast.Expr) -> Environment | None:
        self.expression(node.value)
        return self.env

    def s_assign(self, node: ast.Assign) -> Environment | None:
        value = self.expression(node.value)
        for target in node.targets:
            self.assign(target, value, node.value)
        return self.env

    def s_ann_assign(self, node: ast.AnnAssign) -> Environment | None:
        if self.cls is not None and self.function.name == "<class>" and isinstance(node.target, ast.Name):
            self.cls.fields[node.target.id] = _annotation(node.annotation) or ""
        if node.value is not None:
            self.assign(node.target, self.expression(node.value), node.value)
        return self.env

    def s_aug_assign(self, node: ast.AugAssign) -> Environment | None:
        value = self.expression(node.value)
        path = self.path(node.target)
        old = self.load(node.target)
        name = "+=" if isinstance(node.op, ast.Add) else "arith"
        self.assign(node.target, self.update(node, old, name, (), (value,)), None)
        if path is not None:
            self.write_back(path[0], path[1], node, name, (value,))
        return self.env

    def s_return(self, node: ast.Return) -> Environment | None:
        if node.value is not None:
            self.function.returns.append(self.expression(node.value))
        self.exits.append(self.env)
        return None

    def s_raise(self, node: ast.Raise) -> Environment | None:
        if node.exc is not None:
            self.expression(node.exc)
        return None

    def s_break(self, node: ast.Break) -> Environment | None:
        self.leave_early()
        if self.frames:
            self.frames[-1].breaks.append(self.env)
            self.context.loops()[0].breaks.append(self.context)
        return None

    def s_continue(self, node: ast.Continue) -> Environment | None:
        self.leave_early()
        if self.frames:
            self.frames[-1].continues.append(self.env)
        return None

    def leave_early(self) -> None:
        for loop in self.context.loops()[:1]:
            loop.has_exits = True

    def s_if(self, node: ast.If) -> Environment | None:
        test = self.expression(node.test)
        before = self.env
        then = self.branch("if", test, node.body, dict(before))
        other = self.branch("else", test, node.orelse, dict(before)) if node.orelse else before
        return self.merge(then, other, "if", test, node)

    def branch(
        self, kind: str, test: Node | None, statements: Sequence[ast.stmt], env: Environment
    ) -> Environment | None:
        self.context = Context(kind, self.context, self.function, test)
        end = self.block(statements, env)
        self.context = self.context.parent or self.context
        return end

    def s_while(self, node: ast.While) -> Environment | None:
        return self.loop(node, None)

    def s_for(self, node: ast.For | ast.AsyncFor) -> Environment | None:
        iterable = self.expression(node.iter)
        return self.loop(node, iterable)

    def loop(self, node: ast.For | ast.AsyncFor | ast.While, iterable: Node | None) -> Environment | None:
        before = self.env
        env = dict(before)
        heads: dict[str, Node] = {}
        for name in _assigned(node.body):
            old = env.get(name)
            if old is None and "." in name and name.split(".")[0] in env:
                old = self.load_path(name, node)
            if old is not None:
                heads[name] = env[name] = Node("phi", self.context, None, (old,), "loop")
        self.env = env
        context = Context("while" if iterable is None else "for", self.context, self.function, None, iterable)
        self.context = context
        self.frames.append(_Frame())
        if isinstance(node, ast.While):
            context.test = self.expression(node.test)
        elif iterable is not None:
            element = self.node("iter", node.target, (iterable,))
            self.assign(node.target, element, None)
            self.alias_element(node.target, node.iter, iterable)
        end = self.block(node.body, self.env)
        frame = self.frames.pop()
        self.context = context.parent or context
        for around in (end, *frame.continues):
            if around is None:
                continue
            for name, head in heads.items():
                value = around.get(name)
                if value is not None and value is not head and value not in head.inputs:
                    head.inputs = (*head.inputs, value)
        after = {**(end or {}), **heads} if end is not None else dict(env)
        for name, head in heads.items():
            after[name] = head
        result: Environment | None = after
        if node.orelse:
            result = self.block(node.orelse, after)
        for left in frame.breaks:
            result = self.merge(result, left, "break", None, node)
        if isinstance(node, ast.While) and _is_true(node.test) and not frame.breaks:
            return None
        return result

    def s_try(self, node: ast.Try) -> Environment | None:
        before = dict(self.env)
        end = self.block(node.body, dict(before))
        ends = [self.block(node.orelse, end) if node.orelse else end]
        for handler in node.handlers:
            start = self.merge(dict(before), end, "try", None, node) or dict(before)
            self.context = Context("except", self.context, self.function)
            if handler.name:
                start[handler.name] = self.node("ref", handler, (), "error")
            ends.append(self.block(handler.body, start))
            self.context = self.context.parent or self.context
        result = self.merge_all([one for one in ends if one is not None], "try")
        if node.finalbody:
            start = result if result is not None else dict(before)
            after = self.block(node.finalbody, start)
            result = after if result is not None else None
        return result

    def s_with(self, node: ast.With | ast.AsyncWith) -> Environment | None:
        for item in node.items:
            value = self.expression(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, None)
        return self.block(node.body, self.env)

    def s_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Environment | None:
        decorators = [self.expression(one) for one in node.decorator_list]
        function = self.define(node, node.name)
        function.decorators = decorators
        self.bind(node.name, self.node("func", node, (), self.name_of(node.name), function))
        return self.env

    def name_of(self, name: str) -> str:
        return f"{self.module.name}.{name}" if self.function.is_top else name

    def s_class(self, node: ast.ClassDef) -> Environment | None:
        for one in node.decorator_list:
            self.expression(one)
        self.bind(node.name, self.define_class(node))
        return self.env

    def s_import(self, node: ast.Import) -> Environment | None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self.bind(name, self.node("ref", node, (), alias.name if alias.asname else name))
        return self.env

    def s_import_from(self, node: ast.ImportFrom) -> Environment | None:
        base = node.module or ""
        if node.level:
            parts = self.module.package.split(".") if self.module.package else []
            kept = parts[: len(parts) - (node.level - 1)] if node.level > 1 else parts
            base = ".".join([*kept, *([base] if base else [])])
        for alias in node.names:
            if alias.name == "*":
                self.module.stars.append(base)
            else:
                self.bind(
                    alias.asname or alias.name,
                    self.node("ref", node, (), f"{base}.{alias.name}" if base else alias.name),
                )
        return self.env

    def s_delete(self, node: ast.Delete) -> Environment | None:
        for target in node.targets:
            if isinstance(target, ast.Subscript) and (path := self.path(target.value)) is not None:
                key = self.subscript(target.slice)
                self.write_back(*path, node, "del", (key,))
        return self.env

    def s_global(self, node: ast.Global) -> Environment | None:
        self.globals = self.globals | frozenset(node.names)
        return self.env

    def s_match(self, node: ast.Match) -> Environment | None:
        subject = self.expression(node.subject)
        before = self.env
        ends: list[Environment] = []
        is_total = False
        for case in node.cases:
            env = dict(before)
            self.env = env
            for part in ast.walk(case.pattern):
                if isinstance(part, ast.MatchAs | ast.MatchStar) and part.name:
                    env[part.name] = self.node("item", part, (subject,))
                elif isinstance(part, ast.MatchMapping) and part.rest:
                    env[part.rest] = subject
            test = self.expression(case.guard) if case.guard else subject
            end = self.branch("if", test, case.body, env)
            is_total = is_total or (
                isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None and case.guard is None
            )
            if end is not None:
                ends.append(end)
        return self.merge_all(ends if is_total else [*ends, before], "match", subject)

    def s_assert(self, node: ast.Assert) -> Environment | None:
        self.expression(node.test)
        return self.env

    # Variables

    def bind(self, name: str, value: Node) -> None:
        self.env[name] = value
        self.aliases.pop(name, None)
        if any(above == name for above, _ in self.aliases.values()):
            self.aliases = {one: alias for one, alias in self.aliases.items() if alias[0] != name}
        if (
            self.function.is_top
            and self.is_module_level
            and self.context.parent is not None
            and self.function.name == "<module>"
        ):
            self.store_global(name, value)

    def assign(self, target: ast.expr, value: Node, source: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            for name in [name for name in self.env if name.startswith(target.id + ".")]:
                del self.env[name]
            alias = self.path(source) if source is not None else None
            self.bind(target.id, value)
            if target.id in self.globals:
                self.store_global(target.id, value)
            if alias is not None and alias[0] != target.id:
                self.aliases[target.id] = alias
        elif isinstance(target, ast.Attribute):
            path = _dotted_path(target)
            if path is not None:
                for name in [name for name in self.env if name.startswith(path + ".")]:
                    del self.env[name]
                self.env[path] = value
            else:
                self.expression(target.value)
                self.module.other_stores.setdefault(target.attr, []).append(value)
        elif isinstance(target, ast.Subscript):
            key = self.subscript(target.slice)
            path_ = self.path(target.value)
            holder = self.expression(target.value)
            if path_ is not None:
                root, keys = path_
                whole = (
                    isinstance(target.slice, ast.Slice) and target.slice.lower is None and target.slice.upper is None
                )
                if whole and not keys and root in self.env:
                    self.env[root] = value
                    self.write_back(root, keys, target, "replace", (value,), is_root_done=True)
                else:
                    self.write_back(root, (*keys, _constant_key(key)), target, "setitem", (value, key, holder))
        elif isinstance(target, ast.Tuple | ast.List):
            for index, part in enumerate(target.elts):
                if isinstance(part, ast.Starred):
                    self.assign(part.value, self.node("slice", part, (value,), "", (None, None, None)), None)
                else:
                    self.assign(part, self.element(part, value, index), None)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, None)

    def element(self, part: ast.expr, value: Node, index: int) -> Node:
        if (
            value.kind in {"tuple", "list"}
            and index < len(value.inputs)
            and all(one.kind != "star" for one in value.inputs)
        ):
            return value.inputs[index]
        return self.node("item", part, (value,), "", index)

    def alias_element(self, target: ast.expr, iterable: ast.expr, value: Node) -> None:
        """`m` of `for m in messages`, `for i, m in enumerate(messages[:-4])` is an element of `messages`."""
        for _ in range(8):
            name = value.name.removeprefix("~") if value.kind == "call" else ""
            if value.kind == "slice":
                value = value.inputs[0]
            elif (
                name
                and len(value.value) == 1
                and (name in _VIEWS or (value.value[0][0] == 0 and self.is_ours(value.inputs[0])))
            ):
                if name == "enumerate" and isinstance(target, ast.Tuple) and len(target.elts) == 2:
                    target = target.elts[1]
                value = value.value[0][1]
                iterable = iterable.args[0] if isinstance(iterable, ast.Call) and iterable.args else iterable
            else:
                break
            if isinstance(iterable, ast.Subscript) and isinstance(iterable.slice, ast.Slice):
                iterable = iterable.value
        if not isinstance(target, ast.Name):
            return
        holder = self.holder(value)
        path = (holder, ()) if holder is not None else self.path(iterable)
        if path is not None and path[0] != target.id:
            self.aliases[target.id] = (path[0], (*path[1], ANY))

    def holder(self, value: Node) -> str | None:
        """The variable or attribute that a value was read from; of several names of one list the first."""
        for name, held in self.env.items():
            if held is value or (held.kind == "phi" and held.name == "loop" and held.inputs[0] is value):
                return name
        names = []
        while value.kind == "attr":
            names.append(value.name)
            value = value.inputs[0]
        if names and value.kind == "param" and self.env.get(value.name) is value:
            return ".".join([value.name, *reversed(names)])
        return None

    def path(self, node: ast.expr) -> tuple[str, tuple[Key, ...]] | None:
        """The variable an expression is a part of, and the keys to it: `messages[0]["content"]`, `self.params["tools"]`."""
        keys: list[Key] = []
        while True:
            if isinstance(node, ast.Name):
                root: str = node.id
                break
            if isinstance(node, ast.Subscript):
                if isinstance(node.slice, ast.Slice):
                    return None
                keys.append(_constant_of(node.slice))
                node = node.value
            elif isinstance(node, ast.Attribute):
                dotted = _dotted_path(node)
                if dotted is not None:
                    root = dotted
                    break
                keys.append("." + node.attr)
                node = node.value
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in {"get", "setdefault"}
                and node.args
            ):
                keys.append(_constant_of(node.args[0]))
                node = node.func.value
            else:
                return None
        keys.reverse()
        for _ in range(4):
            base = root.partition(".")[0]
            if root in self.aliases:
                above = self.aliases[root]
                root, keys = above[0], [*above[1], *keys]
            elif base in self.aliases and base != root:
                above = self.aliases[base]
                root, keys = above[0], [*above[1], *("." + part for part in root.split(".")[1:]), *keys]
            else:
                break
        return root, tuple(keys)

    def write_back(
        self,
        root: str,
        keys: tuple[Key, ...],
        at: ast.AST,
        operation: str,
        operands: tuple[Node, ...],
        *,
        is_root_done: bool = False,
    ) -> None:
        """Makes a new node of the variable that holds what was changed in place."""
        old = self.env.get(root)
        if old is None and "." in root:
            old = self.load_path(root, at)
        if old is None:
            old = self.name_node(root, at)
        if not is_root_done:
            self.env[root] = self.update(at, old, operation, keys, operands)
        for name, (above, below) in self.aliases.items():
            if above == root and not below and name in self.env:
                self.env[name] = self.env[root]  # two names of one list
        if not self.function.is_top and "." not in root and old.kind == "ref" and root not in self.function.params:
            self.store_global(root, self.env[root])

    def update(self, at: ast.AST, old: Node, operation: str, keys: tuple[Key, ...], operands: tuple[Node, ...]) -> Node:
        node = self.node("update", at, (old, *operands), operation, keys)
        self.module.updates.append(node)
        return node

    def load(self, node: ast.expr) -> Node:
        return self.expression(node)

    def load_path(self, path: str, at: ast.AST) -> Node:
        if path in self.env:
            return self.env[path]
        base, _, attribute = path.rpartition(".")
        below = self.load_path(base, at) if "." in base else self.name_node(base, at)
        return self.node("attr", at, (below,), attribute)

    def name_node(self, name: str, at: ast.AST) -> Node:
        results = self.env.get(name)
        if results is not None:
            return results
        for env in self.closure:
            if name in env:
                return env[name]
        known = self.module.top.get(name)
        if known is not None:
            if len(known) == 1 and known[0].kind == "ref" and not known[0].name.startswith("~"):
                return self.node("ref", at, (), known[0].name)
            return self.node("ref", at, (), f"{self.module.name}.{name}")
        return self.node("ref", at, (), f"~{name}")

    # Merging

    def merge(
        self, one: Environment | None, other: Environment | None, name: str, test: Node | None, at: ast.AST | None
    ) -> Environment | None:
        if one is None:
            return other
        if other is None:
            return one
        if one is other:
            return one
        position = _position(at.test) if isinstance(at, ast.If) else None
        merged: Environment = {}
        for key, value in one.items():
            second = other.get(key)
            if second is None:
                merged[key] = value
                if "." in key and key.split(".")[0] in other:
                    merged[key] = Node("phi", self.context, position, (value, self.load_in(other, key)), name, test)
            elif second is value:
                merged[key] = value
            else:
                merged[key] = Node("phi", self.context, position, (value, second), name, test)
        for key, value in other.items():
            if key not in one:
                merged[key] = value
                if "." in key and key.split(".")[0] in one:
                    merged[key] = Node("phi", self.context, position, (self.load_in(one, key), value), name, test)
        return merged

    def load_in(self, env: Environment, path: str) -> Node:
        saved, self.env = self.env, env
        base, _, attribute = path.rpartition(".")
        below = env.get(base) or (self.load_in(env, base) if "." in base else Node("ref", self.context, None, (), base))
        self.env = saved
        return Node("attr", self.context, below.position, (below,), attribute)

    def merge_all(self, envs: Iterable[Environment], name: str, test: Node | None = None) -> Environment | None:
        result: Environment | None = None
        for env in envs:
            result = self.merge(result, env, name, test, None)
        return result

    # Expressions

    def node(self, kind: str, at: ast.AST, inputs: tuple[Node, ...] = (), name: str = "", value: Any = None) -> Node:
        return Node(kind, self.context, _position(at), inputs, name, value)

    def expression(self, node: ast.expr) -> Node:
        return _EXPRESSIONS.get(type(node), _Lowering.e_other)(self, node)

    def e_other(self, node: ast.expr) -> Node:
        inputs = tuple(self.expression(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
        return self.node("join", node, inputs, "arith")

    def e_constant(self, node: ast.Constant) -> Node:
        return Node("const", self.context, _position(node), (), "", node.value)

    def e_name(self, node: ast.Name) -> Node:
        return self.name_node(node.id, node)

    def e_joined(self, node: ast.JoinedStr) -> Node:
        return self.node("join", node, tuple(self.expression(part) for part in node.values), "fstring")

    def e_formatted(self, node: ast.FormattedValue) -> Node:
        value = self.expression(node.value)
        if node.format_spec is None:
            return value
        return self.call_node(
            node, self.node("ref", node, (), "format"), [(0, value), (1, self.expression(node.format_spec))]
        )

    def e_binary(self, node: ast.BinOp) -> Node:
        chain: list[ast.expr] = []
        operator = _OPERATORS.get(type(node.op), "arith")
        left: ast.expr = node
        while isinstance(left, ast.BinOp) and _OPERATORS.get(type(left.op), "arith") == operator:
            chain.append(left.right)
            left = left.left
        chain.append(left)
        return self.node("join", node, tuple(self.expression(part) for part in reversed(chain)), operator)

    def e_unary(self, node: ast.UnaryOp) -> Node:
        operand = self.expression(node.operand)
        if operand.kind == "const" and isinstance(node.op, ast.USub) and isinstance(operand.value, int | float):
            return Node("const", self.context, _position(node), (), "", -operand.value)
        if isinstance(node.op, ast.Not):
            return self.node("compare", node, (operand,), "not")
        return self.node("join", node, (operand,), "-" if isinstance(node.op, ast.USub) else "arith")

    def e_bool(self, node: ast.BoolOp) -> Node:
        return self.node(
            "phi",
            node,
            tuple(self.expression(one) for one in node.values),
            "or" if isinstance(node.op, ast.Or) else "and",
        )

    def e_if(self, node: ast.IfExp) -> Node:
        test = self.expression(node.test)
        context = self.context
        self.context = Context("if", context, self.function, test)
        then = self.expression(node.body)
        self.context = Context("else", context, self.function, test)
        other = self.expression(node.orelse)
        self.context = context
        return self.node("phi", node, (then, other), "if", test)

    def e_compare(self, node: ast.Compare) -> Node:
        name = type(node.ops[0]).__name__.lower()
        return self.node(
            "compare", node, (self.expression(node.left), *(self.expression(one) for one in node.comparators)), name
        )

    def e_call(self, node: ast.Call) -> Node:
        callee = self.expression(node.func)
        arguments: list[tuple[Key, Node]] = []
        first = 0
        while callee.kind == "call" and callee.name in PARTIAL and callee.value:
            supplied = callee.value[1:]
            arguments = [(key - 1 if isinstance(key, int) else key, value) for key, value in supplied] + arguments
            first += sum(isinstance(key, int) for key, _ in supplied)
            callee = callee.value[0][1]
        for index, argument in enumerate(node.args):
            if isinstance(argument, ast.Starred):
                arguments.append((ANY, self.expression(argument.value)))
            else:
                arguments.append((index + first, self.expression(argument)))
        for keyword in node.keywords:
            arguments.append((keyword.arg if keyword.arg is not None else "**", self.expression(keyword.value)))
        call = self.call_node(node, callee, arguments)
        self.effects(node, call, callee, arguments)
        return call

    def call_node(self, node: ast.AST, callee: Node, arguments: list[tuple[Key, Node]]) -> Node:
        call = self.node("call", node, (callee,), callee_name(callee), arguments)
        self.module.calls.append(call)
        return call

    def effects(self, node: ast.Call, call: Node, callee: Node, arguments: list[tuple[Key, Node]]) -> None:
        """Makes new nodes of the variables that a call may change."""
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in MUTATORS and callee.kind == "attr":
            path = self.path(func.value)
            if path is not None:
                self.write_back(*path, node, func.attr, tuple(value for _, value in arguments))
            return
        if call.name in SHUFFLES and node.args and (path := self.path(node.args[0])) is not None:
            self.write_back(*path, node, "shuffle", (call,))
            return
        if callee.kind in {"ref", "func", "attr", "param"}:
            own = arguments[len(arguments) - len(node.args) - len(node.keywords) :]
            for key, supplied in zip(
                (key for key, _ in own), [*node.args, *(one.value for one in node.keywords)], strict=True
            ):
                if isinstance(supplied, ast.Name) and supplied.id in self.env:
                    old = self.env[supplied.id]
                    if old.kind in {
                        "list",
                        "dict",
                        "update",
                        "phi",
                        "param",
                        "call",
                        "comp",
                        "slice",
                        "out",
                        "item",
                        "attr",
                    } and self.is_ours(callee):
                        self.env[supplied.id] = Node("out", self.context, call.position, (old, call), str(key), key)
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and self.cls is not None:
            self.snapshot(func.value.id)

    def is_ours(self, callee: Node) -> bool:
        """Return whether a callee may be a function of the program that is read: a name of this module, an import, a method."""
        if callee.kind in {"func", "param"}:
            return True
        if callee.kind == "ref":
            return "." in callee.name
        return callee.inputs[0].kind in {"param", "attr"} or callee.inputs[0].kind == "ref"

    def snapshot(self, base: str) -> None:
        """A method that is called sees the attributes of `self` as they are now."""
        first = next(iter(self.function.params), "")
        if base != first:
            return
        for name, node in self.env.items():
            head, dot, attribute = name.partition(".")
            if dot and head == first and "." not in attribute and node.kind != "attr":
                self.store_attribute(head, attribute, node, first)

    def e_attribute(self, node: ast.Attribute) -> Node:
        path = _dotted_path(node)
        if path is not None and path in self.env:
            return self.env[path]
        base = self.expression(node.value)
        if base.kind == "ref":
            return self.node("ref", node, (), f"{base.name}.{node.attr}")
        return self.node("attr", node, (base,), node.attr)

    def e_subscript(self, node: ast.Subscript) -> Node:
        base = self.expression(node.value)
        if isinstance(node.slice, ast.Slice):
            parts = node.slice
            bounds = tuple(
                self.expression(one) if one is not None else None for one in (parts.lower, parts.upper, parts.step)
            )
            return self.node("slice", node, (base,), "", bounds)
        key = self.expression(node.slice)
        if base.kind in {"list", "tuple"} and key.kind == "const" and type(key.value) is int:
            is_known = all(one.kind != "star" for one in base.inputs)
            if is_known and -len(base.inputs) <= key.value < len(base.inputs):
                return base.inputs[key.value]
        return self.node("item", node, (base, key), "", _constant_key(key))

    def subscript(self, node: ast.expr) -> Node:
        """The key of a subscript; for a slice a node with its bounds."""
        if isinstance(node, ast.Slice):
            bounds = tuple(
                self.expression(one) if one is not None else None for one in (node.lower, node.upper, node.step)
            )
            return self.node("slice", node, (), "", bounds)
        return self.expression(node)

    def e_sequence(self, node: ast.List | ast.Tuple | ast.Set) -> Node:
        return self.node(type(node).__name__.lower(), node, tuple(self.expression(one) for one in node.elts))

    def e_starred(self, node: ast.Starred) -> Node:
        return self.node("star", node, (self.expression(node.value),))

    def e_dict(self, node: ast.Dict) -> Node:
        keys: list[Key] = []
        values: list[Node] = []
        for key, value in zip(node.keys, node.values, strict=True):
            keys.append("**" if key is None else _constant_key(self.expression(key)))
            values.append(self.expression(value))
        result = self.node("dict", node, tuple(values), "", keys)
        if any(isinstance(key, str) for key in keys):
            self.module.dicts.append(result)
        return result

    def e_comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Node:
        outer, aliases = self.env, dict(self.aliases)
        self.env = dict(outer)
        iterables: list[Node] = []
        conditions: list[Node] = []
        contexts = 0
        for generator in node.generators:
            iterable = self.expression(generator.iter)
            iterables.append(iterable)
            self.context = Context("comprehension", self.context, self.function, None, iterable)
            contexts += 1
            self.assign(generator.target, self.node("iter", generator.target, (iterable,)), None)
            self.alias_element(generator.target, generator.iter, iterable)
            conditions += [self.expression(one) for one in generator.ifs]
        if isinstance(node, ast.DictComp):
            inputs = (self.expression(node.value), self.expression(node.key))
        else:
            inputs = (self.expression(node.elt),)  # type: ignore[assignment]
        for _ in range(contexts):
            self.context = self.context.parent or self.context
        self.env, self.aliases = outer, aliases
        kind = _LITERAL_COMPREHENSIONS[type(node)]
        if (
            kind == "list"
            and not conditions
            and len(iterables) == 1
            and inputs[0].kind == "iter"
            and inputs[0].inputs[0] is iterables[0]
        ):
            (whole,) = iterables
            if whole.kind in {"list", "tuple"}:
                return whole  # `[one for one in [value]]`
        return self.node("comp", node, inputs, kind, Comprehension(tuple(iterables), tuple(conditions)))

    def e_lambda(self, node: ast.Lambda) -> Node:
        return self.node("func", node, (), "<lambda>", self.define(node, "<lambda>"))

    def e_inner(self, node: ast.Await) -> Node:
        return self.expression(node.value)

    def e_yield(self, node: ast.Yield | ast.YieldFrom) -> Node:
        if node.value is not None:
            value = self.expression(node.value)
            if isinstance(node, ast.YieldFrom):
                self.function.returns.append(value)
            else:
                self.function.yields.append(value)
        return self.node("ref", node, (), "yield")

    def e_named(self, node: ast.NamedExpr) -> Node:
        value = self.expression(node.value)
        self.assign(node.target, value, node.value)
        return value


def callee_name(callee: Node) -> str:
    """The dotted name of a callee: `datetime.datetime.now`, `anthropic.Anthropic().messages.create`, `?.messages.create`."""
    if callee.kind in {"ref", "func", "class"}:
        return callee.name.removeprefix("~")
    parts: list[str] = []
    node = callee
    while node.kind == "attr":
        parts.append(node.name)
        node = node.inputs[0]
    if node.kind == "call" and len(parts) < 6:
        parts.append(f"{node.name}()")
    elif node.kind == "ref":
        parts.append(node.name.removeprefix("~"))
    else:
        parts.append("?")
    return ".".join(reversed(parts))


def _position(node: ast.AST) -> Position:
    return Position(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def _first(one: Environment | None, other: Environment) -> Environment:
    return one if one is not None else other


def _constant_of(node: ast.expr) -> Key:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int) else None
    return None


def _constant_key(node: Node) -> Key:
    return node.value if node.kind == "const" and isinstance(node.value, str | int) else None


def _dotted_path(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
        return ".".join(reversed(parts))
    return None


def _annotation(node: ast.expr) -> str | None:
    """The plain name in an annotation: `Agent`, of `Agent | None`, `Optional[Agent]` and `"Agent"` too."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.strip() if node.value.replace(".", "").isidentifier() else None
    if isinstance(node, ast.BinOp):
        return _annotation(node.left) or _annotation(node.right)
    if isinstance(node, ast.Subscript):
        base = _dotted_path(node.value)
        if base is not None and base.rpartition(".")[2] in {"Optional", "Annotated"}:
            inner = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            return _annotation(inner)
        return base
    return _dotted_path(node)


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value)


def _assigned(statements: Sequence[ast.stmt]) -> dict[str, None]:
    """Variables and attribute paths that some statements assign or change, nested functions left out."""
    results: dict[str, None] = {}
    waiting: list[ast.AST] = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                results[node.id] = None
            continue
        if isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Store) and (path := _dotted_path(node)) is not None:
                results[path] = None
        elif isinstance(node, ast.Subscript):
            if not isinstance(node.ctx, ast.Load) and (path := _root(node.value)) is not None:
                results[path] = None
        elif isinstance(node, ast.Call):
            if (
                isinstance(node.func, ast.Attribute)
                and node.func.attr in MUTATORS
                and (path := _root(node.func.value)) is not None
            ):
                results[path] = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        waiting.extend(ast.iter_child_nodes(node))
    return results


def _root(node: ast.expr) -> str | None:
    while True:
        path = _dotted_path(node)
        if path is not None:
            return path
        if isinstance(node, ast.Subscript | ast.Attribute):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return None


_VIEWS: Final = frozenset({"enumerate", "reversed", "list", "tuple", "iter"})
"""Functions whose result has the elements of what they are given."""
_STATEMENTS: Final[dict[type[ast.stmt], Callable[[_Lowering, Any], Environment | None]]] = {
    ast.Expr: _Lowering.s_expr,
    ast.Assign: _Lowering.s_assign,
    ast.AnnAssign: _Lowering.s_ann_assign,
    ast.AugAssign: _Lowering.s_aug_assign,
    ast.Return: _Lowering.s_return,
    ast.Raise: _Lowering.s_raise,
    ast.Break: _Lowering.s_break,
    ast.Continue: _Lowering.s_continue,
    ast.If: _Lowering.s_if,
    ast.While: _Lowering.s_while,
    ast.For: _Lowering.s_for,
    ast.AsyncFor: _Lowering.s_for,
    ast.Try: _Lowering.s_try,
    ast.TryStar: _Lowering.s_try,
    ast.With: _Lowering.s_with,
    ast.AsyncWith: _Lowering.s_with,
    ast.FunctionDef: _Lowering.s_function,
    ast.AsyncFunctionDef: _Lowering.s_function,
    ast.ClassDef: _Lowering.s_class,
    ast.Import: _Lowering.s_import,
    ast.ImportFrom: _Lowering.s_import_from,
    ast.Delete: _Lowering.s_delete,
    ast.Global: _Lowering.s_global,
    ast.Nonlocal: _Lowering.other,
    ast.Match: _Lowering.s_match,
    ast.Assert: _Lowering.s_assert,
}
_EXPRESSIONS: Final[dict[type[ast.expr], Callable[[_Lowering, Any], Node]]] = {
    ast.Constant: _Lowering.e_constant,
    ast.Name: _Lowering.e_name,
    ast.JoinedStr: _Lowering.e_joined,
    ast.FormattedValue: _Lowering.e_formatted,
    ast.BinOp: _Lowering.e_binary,
    ast.UnaryOp: _Lowering.e_unary,
    ast.BoolOp: _Lowering.e_bool,
    ast.IfExp: _Lowering.e_if,
    ast.Compare: _Lowering.e_compare,
    ast.Call: _Lowering.e_call,
    ast.Attribute: _Lowering.e_attribute,
    ast.Subscript: _Lowering.e_subscript,
    ast.List: _Lowering.e_sequence,
    ast.Tuple: _Lowering.e_sequence,
    ast.Set: _Lowering.e_sequence,
    ast.Starred: _Lowering.e_starred,
    ast.Dict: _Lowering.e_dict,
    ast.ListComp: _Lowering.e_comprehension,
    ast.SetComp: _Lowering.e_comprehension,
    ast.GeneratorExp: _Lowering.e_comprehension,
    ast.DictComp: _Lowering.e_comprehension,
    ast.Lambda: _Lowering.e_lambda,
    ast.Await: _Lowering.e_inner,
    ast.Yield: _Lowering.e_yield,
    ast.YieldFrom: _Lowering.e_yield,
    ast.NamedExpr: _Lowering.e_named,
}
