"""What the paths of a command line mean: code, recordings, or what comes by standard input.

Takes what was typed, gives the paths of each; knows nothing of what is looked for in them.
"""

from __future__ import annotations

import glob
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import click

STDIN = "-"
"""Stands for standard input."""
UNNAMED = "stdin"
"""What source from standard input is called where nothing names it."""
SOURCE_SUFFIXES = {".py", ".pyi", ".pyw"}
"""What is read as code; any other file is a recording, whatever it is called."""
_RECORDED = (b"{", b"[", b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""How a recording begins, plain or packed; what begins otherwise is Python."""


@dataclass(frozen=True, slots=True)
class Given:
    """What is to be looked at."""

    code: Sequence[str]
    """Folders and Python files."""
    recordings: Sequence[str]
    """Files, patterns of them, or standard input."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """File among the code → what it holds, where that came by standard input."""


def given(paths: Sequence[str], recordings: Sequence[str], stdin_filename: str | None) -> Given:
    """Paths sorted; this folder where nothing was typed. Raises a usage error for a path or pattern that names nothing."""
    wanted = paths or (() if recordings else (".",))
    named = [found for path in wanted for found in _meant(path)]
    contents = _contents(stdin_filename, is_read=STDIN in named)
    named = [next(iter(contents), path) if path == STDIN else path for path in named]
    code = [path for path in named if path in contents or _is_code(path)]
    return Given(code, [*(path for path in named if path not in code), *recordings], contents)


def _is_code(path: str) -> bool:
    return Path(path).is_dir() or Path(path).suffix in SOURCE_SUFFIXES


def _meant(path: str) -> list[str]:
    """The path, or what a pattern stands for, as a shell would have it.

    One that stands for recordings alone is one recording.
    """
    if path == STDIN or Path(path).exists():
        return [path]
    found = sorted(one for one in glob.glob(str(Path(path).expanduser()), recursive=True) if Path(one).exists())  # noqa: PTH207 - may be absolute
    if not glob.has_magic(path) or not found:
        raise click.UsageError(
            f"{path}: {_lacking(path)}; give Python files, folders of them, or recordings of requests"
        )
    return found if any(map(_is_code, found)) else [path]


def _lacking(path: str) -> str:
    if Path(path).is_symlink():
        return "a link to a file that is not there"
    return "no such file or folder" + (", and as a pattern it fits none" if glob.has_magic(path) else "")


def _contents(name: str | None, *, is_read: bool) -> Mapping[str, bytes]:
    """Python source that comes by standard input, by its name; nothing where a recording comes, or nothing is read."""
    if name is not None and not is_read:
        raise click.UsageError("--stdin-filename names what comes by standard input; give - as a path, too")
    if not is_read:
        return {}
    if sys.stdin is None:
        raise click.UsageError("standard input is closed; give paths instead of -")
    if name is None and _is_recorded():
        return {}
    return {str(Path(name or UNNAMED)): sys.stdin.buffer.read()}


def _is_recorded() -> bool:
    """By what it begins with, which is not taken away: a recording may be larger than memory, and is read later."""
    head: bytes = cast(Any, sys.stdin.buffer).peek(1).lstrip()
    return not head or head.startswith(_RECORDED)
