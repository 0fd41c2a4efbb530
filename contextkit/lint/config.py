"""How a project wants to be linted: `[tool.contextkit.lint]` of the pyproject.toml nearest to the linted path.

Takes a path, gives a `LintConfig`; an unknown key or a wrong value is an error that names it.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextkit.errors import UsageError
from contextkit.lint.source.knowledge import KINDS, SINKS
from contextkit.pyproject import read_table


@dataclass(frozen=True, slots=True)
class LintConfig:
    """What is looked for, and where not."""

    select: tuple[str, ...] = ("CK",)
    """Codes, or beginnings of codes, that are looked for; `ALL` for every code."""
    ignore: tuple[str, ...] = ()
    """Codes, or beginnings of codes, that are not; a longer beginning wins over a shorter one."""
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Glob → codes that are not looked for in the files it matches."""
    exclude: tuple[str, ...] = ()
    """Globs of files and folders that are left out."""
    tests: bool = False
    """Whether tests are looked at that were not named themselves: what they send is paid for by nobody."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Full name of a function → what its result is."""
    named_sinks: Mapping[str, str] = field(default_factory=dict)
    """Name of an attribute, key or keyword → what it is."""
    call_sinks: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Full name of a function → (argument, what it is)."""
    sanitizers: tuple[str, ...] = ()
    """Full names of functions whose result does not vary."""
    knowledge: tuple[str, ...] = ()
    """TOML files with what is known of the project's own functions, in the format of `contextkit/lint/knowledge`."""
    path: str = ""
    """The file it was read from, empty where there is none."""

    def is_selected(self, code: str, file: str = "") -> bool:
        """Return whether a code is looked for, in a file.

        >>> LintConfig(select=("CKS",), ignore=("CKS02",)).is_selected("CKS01")
        True
        """
        chosen, dropped = _longest(self.select, code), _longest(self.ignore, code) if self.ignore else -1
        if code != "CK000" and (chosen < 0 or dropped >= chosen):
            return False
        if code == "CK000" and dropped == len(code):
            return False
        return not file or not any(
            _is_meant(file, glob) and _longest(names, code) >= 0 for glob, names in self.per_file_ignores.items()
        )

    def is_named(self, code: str) -> bool:
        """Whether a code is selected by itself, or by `ALL`, so that it is looked for even if it is off by default.

        >>> LintConfig(select=("CKS",)).is_named("CKS04"), LintConfig(select=("ALL",)).is_named("CKS04")
        (False, True)
        """
        return code in self.select or ALL in self.select


ALL = "ALL"
"""Stands for every code, those off by default too."""


def _longest(names: Iterable[str], code: str) -> int:
    """The length of the longest name a code begins with, -1 where it begins with none."""
    longest = -1
    for name in names:
        beginning = "CK" if name == ALL else name
        if code.startswith(beginning) and len(beginning) > longest:
            longest = len(beginning)
    return longest


def _is_meant(file: str, glob: str) -> bool:
    posix = Path(file).as_posix()
    return fnmatch.fnmatch(posix, glob) or fnmatch.fnmatch(posix, f"*/{glob}")


def read_config(path: str | Path) -> LintConfig:
    """The config that holds for a file or folder: of the nearest pyproject.toml above it that has one.

    `UsageError` where it is wrong.
    """
    start = Path(path).absolute()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if folder.is_dir() and file.is_file():
            table = read_table(file, "lint")
            if table is not None:
                return config_of(table, str(file))
    return LintConfig()


def config_of(table: Mapping[str, Any], path: str = "pyproject.toml") -> LintConfig:
    """The config a table says; `UsageError` names an unknown key or a wrong value.

    >>> config_of({"select": ["CKS"]}).select
    ('CKS',)
    """
    where = f"{path}: [tool.contextkit.lint]"
    unknown = sorted(table.keys() - _KEYS.keys())
    if unknown:
        raise UsageError(f"{where} has an unknown key {unknown[0]!r}; it may have {', '.join(_KEYS)}")
    found: dict[str, Any] = {}
    for key, value in table.items():
        found.update(_KEYS[key](f"{where} {key}", value))
    return LintConfig(**found, path=path)


def _mapping(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where} must be a table, not {value!r}")
    return value


def _names(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{where} must be a list of texts, not {value!r}")
    return tuple(value)


def _list_of(field_name: str) -> Callable[[str, object], dict[str, Any]]:
    return lambda where, value: {field_name: _names(where, value)}


def _tests(where: str, value: object) -> dict[str, Any]:
    if not isinstance(value, bool):
        raise UsageError(f"{where} must be true or false, not {value!r}")
    return {"tests": value}


def _ignores(where: str, value: object) -> dict[str, Any]:
    return {
        "per_file_ignores": {glob: _names(f"{where}.{glob}", names) for glob, names in _mapping(where, value).items()}
    }


def _sources(where: str, value: object) -> dict[str, Any]:
    table = _mapping(where, value)
    for name, kind in table.items():
        _check_choice(f"{where}.{name}", kind, KINDS)
    return {"sources": dict(table)}


def _sinks(where: str, value: object) -> dict[str, Any]:
    """`name = "system"` for a name, `"pkg.call(argument)" = "system"` for a call."""
    named: dict[str, str] = {}
    called: dict[str, tuple[str, str]] = {}
    for name, sink in _mapping(where, value).items():
        _check_choice(f"{where}.{name}", sink, SINKS)
        function, bracket, argument = name.partition("(")
        if bracket:
            called[function] = argument.rstrip(")"), sink
        else:
            named[name] = sink
    return {"named_sinks": named, "call_sinks": called}


def _check_choice(where: str, word: object, words: frozenset[str]) -> None:
    if word not in words:
        raise UsageError(f"{where} is {word!r}; it must be one of {', '.join(sorted(words))}")


_KEYS: Mapping[str, Callable[[str, object], dict[str, Any]]] = {
    "select": _list_of("select"),
    "ignore": _list_of("ignore"),
    "per-file-ignores": _ignores,
    "exclude": _list_of("exclude"),
    "tests": _tests,
    "sources": _sources,
    "sinks": _sinks,
    "sanitizers": _list_of("sanitizers"),
    "knowledge": _list_of("knowledge"),
}
"""Key of the table → what reads it."""
