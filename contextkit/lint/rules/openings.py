"""How the conversations of a recording open: the system text of each one's first call, beside the tools it came with.

Takes the calls of a recording, gives what two conversations can be compared by; knows no hazard.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from contextkit.lint.requests.rule import RecordedCall
from contextkit.prompt.block import text_of


class Calls(Protocol):
    """All calls of a recording, as a rule on a whole session is asked with them."""

    @property
    def conversations(self) -> Mapping[str, Sequence[RecordedCall]]:
        """Name of a conversation → its calls, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Opening:
    """The first call of a conversation that has a system text."""

    name: str
    """Of the conversation."""
    sent: RecordedCall
    """The call."""
    text: str
    """Its system text."""
    path: str
    """Of its first block of system text."""
    kind: tuple[str, ...]
    """Wire, model and names of the tools: conversations of one kind could share their front."""


def openings(calls: Calls) -> Iterator[Opening]:
    """One for each conversation that has a system text, in order."""
    for name, mine in calls.conversations.items():
        sent = mine[0]
        system = [block for block in sent.blocks if block.level == "system"]
        if system:
            tools = (block.role for block in sent.blocks if block.level == "tools")
            kind = (sent.wire, sent.row.name, *tools)
            yield Opening(name, sent, "\n".join(map(text_of, system)), system[0].path, kind)
