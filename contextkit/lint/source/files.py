"""Which files are linted, and what each is called: `pkg.mod`, by the packages it stands in.

Takes paths and a config, gives files; knows nothing of what they hold.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from contextkit.lint.config import LintConfig
from contextkit.lint.source import notebook

_SKIPPED = frozenset(["venv", "node_modules", "__pycache__"])
"""Folders nobody wants linted, beside those whose name begins with a dot."""
_TESTS = frozenset({"test", "tests"})
"""Folders of tests: what they send is paid for by nobody."""
_TEST = re.compile(r"[/\\](?:tests?[/\\]|(?:test_[^/\\]*|[^/\\]*_test|tests|conftest)\.py$)")
"""What the path of a test holds."""
_TEMPLATE = "{{"
"""What stands in the name of a folder that is filled in before its files are Python: `{{cookiecutter.name}}`."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to read."""

    path: str
    name: str
    """Full dotted name."""
    package: str


def source_files(
    paths: Iterable[str | Path], config: LintConfig, closed: Callable[[str, str], None] | None = None
) -> Iterator[SourceFile]:
    """Python files and notebooks under paths, each once, in order; links to folders are not followed.

    Tests are left out unless they, or a folder of them, are named or the config wants them. `closed` gets the path of
    each folder that cannot be looked into, and why. What is met in a folder and is no file (a pipe, a link to nothing)
    is passed by.
    """
    seen, known = set[str](), dict[str, str]()
    for path in map(Path, paths):
        wants_tests = config.tests or not _TESTS.isdisjoint(path.absolute().parts)
        for found in _under(str(path), config, closed) if path.is_dir() else [str(path)]:
            real = os.path.realpath(found)
            if real not in seen and (wants_tests or not _TEST.search(found, len(str(path)))):
                seen.add(real)
                yield _file(found, known)


def _under(top: str, config: LintConfig, closed: Callable[[str, str], None] | None) -> Iterator[str]:
    def refused(fault: OSError) -> None:
        if closed is not None:
            closed(fault.filename, fault.strerror or type(fault).__name__)

    for folder, folders, names in os.walk(top, onerror=refused):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED
            and _TEMPLATE not in name
            and not _is_excluded(folder, name, config)
        )
        for name in sorted(names):
            path = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118
            if (
                name.endswith((".py", notebook.SUFFIX))
                and os.path.isfile(path)  # noqa: PTH113
                and not _is_excluded(folder, name, config)
            ):
                yield path


def _is_excluded(folder: str, name: str, config: LintConfig) -> bool:
    """Return whether a path is meant by a pattern of the config: a glob on its end, or the name of a folder in it."""
    posix = Path(folder, name).as_posix()
    forms = [form for one in config.exclude for form in (one, f"*/{one}", f"*/{one.rstrip('/')}/*")]
    return any(fnmatch.fnmatch(posix, form) for form in forms)


def _package_of(folder: str, known: dict[str, str]) -> str:
    """Return `a.b` for a folder of packages, empty for one that is in no package.

    A folder in a package needs no `__init__.py` of its own.
    """
    if folder not in known:
        above, name = os.path.split(folder)
        around = _package_of(above, known) if name.isidentifier() else ""
        is_package = bool(around) or os.path.exists(os.path.join(folder, "__init__.py"))  # noqa: PTH110, PTH118
        known[folder] = ".".join(filter(None, (around, name))) if is_package else ""
    return known[folder]


def _file(path: str, known: dict[str, str]) -> SourceFile:
    folder, base = os.path.split(os.path.abspath(path))  # noqa: PTH100
    package, stem = _package_of(folder, known), base.removesuffix(".py").removesuffix(notebook.SUFFIX)
    if stem == "__init__":
        return SourceFile(path, package or os.path.basename(folder), package)  # noqa: PTH119
    return SourceFile(path, f"{package}.{stem}" if package else stem, package)
