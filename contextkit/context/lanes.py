"""Ids of the sub-agents and branches of one conversation: lanes in its ledger, names of their folders.

Takes what there is already, gives the next id. No clock and no chance is in it: the same conversation makes the same
ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

from contextkit.errors import StorageError
from contextkit.ledger.ledger import Ledger
from contextkit.log.storage import JSONLStorage

AGENTS = "agents"
"""Folder, beside a log, of the folders of its sub-agents."""
_ID = re.compile(r"(?:agent|branch)-(\d+)-[0-9a-f]+")


class Lanes:
    """Counts the sub-agents and branches that write into one ledger; their own sub-agents share it."""

    __slots__ = ("_lock", "_n")

    def __init__(self) -> None:
        self._n: int | None = None
        self._lock = Lock()

    def next(self, kind: str, digest: bytes, ledger: Ledger, folder: Path | None = None) -> str:
        """An id that neither a row of `ledger` nor a folder in `folder` has; `digest` is that of the log it leaves.

        >>> Lanes().next("agent", bytes(16), Ledger())
        'agent-1-000000000000'
        """
        with self._lock:
            if self._n is None:
                self._n = max((number_of(exchange.lane) for exchange in ledger), default=0)
            taken = max(map(number_of, ids_in(folder)), default=0)
            self._n = max(self._n, taken) + 1
            return f"{kind}-{self._n}-{digest.hex()[:12]}"


def number_of(lane: str) -> int:
    """The number in an id; 0 for a lane that was named otherwise.

    >>> number_of("agent-12-00ff"), number_of("main")
    (12, 0)
    """
    found = _ID.fullmatch(lane)
    return int(found[1]) if found else 0


def ids_in(folder: Path | None) -> Iterable[str]:
    """Ids of the sub-agents whose logs are in a folder, in the order they were spawned."""
    if folder is None or not folder.is_dir():
        return []
    return sorted((path.name for path in folder.iterdir() if number_of(path.name)), key=number_of)


def has_entries(log: Path) -> bool:
    """Whether the file of a log holds an entry, or something that must be looked at.

    What a failed append left there is none.
    """
    try:
        return next(JSONLStorage.read(log), None) is not None
    except FileNotFoundError:
        return False
    except StorageError:
        return True
