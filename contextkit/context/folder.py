"""The folder a conversation is kept in: its log, and beside it what its calls were billed.

Takes what was opened there; says whether the two belong together.
"""

from __future__ import annotations

from pathlib import Path

from contextkit.errors import StorageError
from contextkit.ledger.calls import Outline
from contextkit.ledger.ledger import Ledger
from contextkit.log.log import Log


def check_log_is_there(folder: Path, log: Log, ledger: Ledger) -> None:
    """Raises `StorageError` for a log without an entry beside calls of a conversation: begun anew, it would go on under
    their bills.

    A ledger that `watch` or the proxy wrote holds whole bodies instead of outlines, and needs no log.
    """
    n_calls = 0 if len(log) else sum(isinstance(call.prompt, Outline) for call in ledger)
    if n_calls:
        raise StorageError(
            f"{folder / 'log.jsonl'} is missing or empty, but ledger.jsonl beside it records {n_calls} call{'s' * (n_calls > 1)}: put the "
            "log back from a copy to go on, or move the ledger away (or name another folder) to begin anew"
        )
