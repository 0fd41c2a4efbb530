"""Tables of contextkit in a project's pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contextkit.errors import UsageError


def read_table(file: Path, name: str) -> Mapping[str, Any] | None:
    """Return the table `[tool.contextkit.NAME]` of a file; None if it has none.

    Raises `UsageError` if the file is not TOML, or if that or what holds it is no table.
    """
    try:
        found: Any = tomllib.loads(file.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: not TOML: {error}") from None
    for key in ("tool", "contextkit", name):
        found = found.get(key)
        if found is None:
            return None
        if not isinstance(found, dict):
            raise UsageError(f"{file}: {key!r} on the way to [tool.contextkit.{name}] must be a table, not {found!r}")
    table: Mapping[str, Any] = found
    return table
