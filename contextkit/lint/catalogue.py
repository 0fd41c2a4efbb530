"""The catalogue of hazards: the rows of `hazards.toml`, their pages, and tables of them.

Holds a `Hazard` for each row, in the order of the file. The pages are `docs/reference/rules/<code>.md`; a wheel has them
in `contextkit/lint/pages`.

    python -m contextkit.lint.catalogue --write docs/reference/hazards.md        puts the tables between the marks of a page
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, get_args

from contextkit.errors import UsageError
from contextkit.lint.hazard import LEVELS, Grade, Hazard, Severity
from contextkit.lint.own import OWN
from contextkit.private_files import replacing

_TABLE = Path(__file__).with_name("hazards.toml")
_PAGES = (Path(__file__).with_name("pages"), Path(__file__).parents[2] / "docs" / "reference" / "rules")
"""Folders of the pages: of an installed wheel, of a source checkout."""
_CODE = re.compile(rf"CK[{''.join(LEVELS)}]\d\d")
_NAME = re.compile(r"[a-z]+(?:-[a-z]+)*")
_CHOICES = {"grade": get_args(Grade), "severity": get_args(Severity)}
_LISTS = ("confirmed_by", "merged", "requests")
_MARKED = re.compile(r"(<!-- table: (hazards|merged) -->\n).*?(?=<!-- end -->)", re.DOTALL)
_N_SUGGESTIONS = 3


@cache
def hazards() -> tuple[Hazard, ...]:
    """Return all hazards, tools first, accounting last.

    >>> [hazard.code for hazard in hazards()][:2]
    ['CKT01', 'CKT02']
    """
    return hazards_of(_rows())


def _rows() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(_TABLE.read_text(encoding="utf-8"))


def hazards_of(rows: Mapping[str, Mapping[str, Any]]) -> tuple[Hazard, ...]:
    """Return the hazards of a table. Raises `ValueError` for a wrong row."""
    order = [*LEVELS]
    if [*rows] != sorted(rows, key=lambda code: (order.index(code[2:3]) if code[2:3] in LEVELS else -1, code)):
        raise ValueError("hazards.toml: the codes are not in order; sort them by level, then by number")
    for code, row in rows.items():
        _check(code, row)
    names = [row["name"] for row in rows.values()]
    if len({*names}) < len(names):
        raise ValueError(f"hazards.toml: two rows have the name {next(n for n in names if names.count(n) > 1)!r}")
    requests = [name for row in rows.values() for name in row.get("requests", ())]
    if len({*requests}) < len(requests):
        raise ValueError(f"hazards.toml: {next(n for n in requests if requests.count(n) > 1)!r} stands in two rows")
    codes = [*rows, *(code for row in rows.values() for code in row.get("merged", ()))]
    if len({*codes}) < len(codes):
        raise ValueError(f"hazards.toml: {next(c for c in codes if codes.count(c) > 1)} is a code twice")
    return tuple(
        Hazard(
            code,
            row["name"],
            row["grade"],
            row["severity"],
            row.get("in_source", False),
            tuple(row.get("requests", ())),
            tuple(row.get("confirmed_by", ())),
            tuple(row.get("merged", ())),
        )
        for code, row in rows.items()
    )


def code_of(word: str) -> str:
    """Return the code that a code or a name stands for, in upper or lower case; also one of the detectors' own.

    Raises `UsageError` where nothing has that code or name, and names the code it was merged into, or suggests what is
    spelled much like it.

    >>> code_of("Clock-in-system"), code_of("ck000")
    ('CKS01', 'CK000')
    """
    wanted = word.strip().lower().replace("_", "-")
    codes = _codes()
    if wanted not in codes:
        raise UsageError(_unknown(word, wanted))
    return codes[wanted]


def page(word: str) -> str:
    """Return the page of a code or a name, as Markdown.

    Raises `UsageError` as `code_of` does, and where the page is missing from this installation.

    >>> page("cks01").splitlines()[0]
    '# CKS01 clock-in-system'
    """
    code = code_of(word)
    for folder in _PAGES:
        if (file := folder / f"{code}.md").is_file():
            return file.read_text(encoding="utf-8")
    raise UsageError(f"the page of {code} is missing from this installation of contextkit; install it again")


def table() -> str:
    """Write the table of all hazards and their detectors, in Markdown, with a count below it."""
    rows = [f"| {' | '.join(cell(row) for cell in _COLUMNS.values())} |" for row in hazards()]
    head = [f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * len(_COLUMNS)}"]
    return "\n".join([*head, *rows, "", _count(), ""])


def merged_table() -> str:
    """Write the table of the codes that were merged into others, in Markdown."""
    rows = [f"| [{row.code}](rules/{row.code}.md) | {', '.join(row.merged)} |" for row in hazards() if row.merged]
    return "\n".join(["| code | codes that it has replaced |", "|---|---|", *rows, ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table of all hazards, or write the tables into a page."""
    parser = argparse.ArgumentParser(
        prog="python -m contextkit.lint.catalogue", description="The table of all hazards."
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a Markdown page with the marks for the tables")
    target: Path | None = parser.parse_args(arguments).write
    if target is None:
        print(table())
    elif not target.is_file() or not _MARKED.search(text := target.read_text(encoding="utf-8")):
        parser.error(
            f"{target}: no file with the lines <!-- table: hazards --> and <!-- end -->; add them where the table belongs"
        )
    else:
        with replacing(target) as file:
            tables = {"hazards": table, "merged": merged_table}
            file.write(_MARKED.sub(lambda mark: mark[1] + tables[mark[2]](), text).encode())


# Reading the rows
# ---------------------------------------------------------------------------------------------------------------------


def _check(code: str, row: Mapping[str, Any]) -> None:
    """Check a row against the head of `hazards.toml`; raise `ValueError` for a wrong one."""
    where = f"hazards.toml: [{code}]"
    if not _CODE.fullmatch(code):
        raise ValueError(f"{where} is no code; it is CK, one of {', '.join(LEVELS)}, and two digits")
    if unknown := sorted(row.keys() - {"name", "in_source", *_LISTS, *_CHOICES}):
        raise ValueError(f"{where} has an unknown key {unknown[0]!r}")
    if not isinstance(row.get("name"), str) or not _NAME.fullmatch(row["name"]):
        raise ValueError(f"{where} name is {row.get('name')!r}; it must be words in lower case, joined by hyphens")
    for key, choices in _CHOICES.items():
        if row.get(key) not in choices:
            raise ValueError(f"{where} {key} is {row.get(key)!r}; it must be one of {', '.join(choices)}")
    if row.get("in_source", True) is not True:
        raise ValueError(
            f"{where} in_source is {row['in_source']!r}; it must be true, or missing where code cannot show it"
        )
    for key in _LISTS:
        texts = row.get(key, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{where} {key} is {texts!r}; it must be a list of texts")


# Codes and names
# ---------------------------------------------------------------------------------------------------------------------


def _code_names() -> Iterator[tuple[str, str]]:
    yield from ((code, own.name) for code, own in OWN.items())
    yield from ((row.code, row.name) for row in hazards())


@cache
def _codes() -> Mapping[str, str]:
    """Map code or name, in lower case, to the code."""
    return {word: code for code, name in _code_names() for word in (code.lower(), name)}


def _unknown(word: str, wanted: str) -> str:
    """Write the message for a word that is no code and no name: first names that contain it, then names spelled much like it."""
    codes, names = _codes(), dict(_code_names())
    for row in hazards():
        if wanted.upper() in row.merged:
            return f"{wanted.upper()} is part of {row.code} {row.name} now"
    containing = [known for known in codes if wanted and wanted in known]
    near = [*containing, *get_close_matches(wanted, codes, _N_SUGGESTIONS)][:_N_SUGGESTIONS]
    suggestions = dict.fromkeys(f"{codes[known]} {names[codes[known]]}" for known in near)
    hint = (
        f"did you mean {', '.join(suggestions)}?"
        if suggestions
        else "codes look like CKS01, names like clock-in-system"
    )
    return f"no hazard is called {word!r}; {hint}"


# The table
# ---------------------------------------------------------------------------------------------------------------------


def _before_sending(row: Hazard) -> bool:
    """Return whether a guard may report it before a request leaves."""
    from contextkit.ledger.changes.kinds import Kind
    from contextkit.ledger.changes.settings import Setting
    from contextkit.ledger.request_checks import CAUSES_BEFORE_SENDING, CHECKS_BEFORE_SENDING

    names = {*get_args(Kind), *get_args(Setting), *CAUSES_BEFORE_SENDING, *CHECKS_BEFORE_SENDING}
    return not names.isdisjoint(row.requests)


def _yes(is_so: object) -> str:
    return "yes" if is_so else ""


_COLUMNS: Mapping[str, Callable[[Hazard], str]] = {
    "code": lambda row: f"[{row.code}](rules/{row.code}.md)",
    "name": lambda row: f"`{row.name}`",
    "severity": lambda row: row.severity,
    "grade": lambda row: row.grade,
    "source": lambda row: _yes(row.in_source),
    "requests": lambda row: _yes(row.requests),
    "guard": lambda row: _yes(_before_sending(row)),
    "provider": lambda row: ", ".join(f"`{word}`" for word in row.confirmed_by),
}
"""Heading → the cell of a hazard."""


def _count() -> str:
    rows = hazards()
    counts = {
        "in source": sum(row.in_source for row in rows),
        "in requests": sum(bool(row.requests) for row in rows),
        "before sending": sum(_before_sending(row) for row in rows),
        "confirmed by a provider": sum(bool(row.confirmed_by) for row in rows),
    }
    return f"{len(rows)} hazards: {', '.join(f'{n} {where}' for where, n in counts.items())}."


if __name__ == "__main__":
    main()
