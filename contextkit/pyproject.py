"""Tables of contextkit in a project's pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from contextkit.errors import UsageError


def read_table(file: Path, name: str) -> Mapping[str, Any] | None:
    """Return the table `[tool.contextkit.NAME]` of a file; None if it has none.

    Raises `UsageError` if the file is not TOML, or if that or what holds it is no table.
    """
    found = _read(file, ("tool", "contextkit", name), f"[tool.contextkit.{name}]")
    table: Mapping[str, Any] | None = found
    return table


def read_value(file: Path, name: str) -> Any:
    """Return the value of `NAME` in the table `[tool.contextkit]` of a file; None if it has none.

    Raises `UsageError` if the file is not TOML, or if what holds the value is no table.
    """
    table = _read(file, ("tool", "contextkit"), f"{name} of [tool.contextkit]")
    return None if table is None else table.get(name)


def _read(file: Path, keys: Iterable[str], what: str) -> Any:
    try:
        found: Any = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    for key in keys:
        found = found.get(key)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise UsageError(f"{file}: {key!r} on the way to {what} must be a table, not {found!r}")
    return found
