"""Audit hook: notes every file that contextkit opens for writing, renames or links otherwise than through `private_files`.

Only the standard library is used: processes that tests start load it before anything else, through `sitecustomize`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

NOTES = "WRITE_AUDIT_FILE"
"""Environment variable that names the file the notes are appended to; a process that a test starts inherits it."""
_PACKAGE = str(Path(__file__).parents[2] / "contextkit") + os.sep
_ALLOWED = {_PACKAGE + "private_files.py"}
_MAY_MOVE = _ALLOWED | {_PACKAGE + os.path.join("memory", "files", "local.py")}  # noqa: PTH118 - as frames name it
"""`local.py` moves a file between two folders that it holds open."""
_LIBRARIES = (str(Path(os.__file__).parent) + os.sep, "<frozen ")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = {"os.rename": 1, "os.link": 1, "os.symlink": 1, "os.truncate": 0, "os.chmod": 0}
"""Event → which of its arguments is the path that changes."""
_NO_FILE = ("", ":memory:")
_READ_ONLY = ("mode=ro", "mode=memory")


def install() -> None:
    """Watch this process from now on: a hook cannot be taken away again."""
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    allowed = _ALLOWED
    if event == "open":
        path, _, flags = arguments
        if not isinstance(flags, int) or not flags & _WRITES:
            return
    elif event == "sqlite3.connect":
        path = arguments[0]
        if path in _NO_FILE or str(path).endswith(_READ_ONLY):
            return
    elif event in _CHANGES:
        path, allowed = arguments[_CHANGES[event]], _MAY_MOVE
    else:
        return
    if isinstance(path, int) or path == os.devnull:
        return
    writer = _writer(sys._getframe(1))
    notes = os.environ.get(NOTES)
    if writer is None or writer.f_code.co_filename in allowed or notes is None:
        return
    with open(notes, "a", encoding="utf-8") as file:  # noqa: PTH123 - pathlib would have to be imported first
        file.write(f"{writer.f_code.co_filename}:{writer.f_lineno} {event} {os.fsdecode(path)}\n")


def _writer(frame: FrameType | None) -> FrameType | None:
    """The innermost frame of contextkit; None where code that is neither its nor a library's (a test, a tool) stands further in."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_PACKAGE):
            return frame
        if "importlib" in name and name.startswith("<frozen "):
            return None  # Python keeps what it compiled
        if "fsspec" in name:
            return None  # a file system that the program brings
        if f"{os.sep}_pytest{os.sep}" in name:
            return None  # a folder that pytest makes for a test
        if frame.f_code.co_name == "_get_default_tempdir":
            return None  # Python tries whether it may make temporary files there
        if not name.startswith(_LIBRARIES) and "-packages" not in name:
            return None
        frame = frame.f_back
    return None
