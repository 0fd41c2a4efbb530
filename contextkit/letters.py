"""What came from a recording or a source file, in letters that a terminal only shows: no escapes that it would obey.

Takes text, gives text.
"""

from __future__ import annotations

import re

_OBEYED = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]")
"""Characters that move, colour or turn others round, that nobody sees, and halves of pairs, which no output takes."""
_ASCII = str.maketrans({"·": "-", "→": "->", "≤": "<=", "≥": ">=", "…": "..."})


def visible(text: str, keep: str = "\n\t") -> str:
    r"""`text` with what a terminal obeys written as an escape, `keep` aside.

    >>> visible("red: \x1b[31m")
    'red: \\x1b[31m'
    """
    return _OBEYED.sub(lambda found: found[0] if found[0] in keep else found[0].encode("unicode_escape").decode("ascii"), text)


def spelled(text: str, encoding: str) -> str:
    """`visible` in characters that `encoding` has; our own signs in ASCII where it is none of Unicode's.

    >>> spelled("1 → 2 ≤ 3", "ascii"), spelled("1 → 2", "utf-8")
    ('1 -> 2 <= 3', '1 → 2')
    """
    seen = visible(text)
    if encoding.lower().startswith("utf"):
        return seen
    return seen.translate(_ASCII).encode(encoding, "replace").decode(encoding)
