"""Where the values of a JSON text stand.

Takes bytes that are known to be JSON, gives offsets. Nothing is decoded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]
"""Start, and the place behind the end."""
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)
_BLANK = b" \t\r\n"


def members(body: bytes, start: int = 0) -> dict[bytes, Span]:
    """Key, as it is spelled between its quotes, → where its value stands, of the object that begins at or behind
    `start`.

    >>> members(b'{"a": [1, 2], "b":"x"}')
    {b'a': (6, 12), b'b': (18, 21)}
    """
    found = {}
    for first, last in _items(body, start):
        key = _TOKEN.match(body, first)
        colon = body.index(b":", key.end() if key else first)
        found[body[first + 1 : key.end() - 1 if key else first]] = _trimmed(body, colon + 1, last)
    return found


def elements(body: bytes, start: int) -> list[Span]:
    """Where each element of the array stands that begins at or behind `start`.

    >>> elements(b'[1, "a,b", {}]', 0)
    [(1, 2), (4, 9), (11, 13)]
    """
    return list(_items(body, start))


def _items(body: bytes, start: int) -> Iterator[Span]:
    """What stands between the commas of the object or array."""
    depth, at = 0, start
    for token in _TOKEN.finditer(body, start):
        sign = body[token.start()]
        if sign in b"[{":
            depth += 1
            at = token.end() if depth == 1 else at
        elif sign in b"]}" or (sign == 0x2C and depth == 1):
            if depth == 1 and body[at : token.start()].strip():
                yield _trimmed(body, at, token.start())
            at = token.end() if depth == 1 else at
            depth -= sign != 0x2C
            if not depth:
                return


def _trimmed(body: bytes, start: int, end: int) -> Span:
    while body[start] in _BLANK:
        start += 1
    while body[end - 1] in _BLANK:
        end -= 1
    return start, end
