"""Source rules of CKL09 prewarm-mismatch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.callsites import calls_in, has_unknown_keywords, is_model_call, is_nothing, keyword
from contextkit.lint.rules.marking import constant, module_of
from contextkit.lint.source.rule import Hit, Pattern, View

_KEYING = ("tools", "thinking", "output_config", "system")
"""Arguments that are rendered into the prompt: what the real call has and the warm-up has not makes two prompts of
them."""

_WARMS = re.compile(r"(?i)pre_?warm|warm_?up|warm_|prime|preheat|prefill_cache")


def _other_request(node: ast.Call, view: View) -> Iterator[Hit]:
    limit, function = constant(keyword(node, "max_tokens")), view.function()
    is_warming = limit == 0 or (limit == 1 and function is not None and bool(_WARMS.search(function.name)))
    if isinstance(limit, bool) or not is_warming or has_unknown_keywords(node) or not is_model_call(node, view):
        return
    module = module_of(view)
    real = [call for call in calls_in(getattr(module, "body", [])) if call is not node and _is_real(call, view)]
    missing = [name for name in _KEYING if not _has(node, name) and real and all(_has(call, name) for call in real)]
    if missing:
        yield Hit(node, f"the warm-up has no `{missing[0]}`, the calls it is for have: they do not find what it writes")


def _is_real(call: ast.Call, view: View) -> bool:
    limit = constant(keyword(call, "max_tokens"))
    return is_model_call(call, view) and not has_unknown_keywords(call) and limit not in (0, 1)


def _has(call: ast.Call, name: str) -> bool:
    value = keyword(call, name)
    return value is not None and not is_nothing(value)


SOURCE = (
    Pattern(
        (ast.Call,),
        _other_request,
        ("max_tokens=0", "max_tokens=1", "max_tokens = 0", "max_tokens = 1"),
        also=(("max_tokens",),),
        names=("max_tokens",),
    ),
)
