"""Source rules of CKM06 old-tool-result-pruned."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from contextkit.lint.rules.syntax import (
    FUNCTIONS,
    IN_CONTENT,
    IN_HISTORY,
    AnyFunction,
    Write,
    compacts,
    content_writes,
    text_in,
    unwrapped,
    words_in,
)
from contextkit.lint.source.rule import Hit, Pattern, View
from contextkit.lint.source.syntax import last_name, walk

_WORDS = (
    "clear",
    "prun",
    "truncat",
    "omit",
    "remov",
    "elid",
    "compact",
    "trimm",
    "expire",
    "collapsed",
    "redacted",
    "stripped",
    "hidden",
)

_CLEARED = re.compile("|".join((*_WORDS, "old (?:tool|output|result)")), re.IGNORECASE)

_PICTURES = re.compile(r"image|screenshot|picture|photo|frame", re.IGNORECASE)

_NAMED = ("PLACEHOLDER", "CLEARED", "PRUNED", "ELIDED", "OMITTED", "TRUNCATED", "REMOVED")
"""Words of a constant that is such a notice."""

_EMPTY = ('= ""', "= ''", '": ""', "': ''")

_SHOWS = frozenset(
    {"dumps", "dump", "print", "pprint", "pformat", "write", "writelines", "write_text", "debug", "info", "log", "len"}
)
"""Functions that tell people, or a file, what they are given."""


def _cleared(function: AnyFunction, view: View) -> Iterator[Hit]:
    """A loop through sent messages writes a placeholder over their content."""
    writes = [write for write in content_writes(function, view) if _is_notice(write)]
    if writes and not compacts(function, view) and not _is_of_shown_copies(function, view):
        yield from (
            Hit(write.node, "the content of messages that were sent is replaced by a placeholder") for write in writes
        )


def _is_notice(write: Write) -> bool:
    """Whether what is written says that something was here; or nothing, where the newest messages are left out."""
    value = write.value
    if isinstance(value, ast.Constant) and value.value == "":
        return write.is_old
    if isinstance(value, ast.Name | ast.Attribute):
        name = last_name(value)
        return name.isupper() and any(word in name for word in _NAMED) and not _PICTURES.search(name)
    text = text_in(value)
    return len(text) < 300 and bool(_CLEARED.search(text)) and not _PICTURES.search(text) and _is_fixed(value)


def _is_fixed(value: ast.expr) -> bool:
    """Whether nothing of the old content is kept: a constant, one by its name, or text with figures in it."""
    if isinstance(value, ast.Constant):
        return True
    return isinstance(value, ast.JoinedStr | ast.List) and "content" not in words_in(value).split()


def _is_of_shown_copies(function: AnyFunction, view: View) -> bool:
    """Whether all that is gone through are copies, made here, that are only printed or written to a file."""
    loops = [unwrapped(loop.iter) for loop in view.nodes(function, ast.For) if view.is_history(unwrapped(loop.iter))]
    names = {last_name(one) for one in loops}
    copies = {last_name(one.targets[0]) for one in view.nodes(function, ast.Assign) if _is_copy(one.value)}
    return bool(names) and names <= copies and all(_is_only_shown(name, loops, function, view) for name in names)


def _is_copy(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last_name(value.func) in {"deepcopy", "copy", "loads"}


def _is_only_shown(name: str, loops: list[ast.expr], function: AnyFunction, view: View) -> bool:
    read = [one for one in view.nodes(function, ast.Name) if one.id == name and isinstance(one.ctx, ast.Load)]
    shown = [part for call in view.nodes(function, ast.Call) if last_name(call.func) in _SHOWS for part in walk(call)]
    others = [one for one in read if not any(one is loop for loop in loops)]
    return bool(others) and all(any(one is part for part in shown) for one in others)


SOURCE = (
    Pattern(
        FUNCTIONS,
        _cleared,
        (*_WORDS, *(word.title() for word in _WORDS), "old ", "Old ", *_NAMED, *_EMPTY),
        is_near=True,
        also=(IN_HISTORY, IN_CONTENT),
    ),
)
