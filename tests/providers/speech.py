"""Log entries as `log/entry.py` describes them, for the tests of adapters."""

from __future__ import annotations

from typing import Any

from contextkit.canonical import canonical
from contextkit.log.entry import Entry, Kind


def entry(kind: Kind, body: Any, sequence: int = 1) -> Entry:
    """One log entry."""
    return Entry(sequence, kind, canonical(body), 0.0, b"")
