"""Files that hold what a prompt holds: readable by their owner alone."""

from __future__ import annotations

import os

PRIVATE_MODE = 0o600


def private_opener(path: str, flags: int) -> int:
    """An `opener` for `open`: a file that it creates has mode 0600 whatever the umask; an existing file keeps its mode."""
    return os.open(path, flags, PRIVATE_MODE)
