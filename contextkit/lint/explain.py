"""The page of a code as a terminal shows it, and taken apart into its sections.

Takes a code or a name, and reads the page from `catalogue`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from contextkit.canonical import Json
from contextkit.lint.catalogue import code_of, hazards, page
from contextkit.lint.own import OWN

_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^<!-- .* -->\n", re.MULTILINE)
_FENCED = re.compile(r"^```\w*\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)


def terminal_text(word: str) -> str:
    """Return the page for a terminal: Markdown without comments, with code indented instead of fenced.

    Raises `UsageError` where nothing has that code or name.

    >>> terminal_text("ck000").splitlines()[0]
    '# CK000 unreadable'
    """
    return _FENCED.sub(lambda block: _indented(block[1]), _COMMENT.sub("", page(word))).strip()


def parts(word: str) -> dict[str, Json]:
    """Return the page in parts: `code`, `name`, `severity`, `grade`, `level`, `title`, and `sections`, heading → Markdown.

    `grade` and `level` are None for the detectors' own codes. Raises as `terminal_text` does.

    >>> list(parts("CKS01")["sections"])[:2]
    ['What it is', 'In code']
    """
    front, *chapters = _SECTION.split(page(word))
    title = " ".join(front.splitlines()[1:]).strip()
    sections: dict[str, Json] = {
        heading: text.strip("\n") for heading, text in zip(chapters[::2], chapters[1::2], strict=True)
    }
    return {**next(row for row in _rows() if row["code"] == code_of(word)), "title": title, "sections": sections}


def _indented(code: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in code.splitlines(keepends=True))


def _rows() -> Iterator[dict[str, Json]]:
    for code, own in OWN.items():
        yield {"code": code, "name": own.name, "severity": own.severity, "grade": None, "level": None}
    for row in hazards():
        yield {"code": row.code, "name": row.name, "severity": row.severity, "grade": row.grade, "level": row.level}
