"""What is stored under a name, in an attribute, under a key, and given back: names of prompts are where a value
arrives.

Takes the walk's state, gives the handlers of assignments and `return`; knows nothing of blocks.
"""

from __future__ import annotations

from contextkit.lint.source.rule import Sink
from contextkit.lint.source.summary import CLEAN, MODULE_BODY, Function, Value
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.counters import counts
from contextkit.lint.source.syntax.pieces import constant_keys, last_name, walk
from contextkit.lint.source.tables import sanitizers, sinks, sources
from contextkit.lint.source.walk.calls import Calls

_KEEPS_ITEMS = frozenset(
    {
        ast.Name,
        ast.Attribute,
        ast.Subscript,
        ast.Call,
        ast.ListComp,
        ast.BinOp,
        ast.List,
        ast.Await,
        ast.NamedExpr,
        ast.Dict,
        ast.DictComp,
    }
)
"""Expressions that may be a list of messages or tools made from another one, or say in which order a mapping was
filled."""

_NAMES = frozenset({ast.Name, ast.Attribute})
_MAKE = _NAMES | {ast.Call, ast.Await, ast.BoolOp, ast.IfExp}
"""Expressions that may make an object, or be a function or class."""


class Assignments(Calls):
    """The handlers of assignments and `return`."""

    __slots__ = ("fields", "global_names", "returns_name", "returns_to")

    fields: dict[str, list[str]]
    """Variable → what is known of the fields of the object in it."""

    global_names: frozenset[str]
    """What the function declares global."""
    returns_to: Sink | None
    """What the result of the function around it is, by the function's name."""
    returns_name: str
    """That name."""

    def assign(self, node: ast.Assign) -> Value:
        """`a = b = value`."""
        given = node.value
        value = self.table[type(given)](given)
        for target in node.targets:
            self.store(target, value, given)
        return CLEAN

    def annotated(self, node: ast.AnnAssign) -> Value:
        """`a: T = value`."""
        if node.value is not None:
            self.store(node.target, self.table[type(node.value)](node.value), node.value)
        return CLEAN

    def augmented(self, node: ast.AugAssign) -> Value:
        """`a += value`."""
        value = self.table[type(node.value)](node.value)
        target = node.target
        if (
            type(target) is ast.Attribute
            and self.scope.node is not None
            and counts(node)
            and self.converses(self.scope.node)
        ):
            value |= self.varies("counter", target)
        if type(target) is ast.Name:
            self.begun.discard(target.id)
            before = self.scope.env.get(target.id, CLEAN)
        else:
            before = self.table[type(target)](target)
        self.store(target, value | before, node.value, added=value)
        if type(node.op) is ast.BitOr and type(node.value) is ast.Dict:
            for key, part in constant_keys(node.value).items():
                self.meet_key(target, key, part, self.probe(part))
        return CLEAN

    def store(self, target: ast.expr, value: Value, node: ast.expr, added: Value | None = None) -> None:
        """A value gets a name; names of prompts are where it arrives."""
        if value and self.frozen_lines and self.statement_is_frozen():
            value = self.frozen(value)
        kind = type(target)
        if kind is ast.Name:
            self._store_name(target.id, value, node)  # type: ignore[attr-defined]
        elif kind is ast.Attribute:
            self._store_attribute(target, value, node)  # type: ignore[arg-type]
        elif kind is ast.Subscript:
            self._store_item(target, value, node)  # type: ignore[arg-type]
        elif (
            isinstance(target, ast.Tuple | ast.List)
            and isinstance(node, ast.Tuple | ast.List)
            and len(target.elts) == len(node.elts)
        ):
            for item, part in zip(target.elts, node.elts, strict=True):
                self.store(item, self.probe(part), part)
        else:
            self.bind(target, value)
        name = last_name(target)
        sink = self.named_sinks.get(name)
        if sink is not None and not sinks.COUNTS.search(last_part(self.scope.function.name)):
            self.arrive(sink, node, f"`{name}`", is_named=True, value=value if added is None else added)

    def _store_name(self, name: str, value: Value, node: ast.expr) -> None:
        scope = self.scope
        if type(node) in _KEEPS_ITEMS:
            self.stored.setdefault(name, []).append(node)
        if self.branches and name in sources.FLAGS and isinstance(node, ast.Constant) and not self._is_tested(name):
            value |= self.varies(sources.FLAGS[name], node)
        if value and sources.PLACEHOLDER.search(name):
            value = self.filtered(value, sources.TAKEN_OUT)
        scope.env[name] = value
        scope.types.pop(name, None)
        if name in self.fields:
            for field in self.fields.pop(name):
                scope.env.pop(field, None)
        kind = type(node)
        if kind in _MAKE and (made := self._class_of(_made_where_none_was(node))):
            scope.types[name] = made
        if kind is ast.Call or (kind is ast.Await and type(node.value) is ast.Call):  # type: ignore[attr-defined]
            self.fresh[name] = self.loop()
        elif kind is ast.List:
            self.begun.add(name)
        elif kind is ast.Lambda:
            self._name_function(name, value)
        elif kind is ast.Dict and value:
            scope.env.update((f"{name}[{key!r}]", part) for key, part in self.parts_of(node))
        if kind is ast.Call and node.keywords and node.func is self.called[0]:  # type: ignore[attr-defined]
            self._keep_fields(name, node)  # type: ignore[arg-type]
        if scope.node is None and not scope.owner:
            self._module_variable(name, value)
        elif scope.node is None:
            self.keep_class_value(name, value, is_once=not _is_factory(node))
        elif name in self.global_names:
            self.module.variables.setdefault(name, []).append((value, False))

    def _kept_by_object(self) -> Value:
        """What this method was given and keeps in attributes of its object."""
        stored = [
            value
            for (owner, _), values in self.module.attributes.items()
            if owner == self.scope.owner
            for value, _ in values
        ]
        given = map(self.parameter, sorted(self.scope.function.named))
        return CLEAN.union(*(one for one in given if any(one <= value for value in stored)))

    def _keep_fields(self, name: str, made: ast.Call) -> None:
        """`args = Args(now=…)`: what is read as `args.now` is that."""
        given = zip(made.keywords, self.called[2], strict=True) if last_name(made.func)[:1].isupper() else ()
        kept = {f"{name}.{keyword.arg}": value for keyword, value in given if keyword.arg and value}
        if kept:
            self.fields[name] = [*kept]
            self.scope.env.update(kept)

    def _class_of(self, node: ast.expr) -> str:
        """The full name of the class an expression makes one of, or of the function or class it is.

        Empty where nothing says.
        """
        if type(node) is ast.Await and type(node.value) is ast.Call:
            node = node.value
        is_call = type(node) is ast.Call
        is_known = is_call and self.called[0] is node.func  # type: ignore[attr-defined]
        made = self.called[1] if is_known else self.dotted(node) if type(node) in _MAKE else ""
        return "" if not made or made[0] == "?" or (is_call and self.gives_unknown(made)) else made

    def _is_tested(self, name: str) -> bool:
        """Whether a test around looks at a variable; the outermost one counts where it chooses a setting itself."""
        tests = [branch.test for branch in self.branches[0 if _may_choose(self.branches[0]) else 1 :]]
        return any(isinstance(part, ast.Name) and part.id == name for test in tests for part in walk(test))

    def _module_variable(self, name: str, value: Value) -> None:
        self.bound.add(name)
        if value:
            self.module.variables.setdefault(name, []).append((value, True))
        if name in self.scope.types:
            self.names[name] = self.scope.types[name]

    def keep_class_value(self, name: str, value: Value, *, is_once: bool = True) -> None:
        """A value in a class's body is made once, what a factory there makes once for each object."""
        self.module.attributes.setdefault((self.scope.owner, name), []).append((value, is_once))

    def _name_function(self, name: str, value: Value) -> None:
        """`now = lambda: datetime.now()`: a function like any other."""
        around = self.scope.function.name.removesuffix(f".{MODULE_BODY}")
        function = Function(f"{around}.{name}", returned=value)
        self.module.functions[function.name.removeprefix(f"{self.module.name}.")] = function
        self.scope.types[name] = function.name

    def _store_attribute(self, target: ast.Attribute, value: Value, node: ast.expr) -> None:
        holder, scope = target.value, self.scope
        if type(holder) is not ast.Name:
            self.table[type(holder)](holder)
            return
        if holder.id == scope.myself and scope.owner:
            if target.attr.endswith("cache_key") and sanitizers.ANEW.match(last_part(scope.function.name)):
                return
            if not self.probing:
                is_once = scope.function.is_once and not self.loops
                self.module.attributes.setdefault((scope.owner, target.attr), []).append((value, is_once))
            if type(node) in _MAKE and (made := self._class_of(_made_where_none_was(node))):
                self.class_types.setdefault((scope.owner, target.attr), made)
        scope.env[f"{holder.id}.{target.attr}"] = value

    def _store_item(self, target: ast.Subscript, value: Value, node: ast.expr) -> None:
        holder, key = target.value, target.slice
        if type(key) is not ast.Constant:
            self.table[type(key)](key)
        if type(holder) is ast.Name:
            if type(key) is ast.Constant:
                self.scope.env[f"{holder.id}[{key.value!r}]"] = value
            is_aside = type(key) is ast.Constant and (key.value in sources.ASIDE or key.value in sources.MODEL_KEYS)
            if value and holder.id in self.scope.env and not is_aside:
                self.scope.env[holder.id] |= value
        else:
            self.table[type(holder)](holder)
        self._meet_item(target, value, node)

    def _meet_item(self, target: ast.Subscript, value: Value, node: ast.expr) -> None:
        """`kwargs["tools"] = x` and `messages[0]["content"] = x`."""
        holder, key = target.value, target.slice
        word = key.value if isinstance(key, ast.Constant) else None
        self.meet_key(holder, word, node, value)
        message = holder if isinstance(holder, ast.Subscript) and word in sinks.CONTENT_KEYS else target
        if not (isinstance(message, ast.Subscript) and self.is_history(message.value)) or isinstance(
            message.slice, ast.Slice
        ):
            return
        place = message.slice
        is_front = isinstance(place, ast.Constant) and place.value in {0, 1}
        self.arrive("front" if is_front else "message", node, f"`{ast.unparse(target)}`", value=value)

    def returning(self, node: ast.Return) -> Value:
        """`return value`; of a builder's step, `return self`, what it was given."""
        if node.value is None:
            return CLEAN
        value = self.table[type(node.value)](node.value)
        if type(node.value) is ast.Name and node.value.id == self.scope.myself:
            value |= self._kept_by_object()
        if value and self.frozen_lines and self.statement_is_frozen():
            value = self.frozen(value)
        function = self.scope.function
        function.returned |= value
        if type(node.value) is ast.Tuple:
            for place, item in enumerate(node.value.elts):
                function.items[place] = function.items.get(place, CLEAN) | self.probe(item)
        elif type(node.value) is ast.Dict and value:
            for key, part in self.parts_of(node.value):
                function.items[key] = function.items.get(key, CLEAN) | part
        if self.returns_to is not None:
            self.arrive(self.returns_to, node.value, f"what `{self.returns_name}()` gives", is_named=True, value=value)
        return CLEAN


def _made_where_none_was(node: ast.expr) -> ast.expr:
    """`given or Made()`, `Made() if given is None else given`: what is made; of `partial(f, x)` what it calls."""
    if type(node) is ast.BoolOp and type(node.op) is ast.Or:
        node = node.values[-1]
    elif type(node) is ast.IfExp:
        node = node.body if type(node.body) is ast.Call else node.orelse
    return node.args[0] if type(node) is ast.Call and node.args and last_name(node.func) == "partial" else node


def _is_factory(node: ast.expr) -> bool:
    """`field(default_factory=…)` of a class."""
    return type(node) is ast.Call and any(keyword.arg in {"default_factory", "factory"} for keyword in node.keywords)


def _may_choose(node: ast.If) -> bool:
    return any(
        isinstance(part, ast.Assign) and last_name(part.targets[0]) in sources.FLAGS
        for part in (*node.body, *node.orelse)
    )


def last_part(name: str) -> str:
    """The function's own name."""
    return name.rpartition(".")[2]
