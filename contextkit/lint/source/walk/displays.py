"""Displays and comprehensions: lists, dicts and sets, what each part holds, and what of them is a message, a tool or a
request.

Takes the walk's state, gives a handler for each; knows nothing of names, operators and calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contextkit.lint.source.rule import MOVE_MARKER, SORT_ITEMS, SORT_TOOLS
from contextkit.lint.source.summary import CLEAN, Called, Item, Source, Value
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.edits import appended, removed, wrapped
from contextkit.lint.source.syntax.pieces import constant_keys, last_name, walk
from contextkit.lint.source.tables import sanitizers, sinks, sources
from contextkit.lint.source.walk.arrivals import Arrivals, is_role

Handler = Callable[[Any], Value]
_SAME_ITEMS = frozenset({"enumerate", "reversed", "list"})
_ORDERS = sanitizers.ORDER - {"rows"}
"""Orders of a collection: of a row, what is made of it says itself whether it was put into one form."""
_SETS = frozenset({"set", "frozenset", "Set", "AbstractSet", "FrozenSet", "MutableSet"})


class Displays(Arrivals):
    """Handlers of displays and comprehensions: node → origins of its value."""

    __slots__ = ("may_mark", "orders", "table")

    table: dict[type, Handler]
    """Node type → handler, of all expressions."""

    def sequence(self, node: ast.List | ast.Tuple) -> Value:
        """A list or tuple; a message put before a running history is the front."""
        value = CLEAN
        for item in _values(node.elts) if node.elts and type(node.elts[0]) is ast.Tuple else node.elts:
            value |= self.table[type(item)](item)
        if self.may_mark and type(node) is ast.List:
            self._offer_marker(node)
            value = value and self.but_behind_a_marker(node.elts, value)
        is_item = getattr(self.statement, "value", None) is not node
        if len(node.elts) == 2 and type(node) is ast.Tuple and is_item and is_role(node.elts[0]):
            self.arrive("system", node.elts[1], "the system message")
        last = node.elts[-1] if len(node.elts) > 1 else None
        if type(last) is ast.Starred and type(node.elts[0]) is ast.Dict and self.is_history(last.value):
            self.arrive("front", node.elts[0], "the first message")
        return value

    may_mark: bool
    """Whether the file sets a marker anywhere."""

    def _offer_marker(self, node: ast.List) -> None:
        """The marker of a block that varies, on the last one before it that does not: all of them dicts written out in
        this list.
        """
        stable: ast.Dict | None = None
        for block in node.elts:
            keys = constant_keys(block) if isinstance(block, ast.Dict) else {}
            marker, content = keys.get("cache_control"), keys.get("text")
            if marker is None and isinstance(block, ast.Dict) and content is not None and not self.kinds(content):
                stable = block
            elif marker is not None:
                if stable is not None and isinstance(block, ast.Dict) and content is not None:
                    self._offer_moved(block, marker, content, stable)
                return

    def _offer_moved(self, block: ast.Dict, marker: ast.expr, content: ast.expr, stable: ast.Dict) -> None:
        key = next(
            key for key, value in zip(block.keys, block.values, strict=True) if value is marker and key is not None
        )
        start, end = self.bytes_at(key)[0], self.bytes_at(marker)[1]
        last = self.bytes_at(stable.keys[-1] or stable.values[-1])[0], self.bytes_at(stable.values[-1])[1]
        item = self.source[start:end].decode()
        if "\n" not in item and "#" not in item:
            added = appended(self.source, last, self.bytes_at(stable)[1], item)
            self.offer(self.site(content)[:4], MOVE_MARKER, added, removed(self.source, start, end))

    def set_display(self, node: ast.Set) -> Value:
        """A set has no order."""
        value = CLEAN
        for item in node.elts:
            value |= self.table[type(item)](item)
        has_some = len(node.elts) > 1 or type(node.elts[0]) is ast.Starred
        return value | self.varies("unordered", node) if has_some else value

    def mapping(self, node: ast.Dict) -> Value:
        """A dict display: a message, a tool definition, a request, or just a mapping."""
        value, keyed = CLEAN, {}
        beside = _beside(node)
        for key, item in zip(node.keys, node.values, strict=True):
            part = self.table[type(item)](item)
            if not (type(key) is ast.Constant and beside(key.value)):
                value |= part
            if type(key) is ast.Constant:
                keyed[key.value] = part
            elif key is not None:
                value |= self.filtered(self.table[type(key)](key), sanitizers.LOOKED_UP)
        if value:
            self.display = node, keyed
            self.meet_keys(constant_keys(node), keyed)
        return value

    display: tuple[ast.Dict | None, dict[Any, Value]]
    """The dict display that was evaluated last, and what stands under its keys."""

    def parts_of(self, node: ast.expr) -> list[tuple[str, Value]]:
        """What stands under the text keys of a dict display that was evaluated just now."""
        known, keyed = self.display
        return [(key, part) for key, part in keyed.items() if isinstance(key, str)] if known is node else []

    # Comprehensions
    # -------------------------------------------------------------------------------------------------------

    def comprehension(self, node: Any) -> Value:
        """Its elements, and for a list of tools also what chose them."""
        chosen = self.generators(node.generators)
        order = self.order_of(node.generators[0].iter)
        value = self.table[type(node.elt)](node.elt) | order
        if (
            order
            and type(node) is ast.ListComp
            and "name" in (constant_keys(node.elt) if isinstance(node.elt, ast.Dict) else ())
        ):
            for number in order:
                self._offer_sorted(number, SORT_TOOLS, node, ', key=lambda tool: tool["name"]')
        return value | chosen if chosen and self.is_of_tools(node.generators[0].iter) else value

    orders: list[Value]
    """Of each loop around, the order it goes in."""

    def order_of(self, node: ast.expr) -> Value:
        """Whatever is made of the items of a collection, it is made in the collection's order."""
        if type(node) is ast.Constant:
            return CLEAN
        return frozenset(number for number in self.probe(node) if self._is_order(number))

    def _offer_sorted(self, number: int, title: str, node: ast.expr, by: str = "") -> None:
        """What is found at a source ends when this expression is sorted."""
        origin = self.module.origins[number]
        if isinstance(origin, Source) and "sorted" not in self.scope.env:
            self.offer(origin.site[:4], title, *wrapped(*self.bytes_at(node), "sorted(", f"{by})"))

    def _is_order(self, number: int) -> bool:
        origin = self.module.origins[number]
        return isinstance(origin, Source) and origin.kind in _ORDERS

    def generators(self, generators: list[ast.comprehension]) -> Value:
        """Binds the targets of each `for`; gives what its conditions look at."""
        chosen = CLEAN
        for generator in generators:
            self.bind(generator.target, self.iterated(generator.iter))
            for test in generator.ifs:
                self.table[type(test)](test)
                chosen |= self.looked_at(test)
        return self.filtered(chosen, sanitizers.ORDER)

    def iterated(self, node: ast.expr) -> Value:
        """What going through a collection gives; a collection that changes while the program runs is a source."""
        value = self.table[type(node)](node)
        name = last_name(node.func.value if type(node) is ast.Call and type(node.func) is ast.Attribute else node)
        if name in sources.MODEL_LISTS:
            value |= self.varies("model", node)
        while value and type(node) is ast.Call and (inner := _gone_through(node)) is not None:
            node = inner
        if value and (last_name(getattr(node, "func", node)) in sources.LISTS_PATHS or _is_of_texts(node)):
            for number in self.order_of(node):
                self._offer_sorted(number, SORT_ITEMS, node)
        return self.message_of(value, node) if value else value

    def looked_at(self, node: ast.expr) -> Value:
        """The origins a condition depends on, comparisons included."""
        if type(node) is ast.Compare:
            parts = [node.left, *node.comparators]
        elif type(node) is ast.BoolOp:
            parts = node.values
        elif type(node) is ast.UnaryOp:
            parts = [node.operand]
        elif type(node) is ast.Call:
            parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.GeneratorExp | ast.ListComp):
            parts = [node.elt, *(loop.iter for loop in node.generators)]
        else:
            return self.probe(node)
        value = CLEAN
        for part in parts:
            value |= self.looked_at(part)
        return value

    def set_comprehension(self, node: ast.SetComp) -> Value:
        """A set has no order; where it was made of what is known to be one, the order was lost before."""
        value = self.comprehension(node)
        return value if self._is_known_set(node.generators[0].iter) else value | self.varies("unordered", node)

    def _is_known_set(self, node: ast.expr) -> bool:
        """Whether a condition around says `isinstance(node, set)`."""
        tests = (part for branch in self.branches for part in walk(branch.test)) if type(node) is ast.Name else ()
        asked = (
            test.args
            for test in tests
            if type(test) is ast.Call and last_name(test.func) == "isinstance" and len(test.args) == 2
        )
        return any(last_name(one) == last_name(node) and last_name(kind) in _SETS for one, kind in asked)

    def dict_comprehension(self, node: ast.DictComp) -> Value:
        """Its keys and values."""
        chosen = self.generators(node.generators)
        value = self.table[type(node.key)](node.key) | self.table[type(node.value)](node.value)
        return value | chosen if chosen and self.is_of_tools(node.generators[0].iter) else value

    def is_of_tools(self, node: ast.expr) -> bool:
        """Whether an expression goes through tools: a list of them, or a registry's `items()` and `values()`."""
        is_view = (
            type(node) is ast.Call
            and type(node.func) is ast.Attribute
            and node.func.attr in {"items", "values", "keys"}
        )
        holder = node.func.value if is_view else node  # type: ignore[attr-defined]
        return self.is_tools(holder) or (is_view and bool(sinks.REGISTRY.search(last_name(holder))))

    def bind(self, target: ast.AST, value: Value) -> None:
        """Stores a value in a variable, or in each of a tuple's."""
        kind = type(target)
        if kind is ast.Name:
            self.scope.env[target.id] = value  # type: ignore[attr-defined]
        elif isinstance(target, ast.Tuple | ast.List):
            for place, item in enumerate(target.elts):
                self.bind(item, self.part(value, place))
        elif kind is ast.Starred:
            self.bind(target.value, value)  # type: ignore[attr-defined]
        elif isinstance(target, ast.Attribute | ast.Subscript):
            self.table[type(target.value)](target.value)

    def part(self, value: Value, place: int) -> Value:
        """One of the items of a tuple: of a function's result only what it gives at that place."""
        whole = frozenset(number for number in value if isinstance(self.module.origins[number], Called))
        return (value - whole) | self.number(Item(whole, place)) if whole else value

    def message_of(self, value: Value, holder: ast.expr) -> Value:
        """One message of a history: what varies in its text arrived when it was put there, and says nothing of the
        others.
        """
        return self.filtered(value, sanitizers.MESSAGES) if value and sinks.HISTORY.match(last_name(holder)) else value


