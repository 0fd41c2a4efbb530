"""How a project wants to be linted: `[tool.contextkit.lint]` of the pyproject.toml nearest to the linted path."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextkit.errors import UsageError
from contextkit.lint.catalogue import hazards
from contextkit.lint.own import UNREADABLE
from contextkit.pyproject import read_table


@dataclass(frozen=True, slots=True)
class LintConfig:
    """What is looked for, and where not."""

    select: tuple[str, ...] = ("CK",)
    """Codes, or beginnings of codes, that are looked for."""
    ignore: tuple[str, ...] = ()
    """Codes, or beginnings of codes, that are not; a longer beginning wins over a shorter one."""
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Glob → codes that are not looked for in the files it matches."""
    exclude: tuple[str, ...] = ()
    """Globs of files and folders that are left out."""
    tests: bool = False
    """Whether tests are looked at that were not named themselves: what they send is paid for by nobody."""
    knowledge: tuple[str, ...] = ()
    """TOML files with what is known of the project's own functions, in the format of `contextkit/lint/knowledge`."""
    path: str = ""
    """The file it was read from, empty where there is none."""

    def is_selected(self, code: str, file: str = "") -> bool:
        """Return whether a code is looked for, in a file.

        >>> LintConfig(select=("CKS",), ignore=("CKS02",)).is_selected("CKS01")
        True
        """
        chosen = len(code) if code == UNREADABLE else _longest(self.select, code)  # dropped by its whole name only
        return chosen > _longest(self.ignore, code) and not any(
            file and _is_meant(file, glob) and _longest(names, code) for glob, names in self.per_file_ignores.items()
        )


def _longest(names: Iterable[str], code: str) -> int:
    """Return the length of the longest name that a code begins with, 0 where it begins with none."""
    return max((len(name) for name in names if code.startswith(name)), default=0)


def _is_meant(file: str, glob: str) -> bool:
    posix = Path(file).as_posix()
    return fnmatch.fnmatch(posix, glob) or fnmatch.fnmatch(posix, f"*/{glob}")


def read_config(path: str | Path) -> LintConfig:
    """Return the config that holds for a file or folder: of the nearest pyproject.toml above it that has one.

    Raises `UsageError` where it is wrong.
    """
    start = Path(path).absolute()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if folder.is_dir() and file.is_file():
            table = read_table(file, "lint")
            if table is not None:
                return config_of(table, str(file))
    return LintConfig()


_LISTS = ("select", "ignore", "exclude", "knowledge")
_KEYS = (*_LISTS, "per-file-ignores", "tests")


def config_of(table: Mapping[str, Any], path: str = "pyproject.toml") -> LintConfig:
    """Return the config of a table; `UsageError` names an unknown key or a wrong value.

    >>> config_of({"select": ["CKS"]}).select
    ('CKS',)
    """
    where = f"{path}: [tool.contextkit.lint]"
    if unknown := sorted(table.keys() - {*_KEYS}):
        raise UsageError(f"{where} has an unknown key {unknown[0]!r}; it may have {', '.join(_KEYS)}")
    tests, ignores = table.get("tests", False), table.get("per-file-ignores", {})
    if not isinstance(tests, bool):
        raise UsageError(f"{where} tests must be true or false, not {tests!r}")
    if not isinstance(ignores, dict):
        raise UsageError(f"{where} per-file-ignores must be a table, not {ignores!r}")
    lists = {key: _names(f"{where} {key}", table[key]) for key in _LISTS if key in table}
    if lists.get("select") == ():
        raise UsageError(f"{where} select is empty, so nothing would be looked for; without it everything is")
    per_file = {glob: _names(f"{where} per-file-ignores.{glob}", names) for glob, names in ignores.items()}
    for key in ("select", "ignore"):
        check_codes(f"{where} {key}", lists.get(key, ()))
    for glob, names in per_file.items():
        check_codes(f"{where} per-file-ignores.{glob}", names)
    return LintConfig(**lists, per_file_ignores=per_file, tests=tests, path=path)


def check_codes(where: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names; `UsageError` for one that no code begins with: typed wrong, it would silence everything."""
    checked = tuple(names)
    for name in checked:
        if not any(code.startswith(name) for code in (UNREADABLE, *(row.code for row in hazards()))):
            raise UsageError(f"{where}: no hazard's code begins with {name!r}; codes look like CKS01, levels like CKS")
    return checked


def _names(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{where} must be a list of texts, not {value!r}")
    return tuple(value)
