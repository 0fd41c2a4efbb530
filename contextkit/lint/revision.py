"""The files of a git revision, so that what was found in them then is not told again.

Takes paths and a revision, gives a folder with the code of that revision and the names its files have now. Runs `git`,
which changes nothing.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
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
    moved: dict[str, str]
    """Name then → name now, from the top, of each file that was moved."""

    def name_now(self, file: str) -> str:
        """From the top of the repository."""
        return _from(self.top, file)

    def name_then(self, file: str) -> str:
        """The present name, from the top, of a file in the folder."""
        name = _from(self.folder, file)
        return self.moved.get(name, name)


def _from(top: str, file: str) -> str:
    """A file's path from a folder, with `/`; links in its folders are followed, so that one file has one name."""
    folder, name = os.path.split(os.path.abspath(file))  # noqa: PTH100
    return Path(os.path.relpath(Path(os.path.realpath(folder)) / name, os.path.realpath(top))).as_posix()


@contextmanager
def files_of(revision: str, paths: Sequence[str], suffixes: Iterable[str]) -> Iterator[Revision]:
    """The files of a revision that end with one of the suffixes, until the block is left.

    Raises `UsageError` where git is not installed, a path is in no repository or in another one than the first, or
    there is no such revision.
    """
    top = _top(paths)
    tree = _tree(top, revision)
    moved = _moved(top, tree)
    blobs = _blobs(top, tree, tuple(suffixes))
    with TemporaryDirectory(prefix="contextkit-", ignore_cleanup_errors=True) as folder:
        _write(top, blobs, folder)
        then = [os.path.join(folder, name) for name in (_from(top, path) for path in paths)]  # noqa: PTH118
        now = [PurePosixPath(_from(top, path)) for path in paths]
        came = [old for old, new in moved.items() if any(PurePosixPath(new).is_relative_to(path) for path in now)]
        then += [os.path.join(folder, name) for name in came]  # noqa: PTH118
        yield Revision(top, folder, [path for path in dict.fromkeys(then) if Path(path).exists()], moved)


def _top(paths: Sequence[str]) -> str:
    """The folder of the repository that all paths are in."""
    found: dict[str, str] = {}
    for path in paths:
        folder = Path(path).absolute()
        while not folder.is_dir():
            folder = folder.parent
        ran = _git(str(folder), "rev-parse", "--show-toplevel")
        if ran.returncode:
            raise UsageError(f"{path}: {_OPTION} needs a git repository, and git says: {_error_line(ran)}")
        found.setdefault(os.path.realpath(ran.stdout.decode("utf-8", "surrogateescape").rstrip("\n")), path)
    if len(found) > 1:
        one, other, *_ = found.values()
        raise UsageError(f"{other} is in another git repository than {one}; lint each with a {_OPTION} of its own")
    return next(iter(found))


def _tree(top: str, revision: str) -> str:
    ran = _git(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{tree}}")
    if ran.returncode or revision.startswith("-"):
        raise UsageError(
            f"{_OPTION} {revision}: no such revision in {top}; see what `git log` and `git branch --all` list, and in CI "
            f"fetch it first (`git fetch origin NAME`, or the whole history)"
        )
    return ran.stdout.decode().strip()


def _moved(top: str, tree: str) -> dict[str, str]:
    """Name then → name now."""
    ran = _checked(_git(top, "diff", "-M", "--no-ext-diff", "--name-status", "-z", "--diff-filter=R", tree, "--"))
    words = ran.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]
    return dict(zip(words[1::3], words[2::3], strict=True))


def _blobs(top: str, tree: str, suffixes: tuple[str, ...]) -> dict[str, str]:
    """File → id of what it holds."""
    ran = _checked(_git(top, "ls-tree", "-r", "-z", "--full-tree", tree))
    blobs = dict[str, str]()
    for row in ran.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        facts, _, name = row.partition("\t")
        mode, _, blob = facts.split(" ")
        if mode in _FILE_MODES and name.endswith(suffixes):
            blobs[name] = blob
    return blobs


def _write(top: str, blobs: dict[str, str], folder: str) -> None:
    told = "".join(f"{blob}\n" for blob in blobs.values()).encode()
    held, position = _checked(_git(top, "cat-file", "--batch", told=told)).stdout, 0
    for name in blobs:
        head = held.index(b"\n", position)
        size = int(held[position:head].rsplit(b" ", 1)[1])
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(held[head + 1 : head + 1 + size])
        position = head + 1 + size + 1


def _git(folder: str, *words: str, told: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", folder, *words], input=told, capture_output=True, check=False)  # noqa: S603, S607
    except FileNotFoundError:
        raise UsageError(f"{_OPTION} needs git, which is not on the PATH; install it, or use --baseline") from None


def _checked(ran: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[bytes]:
    if ran.returncode:
        raise UsageError(f"{_OPTION}: git {ran.args[3]} failed: {_error_line(ran)}")
    return ran


def _error_line(ran: subprocess.CompletedProcess[bytes]) -> str:
    lines = ran.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[0].removeprefix("fatal: ") if lines else f"exit code {ran.returncode}"
