"""Any recordings as one ledger of ours, one pass: what engines outside this process read.

Takes names of recordings and of a file, writes it line by line in constant memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from contextkit.errors import UsageError
from contextkit.ledger.calls import Bodies, Exchange, Record, encode
from contextkit.ledger.ledger import HEADER
from contextkit.private_files import private_opener
from contextkit.redact import redact


def written(records: Iterable[Record], to: str) -> int:
    """Write `records` to the file `to`, request bodies too where they were recorded, secrets covered.

    Gives how many calls there are.

    Raises `UsageError` where that file is there already. What was begun and not ended is taken away again.
    """
    path, n = Path(to), 0
    part = path.with_name(f"{path.name}.part")
    if path.exists():
        raise UsageError(f"{to} is there already; name a new file, or remove it first")
    try:
        with open(part, "wb", opener=private_opener) as file:
            file.write(HEADER)
            for record in records:
                n += isinstance(record, Exchange)
                file.write(encode(_redacted(record)) + b"\n")
        os.replace(part, path)  # noqa: PTH105 - whole or not at all
    finally:
        part.unlink(missing_ok=True)
    return n


def _redacted(record: Record) -> Record:
    """`record` with the secrets of its body covered."""
    if isinstance(record, Exchange) and isinstance(record.prompt, Bodies):
        return replace(record, prompt=replace(record.prompt, request=redact(record.prompt.request)))
    return record
