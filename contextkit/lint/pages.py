"""The page of every code that stands in an output, as a text and in its parts.

Takes a code or a name, gives a page: of a hazard from the catalogue, of the detectors' own codes from `own`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from contextkit.canonical import Json
from contextkit.lint import catalogue
from contextkit.lint.own import OWN

_CHAPTER = re.compile(r"^## (.+)\n", re.MULTILINE)


def page(word: str) -> str:
    """The page of a code or a name, in upper or lower case; raises `UsageError` where nothing is called that.

    >>> page("ck000").splitlines()[0]
    'unreadable: a file, or a recorded request, cannot be read.'
    """
    wanted = word.strip().lower().replace("_", "-")
    own = next((one.page for code, one in OWN.items() if wanted in (code.lower(), one.name)), None)
    return catalogue.page(word) if own is None else own


def parts(word: str) -> dict[str, Json]:
    """A page taken apart: `code`, `name`, `severity`, `grade`, `level`, `title`, and `sections`, heading → text.

    `grade` and `level` are None for the detectors' own codes. Raises as `page` does.

    >>> list(parts("CKS01")["sections"])[:2]
    ['What it does', 'Why it costs you']
    """
    head, _, body = page(word).strip().partition("\n")
    name, _, title = head.partition(": ")
    _, *chapters = _CHAPTER.split(body)
    sections: dict[str, Json] = {
        heading: text.strip("\n") for heading, text in zip(chapters[::2], chapters[1::2], strict=True)
    }
    return {**_row_of(name), "title": title, "sections": sections}


def _row_of(name: str) -> dict[str, Json]:
    """What the tables say of a name."""
    return next(row for row in _rows() if row["name"] == name)


def _rows() -> Iterator[dict[str, Json]]:
    for code, own in OWN.items():
        yield {"code": code, "name": own.name, "severity": own.severity, "grade": None, "level": None}
    for row in catalogue.hazards():
        yield {"code": row.code, "name": row.name, "severity": row.severity, "grade": row.grade, "level": row.level}
