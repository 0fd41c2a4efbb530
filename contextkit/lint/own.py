"""Codes that belong to no hazard: what the detectors say of themselves.

Takes nothing, gives the name, the severity and the page of each; the catalogue knows none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contextkit.lint.hazard import Severity

_UNREADABLE = """unreadable: a file, or a recorded request, cannot be read.

## What it does
A statement is no Python of any version up to 3.15, or is nested too deeply: it is left out, and the rest of the file is
looked at. Or a whole file holds null bytes, is in no encoding, may not be opened, or is longer than 8,000,000 bytes. These
are notes: they do not make the command leave with 1. Or the body of a recorded request is not what its endpoint takes; the finding
names the conversation, the turn and the path in the body.

## Why it costs you
Nothing that stands in it was looked at: its hazards are not told, and a value that passes through it is not followed.

## Example
    def ask(:

## Use instead
Mend the statement or the file. Leave out what is no code of yours: `exclude` in
`[tool.contextkit.lint]` for files and folders, `--ignore CK000` for all of them. A shorter beginning (`--ignore CK`) leaves
it in, so that a selection never hides that something was not looked at.

## Detected by
- source: a file is not read, or a statement not parsed.
- requests: the body is not read.
"""

_UNNAMED = """unnamed-break: a prefix broke in a way that no hazard describes.

## What it does
A call of a conversation changed something in front of its last breakpoint, or where the call before it had left an automatic
cache, and none of the hazards knows the change. The finding shows the block, the byte at which the two calls part, what stood
there and what stands there.

## Why it costs you
The cache reads up to the first difference. Everything from there on is billed as if it had never been sent; the cost stands
beside the finding where prices are known.

## Example
    call 1: {"role": "user", "content": "Sort these parcels by weight: ..."}
    call 2: {"role": "user", "content": "Sort these letters by date: ..."}

## Use instead
Find the code that writes this block, and leave as it is what was sent once: say what is new at the end. A change that is
meant (a compaction, a new task in the same conversation) is one to make rarely, or a conversation of its own.
`--ignore CK001` leaves these out.

## Detected by
- requests: a difference in what was cached that no rule names.
- guard: the same comparison, before the call leaves.
"""


@dataclass(frozen=True, slots=True)
class Own:
    """A code of the detectors themselves."""

    name: str
    """`unreadable`."""
    severity: Severity
    """How much it matters."""
    page: str
    """What `--explain` prints: as the page of a hazard, a first line with the name, then chapters."""


UNREADABLE = "CK000"
"""Code of what cannot be read."""
OWN: Mapping[str, Own] = {
    UNREADABLE: Own("unreadable", "note", _UNREADABLE),
    "CK001": Own("unnamed-break", "warning", _UNNAMED),
}
"""A file or request nobody can read, and a prefix that broke in a way no hazard describes."""