def _beside(node: ast.Dict) -> Callable[[object], bool]:
    """Which keys of a dict display stand beside its text: of a request, of a message, of any mapping."""
    keys = {key.value for key in node.keys if type(key) is ast.Constant}
    if "messages" in keys:
        return sources.is_aside
    return (sources.ASIDE if "role" in keys or "content" in keys else sources.BESIDE).__contains__


def _gone_through(node: ast.Call) -> ast.expr | None:
    """What `enumerate(x)`, `reversed(x)`, `list(x)` and `x.copy()` go through."""
    if node.args:
        return node.args[0] if last_name(node.func) in _SAME_ITEMS else None
    return node.func.value if type(node.func) is ast.Attribute and node.func.attr == "copy" else None


def _is_of_texts(node: ast.expr) -> bool:
    return type(node) is ast.Set and all(
        isinstance(item, ast.Constant) and isinstance(item.value, str) for item in node.elts
    )


def _values(items: list[ast.expr]) -> list[ast.expr]:
    """Those of `[("system", platform.system()), ("machine", platform.machine())]`: pairs of names and values, not of
    roles and texts.
    """
    pairs = [item.elts for item in items if type(item) is ast.Tuple and len(item.elts) == 2]
    names = [first.value for first, _ in pairs if type(first) is ast.Constant]
    return items if len(names) < len(items) or sinks.SPEAKERS.issuperset(names) else [value for _, value in pairs]
