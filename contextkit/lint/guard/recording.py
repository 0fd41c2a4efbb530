"""What a watched client sent, in a ledger: whole bodies, secrets covered, headers never.

Takes bodies and bills, gives rows of a `Ledger`.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace

from contextkit.errors import StorageError, UsageError
from contextkit.ledger.exchange import Bodies, Exchange, Remark
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.row import Record
from contextkit.redact import redact
from contextkit.terminal import sanitize


class Recording:
    """The ledger a watched client writes; it is opened at once, and given back with the client."""

    __slots__ = ("_ledger",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises `StorageError` where the file cannot be opened, `UnreadableLog` where it is no ledger."""
        if not isinstance(path, str | os.PathLike):
            raise UsageError(f"record is the path of a ledger, or None, not {type(path).__name__}")
        self._ledger: Ledger | None = Ledger.open(path)

    def keep(self, exchange: Exchange, body: bytes) -> None:
        """Append one exchange with its body; a disk that fails ends the recording with a warning, not the conversation.

        A process that was forked, as workers of web servers are, opens the file for itself; so does everybody when the
        file was rotated.
        """
        if self._ledger is not None:
            self._write(replace(exchange, prompt=Bodies(redact(body))))

    def remark(self, remark: Remark) -> None:
        """Append what is known of an exchange, in front of it; a disk that fails is told as in `keep`."""
        self._write(remark)

    def _write(self, record: Record) -> None:
        if self._ledger is None:
            return
        try:
            try:
                self._put(self._ledger, record)
            except StorageError:
                self._ledger.close()
                self._ledger = Ledger.open(self._ledger.path or "")
                self._put(self._ledger, record)
        except (OSError, StorageError) as fault:
            what = (fault.strerror if isinstance(fault, OSError) else None) or fault
            text = f"{self._ledger.path} takes no more rows ({what}): recording has stopped, the client goes on"
            self.close()
            warnings.warn(sanitize(text), stacklevel=3)

    @staticmethod
    def _put(ledger: Ledger, record: Record) -> None:
        ledger.append(record) if isinstance(record, Exchange) else ledger.remark(record)

    def close(self) -> None:
        """Give the file back."""
        if self._ledger is not None:
            self._ledger.close()
            self._ledger = None
