"""JSON text: in which order the keys of what is serialised stand, and whether others chose it.

Takes the walk's state and a call, gives the origins of its text; knows nothing of other calls.
"""

from __future__ import annotations

from contextkit.lint.source.rule import SORT_KEYS, Kind
from contextkit.lint.source.summary import Source, Value
from contextkit.lint.source.syntax import nodes as ast
from contextkit.lint.source.syntax.edits import appended
from contextkit.lint.source.syntax.pieces import last_name
from contextkit.lint.source.tables import sanitizers, sources
from contextkit.lint.source.walk.expressions import Expressions

_DEEP = 4  # how far back it is asked what a mapping was made from


class Dumps(Expressions):
    """What a call gives that serialises."""

    __slots__ = ("annotations",)

    annotations: dict[str, ast.expr]
    """Parameter of the function around → what it is said to be."""

    def dumped(self, node: ast.Call, name: str, everything: Value) -> Value:
        """JSON text: its keys stand in the order they were put in, unless the call sorts them."""
        sorting = next((keyword.value for keyword in node.keywords if keyword.arg == "sort_keys"), None)
        is_unsorted = isinstance(sorting, ast.Constant) and not sorting.value
        if not is_unsorted and any(word in ast.unparse(node) for word in sanitizers.SORTING_WORDS):
            return self.filtered(everything, frozenset({"mapping", "unsorted_json", "rows"}))
        if not node.args or not self._has_loose_order(node.args[0], _DEEP):
            return everything
        if sorting is None and name in sanitizers.TAKES_SORT_KEYS and all(keyword.arg for keyword in node.keywords):
            last = max((*node.args, *node.keywords), key=lambda part: self.bytes_at(part)[1])
            edit = appended(self.source, self.bytes_at(last), self.bytes_at(node)[1], "sort_keys=True")
            self.offer(self.site(node)[:4], SORT_KEYS, edit)
        return everything | self.varies("unsorted_json", node)

    def _has_loose_order(self, node: ast.expr, depth: int) -> bool:
        """Whether the keys of what is serialised stand in an order that others chose: handed in, received, stored, of a
        set.
        """
        if depth < 0:
            return False
        if type(node) is ast.Name:
            stored = self.stored.get(node.id)
            if stored:
                return self._has_loose_order(stored[-1], depth - 1)
            return node.id == self.scope.function.extra or (
                node.id in self.scope.function.named and self._is_mapping(node.id)
            )
        if type(node) is ast.Call:
            return self._gives_loose_order(node, depth)
        if type(node) is ast.Attribute or type(node) is ast.Subscript:
            return bool(sources.FILLED.search(last_name(node)))
        if type(node) is ast.DictComp:
            loop = node.generators[0].iter
            return bool(self.probe(loop) & self._of_kind("unordered", "paths", "rows")) or self._has_loose_order(
                loop, depth - 1
            )
        if type(node) is ast.Dict:
            return any(self._has_loose_order(value, depth - 1) for value in node.values)
        return type(node) is ast.Await and self._has_loose_order(node.value, depth - 1)

    def _gives_loose_order(self, node: ast.Call, depth: int) -> bool:
        last = last_name(node.func)
        if last in {"dict", "items", "copy", "deepcopy"}:
            holder = node.args[0] if node.args else getattr(node.func, "value", node)
            return holder is not node and self._has_loose_order(holder, depth - 1)
        if last == "get" and node.args and isinstance(node.args[0], ast.Constant):
            return bool(sources.FILLED.search(str(node.args[0].value)))
        return self.dotted(node) in sources.LOADS or last in sources.LOADING

    def _is_mapping(self, parameter: str) -> bool:
        """Whether a parameter may be a mapping that somebody fills, by its annotation or, where it has none, by its
        name.
        """
        note = self.annotations.get(parameter)
        is_mapping = note is None or bool(sources.MAPPINGS.match(ast.unparse(note)))
        return is_mapping and bool(sources.FILLED.search(parameter))

    def _of_kind(self, *kinds: Kind) -> Value:
        """Numbers of the sources of some kinds met so far."""
        return frozenset(
            at for at, origin in enumerate(self.module.origins) if isinstance(origin, Source) and origin.kind in kinds
        )
