"""Every hazard of `rules/`: its row, its page, and the table of them all.

Takes the modules as they stand in the folders, gives rows in the order of their codes; knows nothing of how a hazard is
found.

    python -m contextkit.lint.catalogue --write docs/hazards.md        puts the table between the marks of a page
"""

from __future__ import annotations

import argparse
import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from contextkit.errors import UsageError
from contextkit.lint import rules
from contextkit.lint.hazard import LEVELS, Hazard

_MARKED = re.compile(r"(?<=<!-- table: hazards -->\n).*?(?=<!-- end -->)", re.DOTALL)
_NEAR = 3
"""Names to offer for one that is unknown."""


def hazards() -> tuple[Hazard, ...]:
    """All rows, tools first, accounting last.

    >>> [hazard.code for hazard in hazards()][:2]
    ['CKT01', 'CKT02']
    """
    return tuple(_row(module) for module in _modules().values())


def page(code: str) -> str:
    """The page of a hazard, by its code or its name, in upper or lower case.

    Raises `UsageError` where nothing is called that, naming what comes near.

    >>> page("cks01").splitlines()[0] == page("Clock-in-system").splitlines()[0]
    True
    """
    wanted = code.strip().lower().replace("_", "-")
    named = _named()
    if wanted not in named:
        raise UsageError(_unknown(code, _near(wanted)))
    return _modules()[named[wanted]].__doc__ or ""


def table() -> str:
    """Which detectors each hazard has, as a table in Markdown, with a count below it."""
    rows = [f"| {' | '.join(cell(code) for cell in _COLUMNS.values())} |" for code in _modules()]
    head = [f"| {' | '.join(_COLUMNS)} |", f"|{'---|' * len(_COLUMNS)}"]
    return "\n".join([*head, *rows, "", _count(), ""])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, or write it into a page."""
    parser = argparse.ArgumentParser(
        prog="python -m contextkit.lint.catalogue", description="The table of all hazards."
    )
    parser.add_argument("--write", type=Path, metavar="PAGE", help="a Markdown page with the marks for the table")
    target: Path | None = parser.parse_args(arguments).write
    if target is None:
        print(table())
    elif not target.is_file() or not _MARKED.search(text := target.read_text(encoding="utf-8")):
        parser.error(
            f"{target}: no file with the lines <!-- table: hazards --> and <!-- end -->; add them where the table belongs"
        )
    else:
        target.write_text(_MARKED.sub(lambda _: table(), text), encoding="utf-8", newline="\n")


# Finding them
# -------------------------------------------------------------------------------------------------------------


@cache
def _modules() -> Mapping[str, ModuleType]:
    """Code → the module it stands in, in order."""
    found = {_row(module).code: module for module in _imported()}
    order = list(LEVELS)
    return {code: found[code] for code in sorted(found, key=lambda code: (order.index(code[2]), code))}


def _imported() -> Iterator[ModuleType]:
    for folder in LEVELS.values():
        package = import_module(f"{rules.__name__}.{folder}")
        yield from (
            import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)
        )


def _row(module: ModuleType) -> Hazard:
    row: Hazard = module.HAZARD
    return row


@cache
def _named() -> Mapping[str, str]:
    """Code or name, in lower case → code."""
    return {word: row.code for row in hazards() for word in (row.code.lower(), row.name)}


def _near(wanted: str) -> list[str]:
    """Names that hold the word, then those spelled much like it."""
    holding = [word for word in _named() if wanted and wanted in word]
    return [*holding, *get_close_matches(wanted, _named(), _NEAR)][:_NEAR]


def _unknown(code: str, near: Sequence[str]) -> str:
    known = [f"{_named()[word]} {_row(_modules()[_named()[word]]).name}" for word in near]
    offer = (
        f"did you mean {', '.join(dict.fromkeys(known))}?"
        if known
        else "codes look like CKS01, names like clock-in-system"
    )
    return f"no hazard is called {code!r}; {offer}"


# The table
# ----------------------------------------------------------------------------------------------------------------


def _has(ask: Callable[[Hazard], object]) -> Callable[[str], str]:
    return lambda code: "yes" if ask(_row(_modules()[code])) else ""


_ASKED_BEFORE_SENDING = {"change": set(LEVELS.values()), "step": {"parameters"}, "call": {"breakpoints"}}
"""What the guard asks before a request leaves: kind of rule → levels."""


def _before_sending(row: Hazard) -> bool:
    """Whether the guard asks one of its rules before a request leaves."""
    return any(row.level in _ASKED_BEFORE_SENDING.get(rule.on, ()) for rule in row.requests)


def _link(code: str) -> str:
    return f"[{code}](../{_modules()[code].__name__.replace('.', '/')}.py)"


_COLUMNS: Mapping[str, Callable[[str], str]] = {
    "code": _link,
    "name": lambda code: f"`{_row(_modules()[code]).name}`",
    "severity": lambda code: _row(_modules()[code]).severity,
    "grade": lambda code: _row(_modules()[code]).grade,
    "source": _has(lambda row: row.source),
    "requests": _has(lambda row: row.requests),
    "guard": _has(_before_sending),
    "provider": lambda code: ", ".join(f"`{word}`" for word in _row(_modules()[code]).confirmed_by),
}
"""Heading → a code's cell."""


def _count() -> str:
    rows = hazards()
    seen = {
        "in source": sum(bool(row.source) for row in rows),
        "in requests": sum(bool(row.requests) for row in rows),
        "before sending": sum(_before_sending(row) for row in rows),
        "confirmed by a provider": sum(bool(row.confirmed_by) for row in rows),
    }
    return f"{len(rows)} hazards: {', '.join(f'{n} {where}' for where, n in seen.items())}."


if __name__ == "__main__":
    main()
