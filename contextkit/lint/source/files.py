"""Which files are linted, and what each is called: `pkg.mod`, by the packages it stands in.

Takes paths and a config, gives files; knows nothing of what they hold.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from contextkit.lint.config import LintConfig
from contextkit.lint.source import notebook

SKIPPED = frozenset(
    {
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "venv",
        "node_modules",
        "__pycache__",
        ".tox",
        ".nox",
        ".mypy_cache",
        ".ruff_cache",
        ".eggs",
    }
)
"""Folders nobody wants linted."""
_COLLECTED = (".py", notebook.SUFFIX)
"""How the names of files end that are linted in a folder."""
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
    package: str
    n_bytes: int
    meant: Mapping[str, str] = field(default_factory=dict)
    """First part of an imported name → what is meant by it here, where another folder of the tree has one of the same
    name."""
    source: bytes | None = None
    """What it holds, where that is not to be read from the disk."""


def source_files(
    paths: Iterable[str | Path],
    config: LintConfig,
    left_out: Callable[[str], None] | None = None,
    closed: Callable[[str, str], None] | None = None,
) -> Iterator[SourceFile]:
    """Python files and notebooks under paths, each once, in order; a folder reached again through a link is not entered.

    Tests are left out unless they, or a folder of them, are named or the config wants them; `left_out` gets their
    paths. `closed` gets the path of each folder that cannot be looked into, and why. What is met in a folder and is no
    file (a pipe, a link to nothing) is passed by.
    """
    yield from _with_unique_names(list(_listed(paths, config, left_out, closed or _nobody)))


def _nobody(path: str, reason: str) -> None:
    """Folders that nobody asks after."""


def _listed(
    paths: Iterable[str | Path],
    config: LintConfig,
    left_out: Callable[[str], None] | None,
    closed: Callable[[str, str], None],
) -> Iterator[SourceFile]:
    visited = set[str]()
    for path in map(Path, paths):
        wants_tests = config.tests or not _TESTS.isdisjoint(path.absolute().parts)
        for results, real in sorted(_under(path, config, closed)):
            if real in visited:
                continue
            if not wants_tests and _TEST.search(results, len(str(path))):
                if left_out is not None:
                    left_out(results)
            else:
                visited.add(real)
                yield _file(results)


def _with_unique_names(files: list[SourceFile]) -> Iterator[SourceFile]:
    """Of packages and modules of one name in several folders, `app`, all but the first get another, `app~2`, meant by
    what is beside.
    """
    places: dict[str, dict[str, None]] = defaultdict(dict)
    tops = [_folder_of_top(file) for file in files]
    for file, folder in zip(files, tops, strict=True):
        places[file.name.partition(".")[0]][folder] = None
    meant: dict[str, dict[str, str]] = defaultdict(dict)
    for top, folders in places.items():
        for n, folder in enumerate([*folders][1:], 2):
            meant[folder][top] = f"{top}~{n}"
    for file, folder in zip(files, tops, strict=True):
        names = meant.get(folder)
        yield (
            replace(file, name=as_meant(file.name, names), package=as_meant(file.package, names), meant=names)
            if names
            else file
        )


def as_meant(name: str, tops: Mapping[str, str]) -> str:
    """A full name under the name that its first part has in the tree, where several folders have one of that name.

    >>> as_meant("app.prompts", {"app": "app~2"})
    'app~2.prompts'
    """
    top, dot, rest = name.partition(".")
    return f"{tops.get(top, top)}{dot}{rest}"


def _folder_of_top(file: SourceFile) -> str:
    """The folder that the first part of a file's name stands in."""
    folder = os.path.dirname(os.path.abspath(file.path))  # noqa: PTH100, PTH120
    n_levels = file.package.count(".") + bool(file.package)
    return folder if not n_levels else folder.rsplit(os.sep, n_levels)[0]


_Found = tuple[str, str]
"""A path, and the same without links."""


def _under(path: Path, config: LintConfig, closed: Callable[[str, str], None]) -> Iterator[_Found]:
    """The files under a path; a folder reached again through a link is not entered."""
    top = str(path), os.path.realpath(path)
    if not path.is_dir():
        yield top
        return
    entered, waiting = set[str](), [top]
    while waiting:
        folder, real = waiting.pop()
        if real in entered:
            continue
        entered.add(real)
        inside: list[_Found] = []
        for entry in _entries(folder, closed):
            name, results = entry.name, entry.path
            if name.endswith(_COLLECTED) and _is_file(entry):
                if not _is_excluded(results, config):
                    yield results, _without_links(entry, real)
            elif _is_folder(entry) and _is_entered(results, name, config):
                inside.append((results, _without_links(entry, real)))
        waiting += sorted(inside, reverse=True)


def _entries(folder: str, closed: Callable[[str, str], None]) -> list[os.DirEntry[str]]:
    """What stands in a folder; nothing in one that may not be looked into."""
    try:
        with os.scandir(folder) as entries:
            return [*entries]
    except OSError as fault:
        closed(folder, fault.strerror or type(fault).__name__)
        return []


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Return whether there is something to read: an editor's lock is a link to nothing, and a pipe would be waited
    for.
    """
    try:
        return entry.is_file()
    except PermissionError:  # a link into a closed folder: reading it tells why it cannot be
        return True
    except OSError:  # a link that leads to itself
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _without_links(entry: os.DirEntry[str], folder: str) -> str:
    return os.path.realpath(entry.path) if entry.is_symlink() else os.path.join(folder, entry.name)  # noqa: PTH118


def _is_entered(path: str, name: str, config: LintConfig) -> bool:
    return name not in SKIPPED and _TEMPLATE not in name and not _is_excluded(path, config)


def _is_excluded(path: str, config: LintConfig) -> bool:
    return any(matches(path, pattern) for pattern in config.exclude)


def matches(path: str, pattern: str) -> bool:
    """Return whether a path is meant by a pattern of the config: a glob on its end, or the name of a folder in it."""
    posix = Path(path).as_posix()
    return (
        fnmatch.fnmatch(posix, pattern)
        or fnmatch.fnmatch(posix, f"*/{pattern}")
        or fnmatch.fnmatch(posix, f"*/{pattern.rstrip('/')}/*")
    )


_packages: dict[str, str] = {}


def _package_of(folder: str) -> str:
    """`a.b` for a folder of packages, empty for one that is in no package.

    A folder in a package needs no `__init__.py` of its own.
    """
    results = _packages.get(folder)
    if results is None:
        above, name = os.path.split(folder)
        around = _package_of(above) if name.isidentifier() else ""
        is_package = bool(around) or os.path.exists(os.path.join(folder, "__init__.py"))  # noqa: PTH110, PTH118
        results = _packages[folder] = ".".join(filter(None, (around, name))) if is_package else ""
    return results


def _file(path: str) -> SourceFile:
    folder, base = os.path.split(os.path.abspath(path))  # noqa: PTH100
    package, stem = _package_of(folder), base.removesuffix(".py").removesuffix(notebook.SUFFIX)
    if stem == "__init__":
        return SourceFile(path, package or os.path.basename(folder), package, _size(path))  # noqa: PTH119
    return SourceFile(path, f"{package}.{stem}" if package else stem, package, _size(path))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116
    except OSError:
        return 0
