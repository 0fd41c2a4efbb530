"""What comments say to the lint: `# noqa: CKS01`, `# contextkit: frozen`.

Takes source, gives lines; knows nothing of syntax: a text that holds such words says the same.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

_FROZEN = re.compile(rb"#\s*contextkit:\s*frozen\b")
_NOQA = re.compile(rb"#\s*noqa(?!\w)(?::\s*([A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)


def frozen_lines(source: bytes) -> frozenset[int]:
    """Lines, from 1, that are said to be made once a session.

    >>> frozen_lines(b"a = 1\\nb = now()  # contextkit: frozen\\n")
    frozenset({2})
    """
    if not _FROZEN.search(source):
        return frozenset()
    return frozenset(at for at, line in enumerate(source.splitlines(), 1) if b"frozen" in line and _FROZEN.search(line))


def silenced_lines(source: bytes, starts: Sequence[int], word: bytes) -> Iterator[tuple[int, frozenset[str]]]:
    """Lines with a `noqa`, spelled as the word is, and the codes it names, none for all.

    `starts` are the offsets of the lines.

    >>> list(silenced_lines(b"a = 1\\nb = 2  # noqa: CKS01\\n", [0, 6, 26], b"noqa"))
    [(2, frozenset({'CKS01'}))]
    """
    ends, at = [*starts, len(source)], source.find(word)
    while at >= 0:
        line = bisect_right(ends, at)
        found = _NOQA.search(source, ends[line - 1], ends[line])
        if found:
            yield line, frozenset(re.split(r"[\s,]+", (found[1] or b"").decode().upper().strip())) - {""}
        at = source.find(word, ends[line])
