"""Source rules of CKM26 side-call-pollutes-lane."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import FUNCTIONS, AnyFunction, keyword, model_calls, words_in
from contextkit.lint.source.rule import Hit, Pattern, View

_SIDE = re.compile(r"summar|judge|evaluat|classif|suggest|(?:^|_)titles?|name_session|name_conversation", re.IGNORECASE)


def _under_the_key(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A helper's call has the key of the session."""
    if not _SIDE.search(function.name):
        return
    for call in model_calls(function, view):
        key = keyword(call, "prompt_cache_key")
        if (
            key is not None
            and re.search(r"session|conversation|thread|chat", words_in(key))
            and not isinstance(key, ast.JoinedStr)
        ):
            yield Hit(
                key,
                f"{function.name}() continues nothing and has the session's cache key: it takes the main calls' place",
            )


SOURCE = (Pattern(FUNCTIONS, _under_the_key, ("prompt_cache_key",), is_near=True),)
