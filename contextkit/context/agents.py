"""The agents of one session: names of sub-agents and branches, the folders of their logs, and where a sub-agent comes
from.

Names are lanes of the ledger and names of folders. No clock and no chance is in them: the same conversation makes the
same names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Self

from contextkit.canonical import Json, parse
from contextkit.errors import StorageError
from contextkit.ledger.calls import Outline
from contextkit.ledger.ledger import Ledger
from contextkit.log.entry import Entry
from contextkit.log.log import Log
from contextkit.log.storage import JSONLStorage
from contextkit.memory.filestore import FileMemory
from contextkit.memory.memory import Memory
from contextkit.tools.mask import Limits

AGENTS = "agents"
"""Folder, beside a log, of the folders of its sub-agents."""
ORIGIN_FIELD = "spawned_by"
"""Field of the `opened` entry that holds an `Origin`."""
_NAME = re.compile(r"(?:agent|branch)-(\d+)-[0-9a-f]+")


MAIN = "main"
"""Lane of a conversation that is neither a branch nor a sub-agent."""


def lane_of(log: Sequence[Entry]) -> str:
    """`main`, or the branch this log is."""
    forked = max((entry.sequence for entry in log if entry.kind == "opened"), default=0)
    return f"fork@{forked + 1}" if forked else MAIN


class AgentNames:
    """Numbers the sub-agents and branches that write into one ledger; their own sub-agents share it."""

    __slots__ = ("_last", "_lock")

    def __init__(self) -> None:
        self._last: int | None = None
        self._lock = Lock()

    def next(self, kind: str, digest: bytes, ledger: Ledger, folder: Path | None = None) -> str:
        """A name that neither a row of `ledger` nor a folder in `folder` has; `digest` is that of the log it leaves.

        >>> AgentNames().next("agent", bytes(16), Ledger())
        'agent-1-000000000000'
        """
        with self._lock:
            if self._last is None:
                self._last = max((number_in(call.lane) for call in ledger), default=0)
            used = max(map(number_in, agents_in(folder)), default=0)
            self._last = max(self._last, used) + 1
            return f"{kind}-{self._last}-{digest.hex()[:12]}"


def number_in(lane: str) -> int:
    """The number in a name; 0 for a lane that was named otherwise.

    >>> number_in("agent-12-00ff"), number_in("main")
    (12, 0)
    """
    match = _NAME.fullmatch(lane)
    return int(match[1]) if match else 0


def agents_in(folder: Path | None) -> list[str]:
    """Names of the sub-agents whose logs are in a folder, in the order they were spawned."""
    if folder is None or not folder.is_dir():
        return []
    return sorted((path.name for path in folder.iterdir() if number_in(path.name)), key=number_in)


def session_name(session: str, lane: str) -> str:
    """The session, in a database, that holds the log of a sub-agent."""
    return f"{session}/{AGENTS}/{lane}"


def has_entries(log: Path) -> bool:
    """Whether the file of a log holds an entry, or something that must be looked at.

    The remains of a failed append are no entry.
    """
    try:
        return next(JSONLStorage.read(log), None) is not None
    except FileNotFoundError:
        return False
    except StorageError:
        return True


def check_log_is_there(folder: Path, log: Log, ledger: Ledger) -> None:
    """Raises `StorageError` for a log without an entry beside calls of a conversation: begun anew, it would continue
    under their bills.

    A ledger that `watch` or the proxy wrote holds whole bodies instead of outlines, and needs no log.
    """
    n_calls = 0 if len(log) else sum(isinstance(call.prompt, Outline) for call in ledger)
    if n_calls:
        raise StorageError(
            f"{folder / 'log.jsonl'} is missing or empty, but ledger.jsonl beside it records {n_calls} call{'s' * (n_calls > 1)}: put the "
            "log back from a copy to go on, or move the ledger away (or name another folder) to begin anew"
        )


@dataclass(frozen=True, slots=True)
class Origin:
    """What a sub-agent has from its caller, as the first entry of its log holds it; no prompt shows it."""

    lane: str
    """Its own lane in the ledger, and its id; of no other agent of the session."""
    session: str
    """The caller's session."""
    root: str
    """Digest (hex) of the caller's first entry: both are sent to the same machine."""
    denied: frozenset[str] = frozenset()
    """Names the caller was not allowed when it spawned this agent, and was itself denied."""
    table_names: frozenset[str] | None = None
    """Names the caller's table of phases covers, where the agent inherited it; stored as `known`."""
    phase: str | None = None
    """The phase the caller was in, where the agent inherited the table."""
    plan: str | None = None
    """Path of its todo list, where it shares the caller's files."""

    @property
    def body(self) -> Json:
        """As the log holds it."""
        return {
            "lane": self.lane,
            "session": self.session,
            "root": self.root,
            "denied": sorted(self.denied),
            "known": None if self.table_names is None else sorted(self.table_names),
            "phase": self.phase,
            "plan": self.plan,
        }

    @classmethod
    def of(cls, log: Sequence[Entry]) -> Self | None:
        """The origin that a log names; None for a conversation nobody spawned."""
        body = parse(log[0].body).get(ORIGIN_FIELD) if len(log) and log[0].kind == "opened" else None
        if not isinstance(body, Mapping):
            return None
        names = body.get("known")
        return cls(
            body["lane"],
            body["session"],
            body["root"],
            frozenset(body.get("denied", ())),
            None if names is None else frozenset(names),
            body.get("phase"),
            body.get("plan"),
        )

    def limits(self, own: Mapping[str, bytes]) -> Limits:
        """The limits beside its table of phases; `own` are the tools of its memory."""
        return Limits(own, self.denied, self.table_names, self.phase)


def memory_of(memory: Memory | FileMemory | None, origin: Origin | None) -> Memory | None:
    """The memory of a conversation; that of a sub-agent has a plan of its own, unless it was given with one."""
    if memory is None:
        return None
    whole = Memory.of(memory)
    has_plan = whole.todo is not None and whole.todo.name != whole.todo.path
    return whole if origin is None or origin.plan is None or has_plan else whole.with_plan(origin.plan)
