"""One open folder of the local disk: what is done in it is done in this very folder, whatever its path leads to by now.

Takes single names, follows no link; knows nothing of paths, and nothing of who asks. `Held` holds the folder by a
descriptor, so that nothing can come between a check and a use. `Watched` is for systems without such descriptors
(Windows): it looks before and after.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from contextkit.private_files import is_link, open_unfollowed

_DIRECTORY = getattr(os, "O_DIRECTORY", 0)

FOLDER_MODE = 0o700
"""For the owner alone, whatever the umask says: what an agent remembers is nobody else's business."""

HAS_HANDLES = {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir} <= os.supports_dir_fd and bool(
    getattr(os, "O_NOFOLLOW", 0) and _DIRECTORY
)
"""Whether this system lets us hold a folder."""


class Held:
    """A folder held by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        """Open for as long as this lives."""

    @classmethod
    def at(cls, root: Path) -> Held:
        """The folder at a path that the caller trusts."""
        return cls(os.open(root, os.O_RDONLY | _DIRECTORY))

    def enter(self, name: str) -> Held:
        """A folder in it."""
        try:
            return Held(open_unfollowed(name, os.O_RDONLY | _DIRECTORY, self.descriptor))
        except NotADirectoryError:
            if stat.S_ISLNK(self.look(name).st_mode):  # Linux says "not a folder" of a link
                raise OSError(errno.ELOOP, "is a link") from None
            raise

    def make(self, name: str) -> None:
        """Make a folder in it, for the owner alone."""
        os.mkdir(name, FOLDER_MODE, dir_fd=self.descriptor)

    def open(self, name: str, flags: int) -> int:
        """A descriptor of a file in it."""
        return open_unfollowed(name, flags, self.descriptor)

    def look(self, name: str) -> os.stat_result:
        """What stands in it under a name; of a link, the link."""
        return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)

    def names(self) -> Iterator[str]:
        """All names in it."""
        return iter(os.listdir(self.descriptor))  # noqa: PTH208 - a Path knows no descriptors

    def move(self, name: str, to: Handle, new: str) -> None:
        """Move what is in it to another folder, in place of a file that may stand there."""
        assert isinstance(to, Held), "both folders are of one store"  # noqa: S101 - for the type checker
        os.rename(name, new, src_dir_fd=self.descriptor, dst_dir_fd=to.descriptor)

    def unlink(self, name: str) -> None:
        """Take a file or a link out of it."""
        os.unlink(name, dir_fd=self.descriptor)

    def rmdir(self, name: str) -> None:
        """Take an empty folder out of it."""
        os.rmdir(name, dir_fd=self.descriptor)

    def sync(self) -> None:
        """Wait until the disk has its names."""
        os.fsync(self.descriptor)

    def close(self) -> None:
        """Let it go."""
        os.close(self.descriptor)


class Watched:
    """A folder known by its path, looked at before and after every use.

    Every folder from the root to this one must be a real folder (no link, junction or mount point) and the same one as
    when it was entered. A race is therefore found out, though not made impossible as with `Held`.
    """

    def __init__(self, path: Path, chain: tuple[tuple[Path, tuple[int, int]], ...] = ()) -> None:
        self.path = path
        """Where it is, links resolved."""
        self._chain = (*chain, (path, self._identity(path)))

    @classmethod
    def at(cls, root: Path) -> Watched:
        """The folder at a path that the caller trusts."""
        return cls(Path(os.path.realpath(root, strict=True)))

    def enter(self, name: str) -> Watched:
        """A folder in it."""
        self._check()
        return Watched(self._real(name), self._chain)

    def make(self, name: str) -> None:
        """Make a folder in it, for the owner alone."""
        self._check()
        (self.path / name).mkdir(FOLDER_MODE)
        self._check()

    def open(self, name: str, flags: int) -> int:
        """A descriptor of a file in it: what was opened is what stands there, and that is no link."""
        self._check()
        path = self.path / name
        if os.path.lexists(path) and stat.S_ISDIR(os.lstat(self._real(name)).st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a folder")  # Windows says "no permission" of a folder
        descriptor = open_unfollowed(path, flags)
        try:
            self._check()
            if not os.path.samestat(os.fstat(descriptor), os.lstat(self._real(name))):
                raise OSError(errno.ELOOP, "was exchanged while it was opened")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def look(self, name: str) -> os.stat_result:
        """What stands in it under a name; of a link, the link."""
        self._check()
        return os.lstat(self.path / name)

    def names(self) -> Iterator[str]:
        """All names in it."""
        self._check()
        found = [one.name for one in self.path.iterdir()]
        self._check()
        return iter(found)

    def move(self, name: str, to: Handle, new: str) -> None:
        """Move what is in it to another folder, in place of a file that may stand there."""
        assert isinstance(to, Watched), "both folders are of one store"  # noqa: S101 - for the type checker
        self._check()
        to._check()
        (self.path / name).replace(to.path / new)
        self._check()
        to._check()

    def unlink(self, name: str) -> None:
        """Take a file or a link out of it."""
        self._check()
        (self.path / name).unlink()

    def rmdir(self, name: str) -> None:
        """Take an empty folder out of it."""
        self._check()
        (self.path / name).rmdir()

    def sync(self) -> None:
        """Wait until the disk has its names; Windows does that by itself and opens no folders."""
        if sys.platform != "win32":
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Nothing is held."""

    def _check(self) -> None:
        for path, identity in self._chain:
            if self._identity(path) != identity:
                raise OSError(errno.ELOOP, "was exchanged while it was used")

    def _real(self, name: str) -> Path:
        """The path of what stands under a name, when it is what the name says and no way to somewhere else."""
        path = self.path / name
        if is_link(os.lstat(path)) or os.path.normcase(os.path.realpath(path)) != os.path.normcase(path):
            raise OSError(errno.ELOOP, "is a link")
        return path

    @staticmethod
    def _identity(path: Path) -> tuple[int, int]:
        status = os.lstat(path)
        if is_link(status):
            raise OSError(errno.ELOOP, "is a link")
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "is no folder")
        return status.st_dev, status.st_ino


Handle: TypeAlias = Held | Watched
"""An open folder. Its methods raise `OSError`; with `ELOOP` for a link."""
