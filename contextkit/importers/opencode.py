"""Sessions of opencode: its database (`opencode.db`), the folder of older versions (`storage/message/<session>/msg_*.json`),
and what `opencode export` writes.

Takes a source, gives one call for each step of each assistant message. Prompts are not given: neither the system
prompt nor the tools are stored.

* `tokens` do not overlap: `input` is what was neither read nor written, `reasoning` is beside `output`. Where `total`
  says otherwise, as of versions that left the reasoning tokens in the output, it stands.
* A message of older versions has several steps, and its own `tokens` are those of the last one: its parts of type
  `step-finish` say each. Where a message has such parts they are its calls, else the message is one.
* Counters that are all 0 mean that the host said none: the usage of such a step is unknown. A message of zeros that has
  no step, and no error, is no call: what the user ran in the shell stands in such a message.
* A sub-agent is a session with a parent: a lane of the session that its line of parents ends in.
* `title` names a session, once opencode has replaced the one with the time that a new session gets.
* `cost` is what opencode worked out from its own price list, 0 where that has no price.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from contextkit.errors import UnreadableLog
from contextkit.importers.field_maps import FieldMap, first_at, value_at
from contextkit.importers.format import first_line, has_names
from contextkit.importers.rows import bare, rows, table
from contextkit.importers.session_calls import SessionCalls
from contextkit.importers.source import STDIN, Source, is_packed, load_json
from contextkit.importers.spans import Counts
from contextkit.importers.transcript import plausible, recorded_id
from contextkit.ledger.calls import Record

FIELDS = FieldMap(
    at="time.created",
    ended_at="time.completed time.created",
    provider="providerID",
    model="modelID",
    prompt="tokens.input",
    read="tokens.cache.read",
    write="tokens.cache.write",
    output="tokens.output",
    total="tokens.total",
    billed_usd="cost",
)
MAGIC = b"SQLite format 3\0"
_VERSIONS = slice(18, 20)
"""Bytes of a database that say whether its latest changes stand in a file beside it; 1 where all is in this one."""
_NEW = "New session - "
"""What the title of a session starts with that has none yet."""
_STEPS = ("step-start", "step-finish")
"""Types of the parts that a request leaves in its message: as its response begins, and with its bill."""
DAMAGED = "a damaged database; rows that can be read were read"


def is_opencode(head: bytes) -> bool:
    """Return whether a file that starts like this is the database, or a file of the older folder.

    >>> is_opencode(b'{"id":"msg_1","sessionID":"ses_1","role":"user"}'), is_opencode(b'{"id":"msg_1","role":"user"}')
    (True, False)
    """
    if head.startswith(MAGIC):
        return True  # its tables say whose it is
    start = bare(head)[:1024]
    is_ours = has_names(start, "sessionID", "projectID") and b'"ses_' in start
    return start.startswith(b"{") and is_ours and b'"contextkit_ledger"' not in first_line(head)


def read(source: Source) -> Iterator[Record]:
    """The calls of a database session by session, or those of one message."""
    calls = SessionCalls(source, "opencode")
    if source.head.startswith(MAGIC):
        with closing(_database(source)) as database:
            yield from _Sessions(source, calls).of(database)
    else:
        for number, row in rows(source):
            if isinstance(row.get("info"), dict) and isinstance(row.get("messages"), list):
                yield from _exported(calls, number, row["info"], row["messages"])
                continue
            session = recorded_id(row.get("sessionID")) or source.label
            title, place = _noted(source, session)
            yield from calls.remark("project", session, place)
            yield from calls.remark("title", session, title)
            yield from _message(calls, number, row, session, "main", _parts(source, row))
    calls.finish()


def _exported(calls: SessionCalls, number: int, info: dict[str, Any], messages: list[Any]) -> Iterator[Record]:
    """The calls of what `opencode export` writes: one session with its messages, each with its parts.

    The sessions of a line of parents are in files of their own, so a sub-agent's is a lane of its parent.
    """
    own, parent = recorded_id(info.get("id")) or calls.source.label, recorded_id(info.get("parentID"))
    session, lane = (parent, own) if parent else (own, "main")
    title = info.get("title")
    yield from calls.remark("project", session, info.get("directory"))
    if lane == "main" and isinstance(title, str) and not title.startswith(_NEW):
        yield from calls.remark("title", session, title)
    for place, entry in enumerate(messages):
        message = table(table(entry).get("info"))
        message["id"] = recorded_id(message.get("id")) or f"{own}/{place}"
        parts = table(entry).get("parts")
        steps = [part for part in parts if table(part).get("type") in _STEPS] if isinstance(parts, list) else []
        if lane != "main":
            yield from calls.remark("agent", f"{session}/{lane}", message.get("agent"))
        yield from _message(calls, number, message, session, lane, steps)


def _noted(source: Source, session: str) -> tuple[str, str]:
    """Title and folder of a session of the older folder, whose file stands in `session/<project>` beside `message`."""
    folders = Path(source.name).absolute().parents
    storage = folders[min(2, len(folders) - 1)]
    key = "opencode session", str(storage), session
    if key not in source.faults.left:
        found: dict[str, Any] = {}
        if source.name != STDIN and session.startswith("ses_") and session.isidentifier():
            for path in (storage / "session").glob(f"*/{session}.json"):
                try:
                    found = table(load_json(path.read_bytes()))
                except (OSError, orjson.JSONDecodeError):
                    continue
        title, place = found.get("title"), found.get("directory")
        is_title = isinstance(title, str) and not title.startswith(_NEW)
        source.faults.left[key] = title if is_title else "", place if isinstance(place, str) else ""
    noted: tuple[str, str] = source.faults.left[key]
    return noted


def _database(source: Source) -> sqlite3.Connection:
    """The database of a file, unpacked in memory where it is packed or comes by a pipe."""
    if source.name != STDIN and Path(source.name).is_file() and not is_packed(source.name):
        return sqlite3.connect(f"{Path(source.name).absolute().as_uri()}?mode=ro", uri=True)
    data = bytearray(source.whole())
    data[_VERSIONS] = b"\1\1"
    database = sqlite3.connect(":memory:")
    database.deserialize(bytes(data))
    return database


class _Sessions:
    """The sessions of a database."""

    def __init__(self, source: Source, calls: SessionCalls) -> None:
        self.source, self.calls = source, calls
        self.parents: dict[str, str] = {}

    def of(self, database: sqlite3.Connection) -> Iterator[Record]:
        """The calls, session by session, each in the order of its messages."""
        database.text_factory = bytes  # damaged text is a fault of its row
        try:
            told = database.execute("select id, parent_id, directory, title from session").fetchall()
            about = {_text(name): (_text(place), _text(title)) for name, _, place, title in told}
            self.parents = {_text(name): _text(parent) for name, parent, _, _ in told}
            for (session,) in database.execute("select distinct session_id from message").fetchall():
                yield from self._session(database, session, *about.get(_text(session), ("", "")))
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # the latter: a message that quotes damaged bytes
            if "no such" in str(error):
                raise UnreadableLog(
                    f"{self.source.name} is the SQLite file of another program, not opencode's ({error}); "
                    "give opencode.db, or a file of contextkit's sessions"
                ) from None
            self.source.fault(0, f"{DAMAGED} ({error})")

    def _session(self, database: sqlite3.Connection, session: bytes, place: str, title: str) -> Iterator[Record]:
        root, lane = self._lane(_text(session))
        yield from self.calls.remark("project", root, place)
        if lane == "main" and not title.startswith(_NEW):
            yield from self.calls.remark("title", root, title)
        steps = self._steps(database, session)
        messages = database.execute(
            "select rowid, id, data from message where session_id = cast(? as text) order by time_created, id",
            (session,),
        )
        for number, name, data in messages:
            message = self._object(number, data)
            if message is not None:
                if lane != "main":
                    yield from self.calls.remark("agent", f"{root}/{lane}", str(message.get("agent") or title))
                told = {**message, "id": _text(name)}
                yield from _message(self.calls, number, told, root, lane, steps.pop(_text(name), []))

    def _steps(self, database: sqlite3.Connection, session: bytes) -> dict[str, list[dict[str, Any]]]:
        """Message → its parts that say that a step began, or its bill."""
        steps: dict[str, list[dict[str, Any]]] = defaultdict(list)
        found = database.execute(
            "select rowid, message_id, data from part where session_id = cast(? as text) "
            "and (data like '%step-start%' or data like '%step-finish%') order by id",
            (session,),
        )
        for number, message, data in found:
            part = self._object(number, data)
            if part is not None and part.get("type") in _STEPS:
                steps[_text(message)].append(part)
        return steps

    def _object(self, number: int, data: object) -> dict[str, Any] | None:
        try:
            value = load_json(data if isinstance(data, bytes) else b"")
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            self.source.fault(number, "a row without an object; passed over (the line is the row's number)")
            return None
        return value

    def _lane(self, session: str) -> tuple[str, str]:
        """The session that a line of parents ends in, and the lane of this one there."""
        root, seen = session, {session}
        while (parent := self.parents.get(root)) and parent not in seen:
            seen.add(parent)
            root = parent
        return root, "main" if root == session else session


def _parts(source: Source, message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps of a message of the older folder, whose parts stand beside it."""
    if source.name == STDIN or message.get("role") != "assistant":
        return []
    folder = Path(source.name).absolute().parents
    place = folder[min(2, len(folder) - 1)] / "part" / str(message.get("id") or "")
    found = []
    for path in sorted(place.glob("prt_*.json")) if message.get("id") and place.is_dir() else []:
        try:
            part = load_json(path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            source.fault(0, "a part of a message that cannot be read; the message's own tokens may stand for it")
            continue
        if isinstance(part, dict) and part.get("type") in _STEPS:
            found.append(part)
    return found


def _message(
    calls: SessionCalls, number: int, message: dict[str, Any], session: str, lane: str, steps: list[dict[str, Any]]
) -> Iterator[Record]:
    if message.get("role") != "assistant":
        calls.put(first_at(message, FIELDS.at, plausible))
        return
    if message.get("summary") is True:
        calls.remark_next("compaction", "opencode summarised the history")
    error = value_at(message, "error.name")
    own = recorded_id(message.get("id")) or f"{session}/{calls.source.name}/{number}"
    finished = [step for step in steps if step["type"] == "step-finish"]
    for place, said in enumerate(finished or [message]):
        name = f"{own}/{place}" if place else own
        call = FIELDS.call(
            calls.source,
            number,
            {**message, "cost": said.get("cost")},
            billed=(_counts(calls.source, number, said), "exclusive"),
            id=name,
            session=session,
            lane=lane,
            error=("aborted" if error == "MessageAbortedError" else str(error)) if error else None,
        )
        is_lost = not said.get("tokens") and bool(message.get("modelID"))
        if (call.usage or error or is_lost or steps) and calls.is_new(name):
            yield from calls.call(number, call)


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _counts(source: Source, number: int, said: dict[str, Any]) -> Counts:
    counts = FIELDS.counts(source, number, said)
    reasoning = source.count(number, value_at(said, "tokens.reasoning") or 0)
    if counts.output is None or counts.total == (counts.prompt or 0) + counts.cached + counts.output:
        return counts
    return replace(counts, output=None if reasoning is None else counts.output + reasoning)
