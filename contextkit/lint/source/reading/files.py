"""Which files are linted, and what each is called: `pkg.mod`, by the packages it stands in.

Takes paths and a config, gives files; knows nothing of what they hold.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from contextkit.lint.config import LintConfig

SKIPPED = frozenset({
    ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox",
    ".mypy_cache", ".ruff_cache", ".eggs",
})  # fmt: skip
"""Folders nobody wants linted."""
_TEMPLATE = "{{"
"""What stands in the name of a folder that is filled in before its files are Python: `{{cookiecutter.name}}`."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to read."""

    path: str
    name: str
    package: str
    n_bytes: int


def source_files(paths: Iterable[str | Path], config: LintConfig) -> Iterator[SourceFile]:
    """Python files under paths, each once, in order; a folder reached again through a link is not entered."""
    seen, folders = set[str](), dict[str, str]()
    for path in paths:
        for found in sorted(_under(Path(path), config, folders)):
            real = _real(found, folders)
            if real not in seen:
                seen.add(real)
                yield _file(found)


def _real(path: str, folders: dict[str, str]) -> str:
    """Where something is found without links; a folder is looked up once for all that is in it."""
    if os.path.islink(path):  # noqa: PTH114
        return os.path.realpath(path)
    folder, name = os.path.split(path)
    real = folders.get(folder)
    if real is None:
        real = folders[folder] = os.path.realpath(folder)
    return os.path.join(real, name)  # noqa: PTH118


def _under(path: Path, config: LintConfig, reals: dict[str, str]) -> Iterator[str]:
    if not path.is_dir():
        yield str(path)
        return
    entered: set[str] = set()
    for folder, folders, names in os.walk(path, followlinks=True):
        real = reals[folder] = _real(folder, reals)
        if real in entered:
            folders.clear()
            continue
        entered.add(real)
        folders[:] = sorted(name for name in folders if _is_entered(folder, name, config))
        for name in names:
            if name.endswith((".py", ".pyi")) and not name.endswith(".pyi"):
                full = os.path.join(folder, name)  # noqa: PTH118
                if not _is_excluded(full, config):
                    yield full


def _is_entered(folder: str, name: str, config: LintConfig) -> bool:
    return name not in SKIPPED and _TEMPLATE not in name and not _is_excluded(os.path.join(folder, name), config)  # noqa: PTH118


def _is_excluded(path: str, config: LintConfig) -> bool:
    return any(matches(path, pattern) for pattern in config.exclude)


def matches(path: str, pattern: str) -> bool:
    """Whether a path is meant by a pattern of the config: a glob on its end, or the name of a folder in it."""
    posix = Path(path).as_posix()
    return fnmatch.fnmatch(posix, pattern) or fnmatch.fnmatch(posix, f"*/{pattern}") or fnmatch.fnmatch(posix, f"*/{pattern.rstrip('/')}/*")


_packages: dict[str, str] = {}


def _package_of(folder: str) -> str:
    """`a.b` for a folder of packages, empty for a folder without `__init__.py`."""
    found = _packages.get(folder)
    if found is None:
        is_package = os.path.exists(os.path.join(folder, "__init__.py"))  # noqa: PTH110, PTH118
        above, name = os.path.split(folder)
        found = ".".join(filter(None, (_package_of(above), name))) if is_package and name else ""
        _packages[folder] = found
    return found


def _file(path: str) -> SourceFile:
    folder, base = os.path.split(os.path.abspath(path))  # noqa: PTH100
    package, stem = _package_of(folder), base.removesuffix(".py")
    if stem == "__init__":
        return SourceFile(path, package or os.path.basename(folder), package, _size(path))  # noqa: PTH119
    return SourceFile(path, f"{package}.{stem}" if package else stem, package, _size(path))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0
