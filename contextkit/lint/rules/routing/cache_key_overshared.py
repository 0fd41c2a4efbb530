"""Source rules of CKR05 cache-key-overshared."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from contextkit.lint.rules.callsites import as_keys, field, is_nothing, text_of
from contextkit.lint.rules.marking import in_class, resolved
from contextkit.lint.source.rule import Hit, Pattern, View

_TAKEN_IN = ("extra_args", "extra_body", "model_kwargs")
"""How a framework is told what else to send."""

_MESSAGE = "one cache key for every conversation sends all of them to one machine"

_KEY, _DERIVED = "prompt_cache_key", "auto"
"""The parameter, and the value that has contextkit derive it."""


def _constant(node: ast.keyword, view: View) -> Iterator[Hit]:
    """`prompt_cache_key="my-app"`, also by way of a constant of the module."""
    if node.arg != _KEY:
        return
    if text_of(node.value) == _DERIVED and any(
        view.dotted(parent).startswith("contextkit.") for parent in view.parents()
    ):
        return
    if _is_for_all(node.value, view):
        yield Hit(node.value, _MESSAGE)


def _nested(node: ast.Dict, view: View) -> Iterator[Hit]:
    """`ModelSettings(extra_args={"prompt_cache_key": "my-app"})`, `ChatOpenAI(model_kwargs={"prompt_cache_key":
    "my-app"})`.
    """
    value, above = field(node, _KEY), view.parents()[-1:]
    is_sent = any(isinstance(part, ast.keyword) and part.arg in _TAKEN_IN for part in above)
    if value is not None and is_sent and _is_for_all(value, view):
        yield Hit(value, _MESSAGE)


def _is_for_all(node: ast.expr, view: View) -> bool:
    """Whether a key is a text, a constant of the module, or a text in which such constants are filled in."""
    if isinstance(node, ast.Attribute):
        node = in_class(node, view) or node
    found = resolved(node, view) if isinstance(node, ast.Name) and not node.id.isupper() else node
    if isinstance(found, ast.JoinedStr):
        filled = [part.value for part in found.values if isinstance(part, ast.FormattedValue)]
        return all(isinstance(resolved(part, view), ast.Constant) for part in filled)
    is_named = isinstance(node, ast.Name) and node.id.isupper() and not is_nothing(node) and view.is_constant(node)
    return bool(text_of(found)) or is_named


SOURCE = (
    Pattern((ast.keyword,), _constant, (_KEY,), is_near=True, names=(_KEY,)),
    Pattern((ast.Dict,), _nested, as_keys(_KEY), is_near=True, names=(_KEY,)),
)
