"""A disk that fails: os.write, os.fsync and os.ftruncate of this process raise, or take a part only, where a test says
so; or, for libraries that write by themselves, no file grows beyond a limit."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Plan = Callable[[str, str], "int | str | None"]
"""(operation, file name) → an errno to raise, "short" to take a part and then raise ENOSPC, or None to work as usual.
"""


class Disk:
    """The files of this process, from `installed` on; what `plan` says holds until it is changed."""

    def __init__(self) -> None:
        self.plan: Plan = lambda operation, name: None
        self.n_faults = 0
        self._names: dict[int, str] = {}
        self._real = {name: getattr(os, name) for name in ("open", "write", "fsync", "ftruncate")}
        self._is_full = False

    @contextmanager
    def installed(self) -> Iterator[Disk]:
        """Stand between this process and its disk until the block ends."""
        for name in self._real:
            setattr(os, name, getattr(self, name))
        try:
            yield self
        finally:
            for name, real in self._real.items():
                setattr(os, name, real)

    @contextmanager
    def failing(self, plan: Plan) -> Iterator[None]:
        """Fail by `plan` until the block ends."""
        before, self.plan = self.plan, plan
        try:
            yield
        finally:
            self.plan = before

    def open(self, path: Any, flags: int, *more: Any, **named: Any) -> int:
        descriptor: int = self._real["open"](path, flags, *more, **named)
        self._names[descriptor] = os.path.basename(os.fspath(path))  # noqa: PTH119 - of any kind of path
        return descriptor

    def write(self, descriptor: int, data: Any) -> int:
        self._strike("write", descriptor, data)
        n: int = self._real["write"](descriptor, data)
        return n

    def fsync(self, descriptor: int) -> None:
        self._strike("fsync", descriptor)
        self._real["fsync"](descriptor)

    def ftruncate(self, descriptor: int, size: int) -> None:
        self._strike("ftruncate", descriptor)
        self._real["ftruncate"](descriptor, size)

    def _strike(self, operation: str, descriptor: int, data: Any = b"") -> None:
        fault = self.plan(operation, self._names.get(descriptor, ""))
        if fault is None:
            return
        self.n_faults += 1
        if fault == "interrupt":
            raise KeyboardInterrupt
        if fault == "short":
            self._real["write"](descriptor, bytes(data)[: len(data) // 2])
            fault = errno.ENOSPC
        assert isinstance(fault, int)
        raise OSError(fault, os.strerror(fault))


def of(name: str, *operations: str, fault: int | str = errno.ENOSPC) -> Plan:
    """A plan that fails the operations on one file."""
    return lambda operation, file: fault if file == name and operation in operations else None


def limit_files(n_bytes: int | None) -> None:
    """Let the system refuse what this process writes behind so many bytes of any file; None lifts the limit.

    Nothing is refused on Windows.
    """
    if sys.platform != "win32":
        import resource

        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard if n_bytes is None else n_bytes, hard))
