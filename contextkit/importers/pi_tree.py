"""The tree of a pi session (format versions 2 and 3): entries that name their parent, and the branches that grow from
one another.

Takes entries in the order of the file, gives the calls with their prompts; or the path from the root to the last entry,
as pi resumes it. Knows no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from contextkit.importers.pi_calls import MAIN, Calls
from contextkit.importers.recording import AssistantSaid, Compacted, Event
from contextkit.ledger.calls import Exchange


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One entry of the tree."""

    id: str
    """Unique in the session."""
    parent: Entry | None
    """The entry it continues, None at a root."""
    event: Event | None
    """What happened, None where nothing reaches the model (a label, the state of an extension)."""
    first_kept: str = ""
    """Of a compaction: the id of the first entry that is still sent."""

    def up(self) -> Iterator[Entry]:
        """The entry itself, its parent, and so on to the root."""
        entry: Entry | None = self
        while entry is not None:
            yield entry
            entry = entry.parent


class Tree:
    """The entries of a session, by id. A parent stands before its children in the file, so no path has a cycle."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self.last: Entry | None = None
        """The entry added last: pi resumes the session there."""
        self.n_orphans = 0
        """Entries whose parent is not in the file: a path to one of them begins there."""

    def add(self, entry_id: str, parent_id: str | None, event: Event | None, first_kept: str = "") -> Entry:
        """The next entry of the file."""
        parent = self._entries.get(parent_id) if parent_id is not None else None
        self.n_orphans += parent_id is not None and parent is None
        self.last = self._entries[entry_id] = Entry(entry_id, parent, event, first_kept)
        return self.last


@dataclass(slots=True)
class Path:
    """Entries of one path in their order, as events in which a compaction names the first event it keeps."""

    events: list[Event] = field(default_factory=list)
    """So far."""
    _places: dict[str, int] = field(default_factory=dict)
    """Entry id → index of the first event at or after it."""

    def add(self, entry: Entry) -> Event | None:
        """The next entry; gives its event."""
        n = self._places[entry.id] = len(self.events)
        event = entry.event
        if isinstance(event, Compacted):
            kept = self._places.get(entry.first_kept, n)
            event = replace(event, keep_from=kept if kept < n else None)
        if event is not None:
            self.events.append(event)
        return event


class Branches:
    """The calls of a session that branches, each with the path from the root to it as its prompt.

    A call whose path continues the last call of a lane belongs to that lane. Any other call opens a lane, named after
    the first entry of its path that no call before it had: `branch 4cd05a6e`. The first lane is `main`.
    """

    def __init__(self, session: str, effort: str) -> None:
        self._session, self._effort = session, effort
        self._lanes: dict[Entry, tuple[Calls, Path]] = {}
        """Last call of a lane → the lane."""
        self._sent: set[Entry] = set()
        """Entries on the path of a call so far."""
        self._n = 0

    def call(self, entry: Entry) -> Exchange:
        """The call of an entry that is a reply."""
        new: list[Entry] = []
        for one in entry.up():
            if one is not entry and isinstance(one.event, AssistantSaid):
                break
            new.append(one)
        before = new[-1].parent
        lane = self._lanes.pop(before, None) if before is not None else None
        calls, path = lane or self._opened(new)
        self._sent.update(new)
        for one in reversed(new[1:]):
            _pass(calls, path.add(one))
        event = path.add(entry)
        calls.n, self._n = self._n, self._n + 1
        exchange = calls.hear(event) if event is not None else None
        if exchange is None:
            raise TypeError(f"entry {entry.id} is no reply")
        self._lanes[entry] = calls, path
        return exchange

    def _opened(self, new: list[Entry]) -> tuple[Calls, Path]:
        """A lane for a path that ends with the entries `new`, the last one first; it holds what stands before them."""
        first = next(one for one in reversed(new) if one not in self._sent)
        calls, path = Calls(self._session, self._effort, f"branch {first.id}" if self._n else MAIN), Path()
        root = new[-1].parent
        for one in reversed(list(root.up()) if root is not None else []):
            _pass(calls, path.add(one))
        return calls, path


def _pass(calls: Calls, event: Event | None) -> None:
    if event is not None:
        calls.pass_over(event)


def path_to(last: Entry | None) -> tuple[Event, ...]:
    """The events from the root to an entry: what pi shows where the session is resumed there."""
    path = Path()
    for entry in reversed(list(last.up()) if last is not None else []):
        path.add(entry)
    return tuple(path.events)


def n_calls(events: Iterable[Event]) -> int:
    """How many model calls are among some events."""
    return sum(isinstance(event, AssistantSaid) for event in events)
