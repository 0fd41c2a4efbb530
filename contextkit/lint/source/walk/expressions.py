"""What an expression's value is made of: names, text, operators.

Takes the walk's state, gives one handler for each type of expression; knows nothing of calls and statements.
"""

from __future__ import annotations

from typing import Any

from contextkit.lint.source.rule import Kind
from contextkit.lint.source.summary import CLEAN, Attribute, Called, Filtered, Global, Item, Shown, Source, Value
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.pieces import last_name
from contextkit.lint.source.tables import sanitizers, sources
from contextkit.lint.source.walk.arrivals import n_characters
from contextkit.lint.source.walk.displays import Displays, Handler

_NO_TEXT = (ast.Not,)
_RECKONING = frozenset({ast.Div, ast.FloorDiv, ast.Mult, ast.Pow})
"""What is divided or multiplied is a number to decide by: an age, a score."""
_CLOCKS: frozenset[Kind] = frozenset({"clock", "date"})
_REPR = ord("r")
_OF_A_PATH = frozenset({"name", "stem"})
_BUT_ENTRIES = sanitizers.EVERYTHING - {"entries"}
"""What the name of a file does not say."""


class Expressions(Displays):
    """Handlers of expressions: node → origins of its value."""

    __slots__ = ("imported", "watched_types")

    imported: dict[tuple[str, str], Value]
    """Name and the full name it stands for → what it is made of."""

    def handlers(self) -> dict[type, Handler]:
        """Node type → handler."""
        return {
            ast.Constant: self.nothing,
            ast.Name: self.name,
            ast.Attribute: self.attribute,
            ast.Subscript: self.subscript,
            ast.JoinedStr: self.joined,
            ast.FormattedValue: self.formatted,
            ast.BinOp: self.operator,
            ast.BoolOp: self.boolean,
            ast.UnaryOp: self.unary,
            ast.Compare: self.compare,
            ast.IfExp: self.ternary,
            ast.Lambda: self.function_value,
            ast.Dict: self.mapping,
            ast.List: self.sequence,
            ast.Tuple: self.sequence,
            ast.Set: self.set_display,
            ast.ListComp: self.comprehension,
            ast.GeneratorExp: self.comprehension,
            ast.SetComp: self.set_comprehension,
            ast.DictComp: self.dict_comprehension,
            ast.Await: self.inner,
            ast.Starred: self.inner,
            ast.NamedExpr: self.walrus,
            ast.Yield: self.given,
            ast.YieldFrom: self.given,
            ast.Slice: self.any_children,
        }

    def evaluate(self, node: ast.AST) -> Value:
        """Origins of an expression's value; what meets the prompt inside it is noted."""
        return self.table[type(node)](node)

    def nothing(self, node: ast.AST) -> Value:
        """A constant."""
        return CLEAN

    def any_children(self, node: ast.AST) -> Value:
        """Whatever stands inside it."""
        value = CLEAN
        for child in ast.iter_child_nodes(node):
            handler = self.table.get(type(child))
            if handler:
                value |= handler(child)
        return value

    def inner(self, node: Any) -> Value:
        """What it wraps."""
        return self.table[type(node.value)](node.value)

    def given(self, node: Any) -> Value:
        """`yield`: a generator gives it back."""
        if node.value is not None:
            self.scope.function.returned |= self.table[type(node.value)](node.value)
        return CLEAN

    # Names
    # ----------------------------------------------------------------------------------------------------------------

    def name(self, node: ast.Name) -> Value:
        """A variable: of the function, else of the module."""
        name = node.id
        found = self.scope.env.get(name)
        if found is not None:
            return found
        if name in self.module.variables:
            return self.variable(name)
        full = self.names.get(name)
        if full is None:
            return CLEAN
        found = self.imported.get((name, full))
        if found is None:
            found = self.imported[name, full] = self._imported(name, full)
        return found

    def _imported(self, name: str, full: str) -> Value:
        """A name another module of the tree made: its variable, if it is one."""
        tail = full.rpartition(".")[2]
        if self.is_ours(full) and (tail.isupper() or tail.islower()) and full != f"{self.module.name}.{name}":
            return self.number(Global(full))
        return CLEAN

    def attribute(self, node: ast.Attribute) -> Value:
        """`a.b`: what was stored there, else what `a` is made of."""
        holder, attribute, scope = node.value, node.attr, self.scope
        if type(holder) is ast.Name:
            name = holder.id
            found = scope.env.get(f"{name}.{attribute}")
            if found is not None:
                return found
            if name == scope.myself and scope.owner:
                told = self._field(node) if attribute in _TOLD else CLEAN
                return told or self.number(Attribute(f"{self.module.name}.{scope.owner}", attribute))
            value = scope.env.get(name, CLEAN)
        else:
            value = self.table[type(holder)](holder)
        if attribute in sources.TEXT_PARTS:
            return self.by_day(value) if value and attribute in sources.DAY_FIELDS else value
        told = (self._field(node) if attribute in _TOLD else CLEAN) or self._of_known_class(node)
        if value and attribute in sources.PARTS:
            told |= self._part_of(value, attribute, holder)
        return told | self.filtered(value, _BUT_ENTRIES) if value and attribute in _OF_A_PATH else told

    def _field(self, node: ast.Attribute) -> Value:
        """An attribute whose name says what it holds."""
        kind = sources.FIELDS.get(node.attr)
        if kind == "place" and self._is_stored_here(node):
            return CLEAN
        if kind == "user" and sources.SETTINGS.search(last_name(node.value)):
            return CLEAN
        if kind is None and node.attr in _VARIABLE_TAILS:
            kind = sources.ATTRIBUTES.get(self.dotted(node))
        if kind is None and node.attr in sources.PERSONAL and last_name(node.value) in sources.PEOPLE:
            kind = "person"
        return CLEAN if kind is None else self.varies(kind, node)

    def _is_stored_here(self, node: ast.Attribute) -> bool:
        """Whether this class says what its attribute holds: a folder that whoever made the object gave it is a setting."""
        is_mine = type(node.value) is ast.Name and node.value.id == self.scope.myself
        return is_mine and (self.scope.owner, node.attr) in self.module.attributes

    def _of_known_class(self, node: ast.Attribute) -> Value:
        """An attribute of an object whose class stands in the linted tree.

        Of any other object nothing is known: that it was made with an id does not mean that each of its texts holds
        one.
        """
        owner = self.dotted(node.value)
        return self.number(Attribute(owner, node.attr)) if owner and self.is_ours(owner) else CLEAN

    def by_day(self, value: Value) -> Value:
        """A clock read with the precision of a day."""
        days = CLEAN
        for number in value:
            origin = self.module.origins[number]
            if isinstance(origin, Source):
                days |= self.number(Source("date", origin.site)) if origin.kind == "clock" else frozenset((number,))
            else:
                days |= self.number(Filtered(frozenset((number,)), frozenset(), is_daily=True))
        return days

    def by_clock(self, value: Value) -> Value:
        """What is called a date, and is written with hours and minutes."""
        origins = [self.module.origins[number] for number in value]
        dates = [origin.site for origin in origins if isinstance(origin, Source) and origin.kind == "date"]
        return value.union(*(self.number(Source("clock", site)) for site in dates))

    def subscript(self, node: ast.Subscript) -> Value:
        """`a[i]`: what was stored there, else what `a` is made of."""
        key = node.slice
        if type(key) is ast.Constant:
            if type(node.value) is ast.Name:
                found = self.scope.env.get(f"{node.value.id}[{key.value!r}]")
                if found is not None:
                    return found
            value = self.item(self.table[type(node.value)](node.value), key.value, node)
        else:
            held = self.table[type(node.value)](node.value)
            if type(key) is not ast.Slice:
                held = self.message_of(self.filtered(held, sanitizers.ORDER), node.value)
            value = held | self.filtered(self.table[type(key)](key), self.looked_up(node))
        if last_name(node.value) in sources.MODEL_LISTS:
            value |= self.varies("model", node)
        return value

    def looked_up(self, node: ast.AST) -> frozenset[Kind]:
        """What says which one of a collection, and nothing of its text.

        One of several models is no other text of a prompt.
        """
        holder = node.value if isinstance(node, ast.Attribute | ast.Subscript) else node
        return (
            sanitizers.LOOKED_UP | {"choice"} if last_name(holder).lower().endswith("models") else sanitizers.LOOKED_UP
        )

    def item(self, value: Value, key: object, node: ast.expr) -> Value:
        """What stands under a constant key."""
        if type(key) is not str:
            return self.message_of(value, node.value) if value and isinstance(node, ast.Subscript) else value
        kind = sources.FIELDS.get(key)
        if kind is not None and kind not in {"clock", "date", "place"}:
            return self.varies(kind, node)
        if key in sources.TEXT_PARTS or not value:
            return value
        whole = frozenset(number for number in value if isinstance(self.module.origins[number], Called))
        part = self._part_of(value, key, getattr(node, "value", node)) if key in sources.PARTS else CLEAN
        return part | self.number(Item(whole, key)) if whole else part

    def _part_of(self, value: Value, name: str, holder: ast.AST) -> Value:
        """What a part of this name still holds of what it is a part of; the title of a plan is that of the whole."""
        kinds = sources.PARTS[name] if name not in sources.TITLES or not last_name(holder).endswith("plan") else ()
        return frozenset(number for number in value if getattr(self.module.origins[number], "kind", "") in kinds)

    # Text and operators
    # ---------------------------------------------------------------------------------------------------

    def joined(self, node: ast.JoinedStr) -> Value:
        """An f-string."""
        value = CLEAN
        for part in node.values:
            if type(part) is not ast.Constant:
                value |= self.table[type(part)](part)
        return self.but_for_the_end(node, value) if value and n_characters(node) >= sanitizers.WHOLE_PROMPT else value

    def formatted(self, node: ast.FormattedValue) -> Value:
        """`{x:spec}`: a day's format makes a clock a date."""
        value = self.table[type(node.value)](node.value)
        if node.conversion != _REPR:
            value = self.as_text(node.value, value)
        spec = node.format_spec
        if spec is not None and value:
            parts = getattr(spec, "values", [])
            if len(parts) == 1 and is_day_format(parts[0]):
                return self.by_day(value)
            return value | self.table[type(spec)](spec)
        return value

    def as_text(self, node: ast.expr, value: Value) -> Value:
        """An object of the linted tree says what its class makes of it."""
        owner = self.class_of_object(node)
        return self.number(Shown(owner, value)) if owner else value

    def class_of_object(self, node: ast.AST) -> str:
        """The full name of the class of the linted tree that an object is one of, as a variable or attribute.

        Empty where none is known.
        """
        kind, scope = type(node), self.scope
        if kind is ast.Name:
            owner = scope.types.get(node.id)  # type: ignore[attr-defined]
        elif kind is ast.Attribute:
            holder = node.value  # type: ignore[attr-defined]
            is_mine = type(holder) is ast.Name and holder.id == scope.myself
            owner = self.class_types.get((scope.owner, node.attr)) if is_mine else None  # type: ignore[attr-defined]
        else:
            owner = self.dotted(node) if kind is ast.Call else None
        return owner if owner and self.is_ours(owner) and owner.rpartition(".")[2].lstrip("_")[:1].isupper() else ""

    def operator(self, node: ast.BinOp) -> Value:
        """Both sides; a long chain of `+` is gone through without recursion."""
        left: ast.expr = node
        value, taken, is_reckoned = CLEAN, CLEAN, False
        while type(left) is ast.BinOp:
            right = (
                self.table[type(left.right)](left.right)
                if type(left.op) is not ast.Mod
                else self._filled_in(left.right)
            )
            if right and type(left.op) is ast.Sub:
                taken |= right
            else:
                value |= right
            is_reckoned = is_reckoned or type(left.op) in _RECKONING
            left = left.left
            if ast.BinOp in self.watched_types:
                break
        value |= self.table[type(left)](left)
        if taken:
            value |= self._taken_away(node, taken, value)
        return self.filtered(value, _CLOCKS) if is_reckoned else value

    def _taken_away(self, node: ast.BinOp, taken: Value, value: Value) -> Value:
        """`names - {"self"}`: what is taken away gives what is left no order; it is a set all the same."""
        is_told = self._has_set(value) or not self._has_set(taken)
        return self.filtered(taken, sanitizers.ORDER) | (CLEAN if is_told else self.varies("unordered", node))

    def _has_set(self, value: Value) -> bool:
        """Whether an origin is a set."""
        return any(
            isinstance(origin := self.module.origins[number], Source) and origin.kind == "unordered" for number in value
        )

    watched_types: frozenset[type]

    def _filled_in(self, node: ast.expr) -> Value:
        """The right side of `"It is %s, %s" % (now, context)`."""
        parts = node.elts if type(node) is ast.Tuple else [node]
        return CLEAN.union(*(self.as_text(part, self.table[type(part)](part)) for part in parts))

    def boolean(self, node: ast.BoolOp) -> Value:
        """Any of its sides."""
        value = CLEAN
        for part in node.values:
            value |= self.table[type(part)](part)
        return value

    def unary(self, node: ast.UnaryOp) -> Value:
        """`not x` says nothing of the text."""
        value = self.table[type(node.operand)](node.operand)
        return CLEAN if type(node.op) in _NO_TEXT else value

    def compare(self, node: ast.Compare) -> Value:
        """A comparison says nothing of the text."""
        self.table[type(node.left)](node.left)
        for part in node.comparators:
            self.table[type(part)](part)
        return CLEAN

    def ternary(self, node: ast.IfExp) -> Value:
        """Either side."""
        self.table[type(node.test)](node.test)
        return self.table[type(node.body)](node.body) | self.table[type(node.orelse)](node.orelse)

    def function_value(self, node: ast.Lambda) -> Value:
        """What calling it gives: frameworks call it once for each run."""
        env = self.scope.env
        self.scope.env = {
            **env,
            **{argument.arg: CLEAN for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)},
        }
        try:
            return self.table[type(node.body)](node.body)
        finally:
            self.scope.env = env

    def walrus(self, node: ast.NamedExpr) -> Value:
        """Stores and gives."""
        value = self.table[type(node.value)](node.value)
        self.scope.env[node.target.id] = value
        return value


_VARIABLE_TAILS = frozenset(name.rpartition(".")[2] for name in sources.ATTRIBUTES)
_TOLD = _VARIABLE_TAILS | sources.FIELDS.keys() | sources.PERSONAL
"""Names of attributes that a table tells of."""


def is_day_format(node: ast.AST) -> bool:
    """Whether a constant is a format of strftime no finer than a day."""
    directives = _directives(node)
    return bool(directives) and not directives & sources.DAY_FORMAT


def is_zone_format(node: ast.AST) -> bool:
    """Whether a constant is a format of strftime that names the zone of time and nothing else."""
    directives = _directives(node)
    return bool(directives) and directives <= {"Z", "z"}


def is_clock_format(node: ast.AST) -> bool:
    """Whether a constant is a format of strftime finer than a day."""
    return bool(_directives(node) & sources.DAY_FORMAT)


def _directives(node: ast.AST) -> set[str]:
    """`{"Y", "m"}` of `"%Y-%m"`; none of anything else."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return {part[:1] for part in text.replace("%-", "%").split("%")[1:]}
