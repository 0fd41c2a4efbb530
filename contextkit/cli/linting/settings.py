"""What is looked for: the project's settings, and what was typed on top of them.

Takes options and the paths of code, gives a `LintConfig`; a code that no hazard has is an error, wherever it stands.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from contextkit.cli.linting.options import Options
from contextkit.lint.catalogue import hazards
from contextkit.lint.config import LintConfig, config_of, read_config
from contextkit.lint.own import OWN


def config_for(options: Options, paths: Sequence[str]) -> LintConfig:
    """What the project says, and what was typed on top of it: a selection instead of its own, more to ignore."""
    codes = [*OWN, *(row.code for row in hazards())]
    select, ignore = _prefixes(options.select, codes), _prefixes(options.ignore, codes)
    config = _config_in(options.config) if options.config else read_config(paths[0] if paths else ".")
    _check(config, codes)
    tests = config.tests or options.tests
    return replace(config, select=select or config.select, ignore=(*config.ignore, *ignore), tests=tests)


def _check(config: LintConfig, codes: Sequence[str]) -> None:
    """Raises a usage error for codes of a project's settings that no hazard has: a word typed wrong would silence
    everything.
    """
    where = f"{config.path}: [tool.contextkit.lint]"
    if not config.select:
        raise click.UsageError(f"{where} select is empty, so nothing would be looked for; without it everything is")
    ignores = {f"per-file-ignores {glob!r}": names for glob, names in config.per_file_ignores.items()}
    for key, names in {"select": config.select, "ignore": config.ignore, **ignores}.items():
        for name in names:
            if not any(code.startswith(name) for code in codes):
                raise click.UsageError(
                    f"{where} {key}: no hazard's code begins with {name!r}; codes look like CKS01, levels like CKS"
                )


def _config_in(file: str) -> LintConfig:
    try:
        table: Any = tomllib.loads(Path(file).read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise click.UsageError(f"{file}: not TOML: {fault}") from None
    for name in ("tool", "contextkit", "lint"):
        table = table.get(name, {})
        if not isinstance(table, dict):
            raise click.UsageError(f"{file}: {name!r} on the way to [tool.contextkit.lint] is no table")
    return config_of(table, file)


def _prefixes(given: Sequence[str], codes: Sequence[str]) -> tuple[str, ...]:
    """`("cks,CKM04",)` → `("CKS", "CKM04")`; raises a usage error for what no code begins with."""
    wanted = [word.strip().upper() for words in given for word in words.split(",") if word.strip()]
    prefixes = tuple("CK" if word == "ALL" else word for word in wanted)
    for prefix in prefixes:
        if not any(code.startswith(prefix) for code in codes):
            raise click.UsageError(f"no hazard's code begins with {prefix!r}; codes look like CKS01, levels like CKS")
    return prefixes
