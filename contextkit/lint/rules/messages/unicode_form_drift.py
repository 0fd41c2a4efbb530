"""Source rules of CKM29 unicode-form-drift."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import words_in
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import walk

_LOADS = re.compile(r"(?:^|_)(?:load|resume|restore|reopen|rehydrate|replay|from_(?:json|store|db|disk))")

_SAID = re.compile(r"message|history|content|result|transcript|session", re.IGNORECASE)


def _on_loading(call: ast.Call, view: View) -> Iterator[Hit]:
    """Text of a stored conversation is brought into another Unicode form."""
    function = view.function()
    if view.dotted(call) != "unicodedata.normalize" or function is None or len(call.args) < 2:
        return
    if (
        _LOADS.search(function.name)
        and _SAID.search(f"{words_in(call.args[1])} {function.name}")
        and not _is_key(call, view)
    ):
        yield Hit(call, "text of a stored conversation gets another Unicode form than it was sent in")


def _is_key(call: ast.Call, view: View) -> bool:
    """Whether the new form is looked up or compared and reaches no message: `{normalize("NFKC", text): at for …}`."""
    around = view.parents()
    keys = [above.key for above in around if isinstance(above, ast.DictComp)]
    keys += [above.slice for above in around if isinstance(above, ast.Subscript)]
    is_inside = any(part is call for key in keys for part in walk(key))
    return is_inside or any(isinstance(above, ast.Compare | ast.SetComp | ast.Set) for above in around)


SOURCE = (Pattern((ast.Call,), _on_loading, ("unicodedata",)),)
