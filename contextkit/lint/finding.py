"""The values that every detector makes and every output shows: which hazard, where, how it gets there, what it costs, how
to fix it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Detector = Literal["source", "requests", "guard", "provider"]
"""Who found it: the code, captured requests, the live guard before sending, the provider's own verdict."""


_CELL = re.compile(r"#cell\d+$")


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A place in a source file."""

    file: str
    """Path as it was given; of a notebook with the number of the cell, from 1: `note.ipynb#cell3`."""
    line: int
    """From 1."""
    column: int
    """From 1, in characters."""
    end_line: int
    """Where the expression ends, from 1."""
    end_column: int
    """Column behind its last character."""
    note: str = ""
    """What happens here, for a step of a trail: `datetime.now()`, `returned by build_prompt`."""

    @property
    def path(self) -> str:
        """The file, without the cell of a notebook.

        >>> CodePlace("note.ipynb#cell3", 1, 1, 1, 2).path
        'note.ipynb'
        """
        return _CELL.sub("", self.file)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class RequestPlace:
    """A place in one captured request."""

    session: str
    """The conversation."""
    turn: int
    """Which call of the conversation, from 1; the one that differs from the call before it."""
    request: str
    """Id of the call."""
    level: str
    """tools, system, messages, or `parameters` for what stands outside the prompt's text."""
    path: str
    """Of the block: `messages[4].content[1]`, `tools[2].input_schema`, `thinking.budget_tokens`."""
    offset: int
    """Bytes of the block that still agree; 0 where it came, went or moved whole."""
    was: str
    """What stood there, around the first difference; empty where there was nothing."""
    now: str
    """What stands there; empty where it is gone."""
    caller: str = ""
    """`file:line` of the code that sent it, where the guard saw it."""

    def __str__(self) -> str:
        return f"{self.session} turn {self.turn} {self.path}"


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement in a source file."""

    start: int
    """Byte offset."""
    end: int
    """Byte offset behind the last byte replaced."""
    text: str
    """What stands there instead."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A change: stable bytes, and the same meaning where it is safe."""

    title: str
    """What it does: `sort the keys`."""
    edits: tuple[Edit, ...]
    """All or none, in the file of the finding, not overlapping."""
    is_safe: bool = True
    """Whether the program does the same with it; where not, it is made only on demand."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One hazard at one place."""

    code: str
    """`CKS01`."""
    message: str
    """One sentence: what varies and what it reaches."""
    place: CodePlace | RequestPlace
    """Where to look: for code the expression that varies, for requests the first difference."""
    detector: Detector
    """Who found it."""
    trail: tuple[CodePlace, ...] = ()
    """For code: from the value that varies to where it meets the prompt."""
    fix: Fix | None = None
    """A change, None where there is none."""
    cost_tokens: int | None = None
    """Input tokens billed again instead of read from the cache because of it, by the bill or under the reference cache;
    0 where nothing was lost that another finding of the same call does not have; None where unknown."""
    cost_usd: float | None = None
    """The same in dollars; None where the tokens or a price are unknown."""
    verdict: str = ""
    """The provider's own word on this call (`system_changed`), empty where it said nothing."""
    cause: str = ""
    """For requests: the cause that the judge of `contextkit report` names."""
    is_estimated: bool = False
    """For requests: whether the cost is by a predicted bill, as none was recorded."""
    advice: str = ""
    """For requests: what the reader does about the cause; empty where nothing is known."""
