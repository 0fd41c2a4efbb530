"""Safe edits of a call or a display: one more item in the style of the others, one item less, something around an
expression.

Takes the bytes of a file and offsets in them, gives edits, None where a comment or parenthesis stands in the way; knows
no syntax tree.
"""

from __future__ import annotations

import re

from contextkit.lint.finding import Edit

_BEHIND = re.compile(rb"(?P<space>[ \t\r\n\f]+|\\\r?\n)|(?P<comment>#[^\n]*)|(?P<comma>,)|(?P<close>[)\]}])")
"""What may stand behind the last item of a call or display."""


def appended(source: bytes, last: tuple[int, int], end: int, item: str) -> Edit | None:
    """`item` behind the last one of a call or display that ends at `end`; where each has its own line, so has this one.

    >>> appended(b"f(a, b)", (5, 6), 7, "c=1")
    Edit(start=6, end=6, text=', c=1')
    >>> appended(b"f(\\n    a,\\n)", (7, 8), 11, "c=1")
    Edit(start=9, end=9, text='\\n    c=1,')
    """
    found = _behind(source, last[1], end)
    if found is None:
        return None
    at, comma, has_comment = found
    indent = _indent(source, last[0])
    has_own_line = not has_comment and indent is not None and b"\n" in source[at:end]
    new_line = "\r\n" if b"\r\n" in source[at:end] else "\n"
    if has_own_line and comma and source[comma : source.index(b"\n", comma)].strip() == b"":
        return Edit(comma, comma, f"{new_line}{indent}{item},")
    return Edit(at, at, f",{new_line}{indent}{item}" if has_own_line and not comma else f", {item}")


def _behind(source: bytes, start: int, end: int) -> tuple[int, int, bool] | None:
    """Offset behind the last item and its parentheses, behind the comma that follows (0 where none does), and whether a
    comment does.
    """
    closes, comma, has_comment, at = [start], 0, False, start
    while at < end:
        found = _BEHIND.match(source, at, end)
        if found is None:
            return None
        at = found.end()
        has_comment = has_comment or found.lastgroup == "comment"
        if found.lastgroup == "close":
            closes.append(at)
        comma = at if found.lastgroup == "comma" else comma
    return (closes[-2], comma, has_comment) if len(closes) > 1 and (not comma or comma > closes[-2]) else None


def _indent(source: bytes, start: int) -> str | None:
    """What stands before an item that begins its line, None where something else does."""
    before = source[source.rfind(b"\n", 0, start) + 1 : start]
    return before.decode() if not before.strip() else None


def removed(source: bytes, start: int, end: int) -> Edit | None:
    """An item of a display taken out, with a comma and, where it stood alone on its line, with the line.

    >>> removed(b'{"a": 1, "b": 2}', 9, 15)
    Edit(start=7, end=15, text='')
    """
    behind = re.compile(rb"[ \t]*(,?)[ \t]*(\r?\n)?").match(source, end)
    head = source[source.rfind(b"\n", 0, start) + 1 : start]
    if (
        behind is None
        or source[behind.end() : behind.end() + 1] == b"#"
        or source[behind.start() : behind.end() + 1].strip()[:1] == b")"
    ):
        return None
    if not head.strip() and behind[2]:
        return Edit(start - len(head), behind.end(), "")
    before = source[:start].rstrip()
    if before.endswith(b",") and b"#" not in source[len(before) : start] and not behind[2]:
        return Edit(len(before) - 1, end, "")
    return Edit(start, behind.end(), "") if behind[1] and not behind[2] else None


def wrapped(start: int, end: int, head: str, tail: str) -> tuple[Edit, Edit]:
    """`head` before an expression and `tail` behind it."""
    return Edit(start, start, head), Edit(end, end, tail)
