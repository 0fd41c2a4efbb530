"""Two calls compared: the argument of every function that names a kind of change."""

from __future__ import annotations

from dataclasses import dataclass

from contextkit.ledger.parsed_call import ParsedCall
from contextkit.prompt.diff import Change


@dataclass(frozen=True, slots=True)
class Comparison:
    """A call beside the earlier one that the judge compares it with."""

    before: ParsedCall
    """The earlier call."""
    after: ParsedCall
    """The later one."""
    changes: tuple[Change, ...]
    """What differs in what both sent, in cache order."""

    @property
    def pause_seconds(self) -> float:
        """Return the seconds from start to start."""
        return self.after.call.at - self.before.call.at
