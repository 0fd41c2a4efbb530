"""The code of a git revision, so that what was found in it is not reported again. Runs `git`, which changes nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from contextkit.errors import UsageError
from contextkit.private_files import open_private

_OPTION = "--diff-base"
_FILE_MODES = ("100644", "100755")
"""Of a file in a git tree; anything else is a link or another repository."""


@dataclass(frozen=True, slots=True)
class Revision:
    """The code of a revision, beside the repository as it is now."""

    top: str
    """The repository's folder."""
    folder: str
    """Holds the files of the revision, each where it stood in the repository."""
    paths: Sequence[str]
    """In that folder: what stood there then of the paths that are linted."""
    moved: Mapping[str, str]
    """Name then → name now, from the top, of each file that was moved."""

    def name_now(self, file: str) -> str:
        """Return a file's name from the top of the repository."""
        return _from(self.top, file)

    def name_then(self, file: str) -> str:
        """Return the present name, from the top, of a file in the folder."""
        name = _from(self.folder, file)
        return self.moved.get(name, name)


def _from(top: str, file: str) -> str:
    """Return a file's path from a folder, with `/`; links in its folders are followed, so that one file has one name."""
    folder, name = os.path.split(os.path.abspath(file))  # noqa: PTH100
    return Path(os.path.relpath(Path(os.path.realpath(folder)) / name, os.path.realpath(top))).as_posix()


@contextmanager
def files_of(revision: str, paths: Sequence[str], suffixes: Iterable[str]) -> Iterator[Revision]:
    """Provide the files of a revision that end with one of the suffixes, until the block is left.

    Raises `UsageError` where git is not installed, a path is in no repository or in another one than the first, or
    there is no such revision.
    """
    top = _top(paths)
    no_revision = (
        f"{_OPTION} {revision}: no such revision in {top}; see what `git log` and `git branch --all` list, and in CI fetch "
        "it first (`git fetch origin NAME`, or the whole history)"
    )
    if revision.startswith("-"):
        raise UsageError(no_revision)
    tree = _git(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{tree}}", error=no_revision).decode().strip()
    renames = _words(_git(top, "diff", "-M", "--no-ext-diff", "--name-status", "-z", "--diff-filter=R", tree, "--"))
    moved = dict(zip(renames[1::3], renames[2::3], strict=True))
    with TemporaryDirectory(prefix="contextkit-", ignore_cleanup_errors=True) as folder:
        _write_files(top, tree, tuple(suffixes), folder)
        now = [_from(top, path) for path in paths]
        before = [old for old, new in moved.items() if any(PurePosixPath(new).is_relative_to(path) for path in now)]
        then = [os.path.join(folder, name) for name in dict.fromkeys([*now, *before])]  # noqa: PTH118
        yield Revision(top, folder, [path for path in then if Path(path).exists()], moved)


def _top(paths: Sequence[str]) -> str:
    """Return the folder of the repository that all paths are in."""
    tops: dict[str, str] = {}
    for path in paths:
        folder = Path(path).absolute()
        while not folder.is_dir():
            folder = folder.parent
        error = f"{path}: {_OPTION} needs a git repository, and git says: {{}}"
        line = _git(str(folder), "rev-parse", "--show-toplevel", error=error).decode("utf-8", "surrogateescape")
        tops.setdefault(os.path.realpath(line.rstrip("\n")), path)
    if len(tops) > 1:
        one, other, *_ = tops.values()
        raise UsageError(f"{other} is in another git repository than {one}; lint each with a {_OPTION} of its own")
    return next(iter(tops))


def _write_files(top: str, tree: str, suffixes: tuple[str, ...], folder: str) -> None:
    """Write the files of a tree that end with one of the suffixes into a folder."""
    blobs: dict[str, str] = {}
    for row in _words(_git(top, "ls-tree", "-r", "-z", "--full-tree", tree)):
        facts, _, name = row.partition("\t")
        mode, _, blob = facts.split(" ")
        if mode in _FILE_MODES and name.endswith(suffixes):
            blobs[name] = blob
    contents = _git(top, "cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs.values()).encode())
    position = 0
    for name in blobs:
        start = contents.index(b"\n", position) + 1
        position = start + int(contents[position:start].rsplit(b" ", 1)[1]) + 1
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(contents[start : position - 1])


def _words(output: bytes) -> list[str]:
    return output.decode("utf-8", "surrogateescape").split("\0")[:-1]


def _git(folder: str, *words: str, stdin: bytes = b"", error: str = "") -> bytes:
    """Return what git prints; raise `UsageError` if it fails, with its reason in place of `{}` in `error`."""
    try:
        done = subprocess.run(["git", "-C", folder, *words], input=stdin, capture_output=True, check=False)  # noqa: S603, S607
    except FileNotFoundError:
        raise UsageError(f"{_OPTION} needs git, which is not on the PATH; install it, or use --baseline") from None
    if done.returncode:
        lines = [*done.stderr.decode("utf-8", "replace").strip().splitlines(), f"exit code {done.returncode}"]
        message = error or f"{_OPTION}: git {words[0]} failed: {{}}"
        raise UsageError(message.replace("{}", lines[0].removeprefix("fatal: ")))
    return done.stdout
