"""Source rules of CKM25 side-call-divergent-prefix."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_HISTORY,
    AnyFunction,
    inside,
    keyword,
    model_calls,
    text_in,
    unwrapped,
)
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk

_SIDE = re.compile(r"summar|compact|condens|judge|evaluat|extract|reflect|classif|(?:^|_)title", re.IGNORECASE)


def _retold(function: AnyFunction, view: View) -> Iterator[Hit]:
    """The history is joined into one text and sent under another system prompt."""
    if not _SIDE.search(function.name):
        return
    is_joined = any(_is_transcript(node, view) for node in inside(function))
    texts = frozenset() if is_joined else _other_transcripts(function, view)
    for call in model_calls(function, view):
        is_retelling = is_joined or any(_is_one_of(part, texts, view) for part in walk(call))
        if is_retelling and (keyword(call, "system", "instructions") is not None or "system" in text_in(call).split()):
            yield Hit(
                call,
                f"{function.name}() retells the conversation as one text under another system prompt: nothing of it is read",
            )


def _is_transcript(node: ast.AST, view: View) -> bool:
    """`"\\n".join(f"{m['role']}: …" for m in messages)`."""
    is_join = isinstance(node, ast.Call) and last_name(node.func) == "join" and bool(node.args)
    given = node.args[0] if is_join and isinstance(node, ast.Call) else None
    return isinstance(given, ast.ListComp | ast.GeneratorExp) and view.is_history(unwrapped(given.generators[0].iter))


def _other_transcripts(function: AnyFunction, view: View) -> frozenset[str]:
    """Variables that hold a history as text: dumped as it is, or added up in a loop through it."""
    dumped = [node for node in view.nodes(function, ast.Assign) if _is_dump(node.value, view)]
    loops = [node for node in view.nodes(function, ast.For) if view.is_history(unwrapped(node.iter))]
    added = [
        part
        for loop in loops
        for part in view.nodes(loop, ast.AugAssign)
        if isinstance(part.value, ast.JoinedStr | ast.BinOp)
    ]
    return frozenset(
        last_name(target) for target in (*(node.targets[0] for node in dumped), *(part.target for part in added))
    )


def _is_one_of(node: ast.AST, texts: frozenset[str], view: View) -> bool:
    return (isinstance(node, ast.Name) and node.id in texts) or _is_dump(node, view)


def _is_dump(node: ast.AST, view: View) -> bool:
    """`json.dumps(messages)`, `get_buffer_string(messages)`."""
    is_call = isinstance(node, ast.Call) and last_name(node.func) in ("dumps", "get_buffer_string") and bool(node.args)
    return is_call and isinstance(node, ast.Call) and view.is_history(unwrapped(node.args[0]))


SOURCE = (
    Pattern(
        FUNCTIONS,
        _retold,
        ("summar", "compact", "condens", "judge", "evaluat", "extract", "reflect", "classif", "title"),
        is_near=True,
        also=(IN_HISTORY, ("join", "dumps", "get_buffer_string", "+="), ("system", "instructions")),
    ),
)
