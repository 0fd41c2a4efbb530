"""Where a sub-agent comes from, as the first entry of its log says: what its caller allowed, its lane, its plan.

Takes and gives values. It stands in the log so that a sub-agent that is opened again is what it was; no prompt shows
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from contextkit.canonical import Json, parse
from contextkit.log.entry import Entry
from contextkit.tools.mask import Limits

KEY = "spawned_by"
"""Field of the `opened` entry."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a sub-agent has from its caller."""

    lane: str
    """Its own lane in the ledger, and its id; of no other agent of the session."""
    session: str
    """The caller's session."""
    root: str
    """Digest (hex) of the caller's first entry: both are sent to the same machine."""
    denied: frozenset[str] = frozenset()
    """Names the caller was not allowed when it spawned this agent, and was itself denied."""
    known: frozenset[str] | None = None
    """Names the caller's table of phases speaks of, where the agent inherited it."""
    phase: str | None = None
    """The phase the caller was in, where the agent inherited the table."""
    plan: str | None = None
    """Path of its todo list, where it shares the caller's files."""

    @property
    def body(self) -> Json:
        """As the log keeps it."""
        told: dict[str, Json] = {
            "lane": self.lane,
            "session": self.session,
            "root": self.root,
            "denied": sorted(self.denied),
        }
        known = None if self.known is None else sorted(self.known)
        return {**told, "known": known, "phase": self.phase, "plan": self.plan}

    @classmethod
    def of(cls, log: Sequence[Entry]) -> Self | None:
        """The origin that a log names; None for a conversation nobody spawned."""
        body = parse(log[0].body).get(KEY) if len(log) and log[0].kind == "opened" else None
        if not isinstance(body, Mapping):
            return None
        known = body.get("known")
        names = frozenset(body.get("denied", ()))
        return cls(
            body["lane"],
            body["session"],
            body["root"],
            names,
            None if known is None else frozenset(known),
            body.get("phase"),
            body.get("plan"),
        )

    def limits(self, own: Mapping[str, bytes], *, is_inherited: bool = True) -> Limits:
        """What holds beside its table of phases; `own` are the tools of its memory."""
        return Limits(own, self.denied, self.known if is_inherited else None, self.phase if is_inherited else None)
