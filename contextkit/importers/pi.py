"""Reads sessions of the coding agent pi (github.com/badlogic/pi-mono), versions 1 to 3 of its format: one JSON record a
line.

Takes the path of a session file, gives a `Recording`: the messages in order, in neutral types, with the bills.
`ledger_of` makes a ledger of it. The file holds neither system prompt nor tools nor any request, so causes that lie
there stay unknown.

What the format means, found in a real session and in pi's own session manager:

* An assistant record carries two times: `message.timestamp` (milliseconds) is the start of the request, the record's
  `timestamp`
  (ISO) is when the reply was complete. When it began is not recorded.
* `firstKeptEntryIndex` counts records of the file from 0, the session record included. After a compaction pi sends the
  summary, then
  every message record from that index on. Sizes bear it out: 175,004 tokens before, of which those up to the record
  before that index were 153,493, leave 21,511; with a 4,291 character summary and about 2,600 tokens of system prompt
  and tools that is the 25,739 billed.
* A reply that was aborted or failed before any bill has all counters 0, which means unknown; where the provider
  answered with an error in place of a reply, nothing was billed. An aborted reply is sent again, its calls without the
  ones nobody answered.
* `branchedFrom`, since version 2 `parentSession`, names the session this file was copied from: what it holds from
  before its own start
  was billed there.

Versions 2 and 3 (pi 0.74.2, `docs/session-format.md` and `dist/core/session-manager.js` of its npm package) make a
tree: every entry but the header has an `id` and a `parentId`, and `/tree` goes back to an earlier entry and on from
there, in the same file. A request carries the path from the root to its entry: of a path with compactions the last
summary, what stands on the path from `firstKeptEntryId` on, and what came after. Version 3 renamed the role
`hookMessage` to `custom`. What pi spends on summaries is in no entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage, natural
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import NotSerialisable, UnreadableLog
from contextkit.facts.load import provider_id
from contextkit.importers.format import by_line
from contextkit.importers.recording import (
    AssistantTurn,
    Call,
    Compacted,
    EffortChanged,
    Event,
    Image,
    ModelChanged,
    Part,
    Recording,
    Stop,
    Text,
    Thinking,
    ToolResultTurn,
    UserTurn,
)
from contextkit.importers.source import Source, load_json, open_file
from contextkit.importers.transcript import CUT, dollars
from contextkit.ledger import failure_names
from contextkit.ledger.calls import ModelCall, Outline, Record, Remark
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.prompts import outline
from contextkit.models import find_model

MAIN = "main"
"""The lane of a session that does not branch."""
BYTES_PER_TOKEN = 3.3
"""For models without a row; the sizes of segments are estimates, the bills are the provider's."""


class Calls:
    """The calls of a session, each with its prompt as a difference to the one before."""

    def __init__(self, session: str, effort: str, lane: str = MAIN) -> None:
        self.session, self.effort, self.lane = session, effort, lane
        self.epoch = self.n = 0
        self.sent = _Sent()
        self.before: Prompt | None = None

    def hear(self, event: Event) -> ModelCall | None:
        """The next thing that happened; gives the call, if it was one."""
        call = None
        if isinstance(event, AssistantTurn):
            prompt = self.sent.prompt(event, self.effort)
            sent = outline(self.before, prompt, self.sent.entries, self.epoch)
            call = _call(self.session, self.lane, self.n, event, sent)
            self.before, self.n = prompt, self.n + 1
        self.pass_over(event)
        return call

    def pass_over(self, event: Event) -> None:
        """The next thing that happened, which is no call of this lane: a reply is what the branch before it was
        answered.
        """
        if isinstance(event, EffortChanged):
            self.effort = event.level
        elif isinstance(event, Compacted):
            self.epoch += 1
        self.sent.hear(event)


_ERROR_TYPE = re.compile(r'"type":\s*"(\w+_error)"')
_STATUS = re.compile(r"(?:[\w ]+ error \()?([45][0-9][0-9])\b")
"""Begins the text of an error with its status: `429 Too many requests`, `Cloud Code Assist API error (429): …`."""
_REFUSALS = (
    (
        "context_length_exceeded",
        r"context (?:window|length|size)|prompt is too long|input is too long|token limit|too many tokens",
    ),
    ("overloaded_error", r"overloaded"),
    ("rate_limit_exceeded", r"rate.?limit|usage limit|too many requests|quota"),
    ("model_not_supported", r"model is not supported|model .*not (?:found|supported)|does not exist"),
    ("server_error", r"error occurred while processing|server error|internal error|service unavailable"),
)
"""(name of an error of the provider, what its text says), where the text has neither a type nor a status."""


def _error_name(said: AssistantTurn) -> str | None:
    """Name the failure of a call, by its kind only, as its text may quote the prompt; None if it ended well.

    The name is that of a refusal (`ModelCall.is_refused`) only where the provider answered with an error in place of a
    reply. A reply that had begun, and an error of the way to the provider, may have been billed.
    """
    if said.stop == "aborted":
        return failure_names.ABORTED
    if said.stop != "error":
        return None
    if said.parts and said.usage is None:
        return failure_names.CUT
    text = said.error or ""
    if kind := _ERROR_TYPE.search(text):
        return kind[1]
    if status := _STATUS.match(text):
        return f"http_{status[1]}"
    return next((name for name, words in _REFUSALS if re.search(words, text, re.IGNORECASE)), "error")


def _call(session: str, lane: str, number: int, said: AssistantTurn, prompt: Outline) -> ModelCall:
    """The row of one call."""
    return ModelCall(
        id=f"{session}/{number}",
        session=session,
        lane=lane,
        at=said.started_at,
        ended_at=said.ended_at,
        provider=provider_id(said.provider),
        model=said.model,
        prompt=prompt,
        usage=said.usage,
        error=_error_name(said),
        billed_usd=said.billed_usd,
    )


class _Sent:
    """The messages that the next request would carry, as running digests."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.answered: set[str] = set()
        self.late: list[int] = []
        """Events that no request has carried yet: calls among them may still be answered."""
        self.clear()

    def hear(self, event: Event) -> None:
        """The next thing that happened."""
        self.late.append(len(self.events))
        self.events.append(event)
        if isinstance(event, ToolResultTurn):
            self.answered.add(event.call_id)

    def clear(self) -> None:
        self.digests: list[bytes] = []
        self.ends_bytes: list[int] = []
        self.ends_tokens: list[int] = []
        self.per_token = 0.0
        self.entries: list[int] = []

    def add(self, index: int) -> None:
        """What the event at `index` does to the messages."""
        event = self.events[index]
        if isinstance(event, ToolResultTurn):
            self._put(index, [("result", event.call_id, event.is_error, _neutral(part)) for part in event.parts])
        elif isinstance(event, AssistantTurn):
            self._put(index, [("assistant", _neutral(part)) for part in event.parts if self._is_sent(part)])
        elif isinstance(event, UserTurn):
            self._put(index, [("user", _neutral(part)) for part in event.parts])
        elif isinstance(event, Compacted):
            self._start_again(index, event)

    def _start_again(self, index: int, compacted: Compacted) -> None:
        self.clear()
        self._put(index, [("user", _neutral(Text(compacted.summary)))])
        for kept in range(index if compacted.keep_from is None else compacted.keep_from, index):
            if not isinstance(self.events[kept], Compacted):
                self.add(kept)

    def _is_sent(self, part: Part) -> bool:
        return not isinstance(part, Call) or part.id in self.answered

    def _put(self, index: int, segments: list[Json]) -> None:
        digest, end = (self.digests[-1], self.ends_bytes[-1]) if self.digests else (b"", 0)
        for segment in segments:
            body = _spelled(segment)
            digest, end = blake2b(digest + body, digest_size=16).digest(), end + len(body)
            self.digests.append(digest)
            self.ends_bytes.append(end)
            self.entries.append(index)

    def prompt(self, said: AssistantTurn, effort: str) -> Prompt:
        """What was sent for `said`; the sizes, kept in bytes, become estimated tokens of its model."""
        for index in self.late:
            self.add(index)
        self.late.clear()
        row = find_model(said.model)
        per_token = row.bytes_per_token if row else BYTES_PER_TOKEN
        model, thinking = (_namespace(said.provider, said.model, *more) for more in ((), (effort,)))
        n = len(self.digests)
        if per_token != self.per_token:
            self.per_token, self.ends_tokens = per_token, []
        self.ends_tokens += [round(size / per_token) for size in self.ends_bytes[len(self.ends_tokens) :]]
        return Prompt(
            namespaces=(model, model, thinking),
            level_ends=(0, 0),
            digests=self.digests,
            ends_tokens=self.ends_tokens,
            positions=range(n),
            breakpoints=(),
            n=n,
        )


def _spelled(segment: Json) -> bytes:
    """As `canonical` spells it, in a third of the time where nothing is unusual."""
    try:
        return orjson.dumps(segment)
    except TypeError:
        return canonical(segment)


@lru_cache(maxsize=256)
def _namespace(*settings: str) -> bytes:
    return blake2b(canonical(settings), digest_size=16).digest()


def _neutral(part: Part) -> Json:
    return _NEUTRAL[type(part)](part)


_NEUTRAL: dict[type, Callable[[Any], Json]] = {
    Text: lambda part: {"type": "text", "text": part.text},
    Image: lambda part: {"type": "image", "media_type": part.media_type, "data": part.data},
    Thinking: lambda part: {"type": "thinking", "text": part.text, "signature": part.signature},
    Call: lambda part: {"type": "call", "id": part.id, "name": part.name, "arguments": part.arguments},
}


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
class BranchPath:
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
    """The calls of a session that branches by its recorded tree, each with the path from the root to it as its prompt.

    A call whose path continues the last call of a lane belongs to that lane. Any other call opens a lane, named after
    the first entry of its path that no call before it had: `branch 4cd05a6e`. The first lane is `main`.
    """

    def __init__(self, session: str, effort: str) -> None:
        self._session, self._effort = session, effort
        self._lanes: dict[Entry, tuple[Calls, BranchPath]] = {}
        """Last call of a lane → the lane."""
        self._sent: set[Entry] = set()
        """Entries on the path of a call so far."""
        self._n = 0

    def call(self, entry: Entry) -> ModelCall:
        """The call of an entry that is a reply."""
        new: list[Entry] = []
        for one in entry.up():
            if one is not entry and isinstance(one.event, AssistantTurn):
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
        call = calls.hear(event) if event is not None else None
        if call is None:
            raise TypeError(f"entry {entry.id} is no reply")
        self._lanes[entry] = calls, path
        return call

    def _opened(self, new: list[Entry]) -> tuple[Calls, BranchPath]:
        """A lane for a path that ends with the entries `new`, the last one first; it holds what stands before them."""
        first = next(one for one in reversed(new) if one not in self._sent)
        calls, path = Calls(self._session, self._effort, f"branch {first.id}" if self._n else MAIN), BranchPath()
        root = new[-1].parent
        for one in reversed(list(root.up()) if root is not None else []):
            _pass(calls, path.add(one))
        return calls, path


def _pass(calls: Calls, event: Event | None) -> None:
    if event is not None:
        calls.pass_over(event)


def path_to(last: Entry | None) -> tuple[Event, ...]:
    """The events from the root to an entry: what pi shows where the session is resumed there."""
    path = BranchPath()
    for entry in reversed(list(last.up()) if last is not None else []):
        path.add(entry)
    return tuple(path.events)


def n_calls(events: Iterable[Event]) -> int:
    """How many model calls are among some events."""
    return sum(isinstance(event, AssistantTurn) for event in events)


VERSION = 3
"""The newest version whose meaning is known."""
EXPECTED = (
    'a pi session: one JSON object a line, the first of "type": "session", then message, model_change, '
    "thinking_level_change, compaction"
)
"""Said by every error."""


def is_pi(first_line: bytes) -> bool:
    """Return whether a file that starts with this line is a pi session.

    >>> is_pi(b'{"type":"session","id":"a","timestamp":"2025-12-09T00:53:29.825Z","cwd":"/"}'), is_pi(b'{"type":"user"}')
    (True, False)
    """
    try:
        record = parse(first_line)
    except NotSerialisable:
        return False
    return isinstance(record, dict) and record.get("type") == "session" and "id" in record and "timestamp" in record


def read_pi(path: str | Path) -> Recording:
    """The session at `path`; of one that branches, the path to its last entry, where pi would resume it.

    Raises `UnreadableLog` with file and line where a record is not what pi writes, also for an empty file and for later
    versions. Entries of a type that an extension may have added are passed over since version 2.
    """

    def refuse(number: int, what: str) -> None:
        raise _unreadable(path, number, what)

    with open_file(path) as file:
        content = file.read()
    return _recording(path, enumerate(content.splitlines(), 1), refuse)


class PiLines:
    """Reads a session line by line, whatever of it can be read: a line that is no record of pi's is a fault.

    What stands there twice, word for word, is taken once; a call that a file read before tells of too, as branches do,
    is counted there. Entries and messages of an unknown type are counted, and reported once at the end.
    """

    def __init__(self, source: Source) -> None:
        self.source, self.session = source, source.label
        self.calls: Calls | None = None
        self.tree: Tree | None = None
        self.branches: Branches | None = None
        self.placed: list[int] = []
        self.lines: set[int] = set()
        self.n_known = 0
        self.n_unknown: dict[str, int] = {}

    def hear(self, number: int, line: bytes) -> tuple[Record, ...]:
        """The next line; gives its call, or what it says of the session."""
        mark = hash(line.rstrip())
        if mark in self.lines:
            self.n_known += 1
            return ()
        self.lines.add(mark)
        self.placed.append(0 if self.calls is None else len(self.calls.sent.events))
        try:
            record = load_json(line)
            if self.calls is None:
                return self._begin(number, record)
            if record.get("type") == "session_info" and isinstance(record.get("name"), str) and record["name"].strip():
                return (Remark("title", self.session, record["name"].strip()), *self._new(self._call(record)))
            call = self._call(record)
            for count in _counts(record):
                self.source.count(number, count)  # what is none is told here, where the line is known
        except _UnknownType as error:
            self.n_unknown[str(error)] = self.n_unknown.get(str(error), 0) + 1
            return ()
        except _FAULTS as error:
            is_json = not isinstance(error, orjson.JSONDecodeError)
            self.source.fault(number, f"{type(error).__name__} {error}" if is_json else CUT)
            return ()
        return self._new(call)

    def _new(self, call: ModelCall | None) -> tuple[ModelCall, ...]:
        """A call that was not read before."""
        if call is None or self._is_new(call):
            return (call,) if call else ()
        self.n_known += 1
        return ()

    def _begin(self, number: int, record: dict[str, Json]) -> tuple[Record, ...]:
        head = _head(self.source.name, number, record)
        session, effort, version = head["id"], head.get("thinkingLevel", "off"), _version(head)
        self.calls, self.session = Calls(session, effort), session
        if version > 1:
            self.tree, self.branches = Tree(), Branches(session, effort)
        if version > VERSION:
            self.source.fault(
                number, f"format version {version}, read as version {VERSION}: what is new in it is passed over"
            )
        project = head.get("cwd")
        return (Remark("project", session, project),) if isinstance(project, str) and project else ()

    def _call(self, record: dict[str, Json]) -> ModelCall | None:
        """The call of a record, None where it is none."""
        if self.tree is None or self.branches is None:
            event = _event(record, self.placed)
            return self.calls.hear(event) if event and self.calls else None
        if record["type"] == "session":
            return None
        try:
            event = _event(record, None)
        except _FAULTS:
            self.tree.add(record["id"], record.get("parentId"), None)  # its children are still on a path
            raise
        entry = self.tree.add(record["id"], record.get("parentId"), event, record.get("firstKeptEntryId") or "")
        return self.branches.call(entry) if isinstance(event, AssistantTurn) else None

    def _is_new(self, call: ModelCall) -> bool:
        told = f"{call.at} {call.ended_at} {call.model} {call.usage} {call.error}"
        return self.source.is_new(b"pi", told.encode("utf-8", "surrogatepass"))

    def waiting(self) -> tuple[()]:
        """Nothing is held back."""
        return ()

    def finish(self) -> None:
        """Report what concerns the file as a whole."""
        if self.calls is None:
            raise _unreadable(self.source.name, 1, "no session record")
        if self.n_known:
            self.source.fault(
                0, f"{self.n_known:,} of its records stand in it, or in a session read before, too; counted once"
            )
        for name, n in self.n_unknown.items():
            self.source.fault(0, f"{n:,} records of an unknown type, {name}; passed over")
        if self.tree is not None and self.tree.n_orphans:
            self.source.fault(
                0,
                f"{self.tree.n_orphans:,} entries continue one that is not in the file: their prompts are known in part",
            )


read = by_line(PiLines)


def _recording(path: str | Path, lines: Iterable[tuple[int, bytes]], refuse: Callable[[int, str], None]) -> Recording:
    head: dict[str, Json] | None = None
    events: list[Event] = []
    placed: list[int] = []
    tree: Tree | None = None
    for number, line in lines:
        if not line.strip():
            continue
        placed.append(len(events))  # a line that cannot be read is a record too: later ones are named by their count
        try:
            record = _record(line)
            if head is None:
                head = _head(path, number, record)
                if _version(head) > VERSION:
                    raise _unreadable(
                        path, number, f"format version {_version(head)}, only versions 1 to {VERSION} are read"
                    )
                tree = Tree() if _version(head) > 1 else None
            event = _event_in(tree, record) if tree is not None else _event(record, placed)
        except (NotSerialisable, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            refuse(number, str(error) if isinstance(error, NotSerialisable) else f"{type(error).__name__} {error}")
            continue
        events += [event] if event else []
    if head is None:
        raise _unreadable(path, 1, "the file is empty")
    copied_from = head.get("branchedFrom") or head.get("parentSession")
    recording = Recording(head["id"], head.get("thinkingLevel", "off"), copied_from, tuple(events))
    if tree is None:
        return recording
    resumed = path_to(tree.last)
    return replace(recording, events=resumed, n_calls_elsewhere=n_calls(events) - n_calls(resumed))


def _event_in(tree: Tree, record: dict[str, Json]) -> Event | None:
    """The event of a record of versions 2 and 3, which becomes an entry of the tree."""
    if record["type"] == "session":
        return None
    try:
        event = _event(record, None)
    except _UnknownType:
        event = None
    tree.add(record["id"], record.get("parentId"), event, record.get("firstKeptEntryId") or "")
    return event


def _record(line: bytes) -> dict[str, Json]:
    record = parse(line)
    if not isinstance(record, dict):
        raise NotSerialisable("$", "not an object")
    return record


def _head(path: str | Path, number: int, record: dict[str, Json]) -> dict[str, Json]:
    if record.get("type") != "session" or not isinstance(record.get("id"), str):
        raise _unreadable(path, number, "no session record")
    return record


def _version(head: dict[str, Json]) -> int:
    version = head.get("version", 1)
    return version if isinstance(version, int) else 1


def _unreadable(path: str | Path, number: int, what: str) -> UnreadableLog:
    return UnreadableLog(f"{path} line {number}: {what}; expected {EXPECTED}")


def _when(record: dict[str, Json]) -> float:
    return datetime.fromisoformat(record["timestamp"]).timestamp()


class _UnknownType(ValueError):
    """A record, or the message in it, is of a type that nobody knows here."""


_FAULTS = (KeyError, TypeError, ValueError, IndexError, AttributeError)
"""What reading a record raises that pi did not write."""


def _parts(content: Json) -> tuple[Part, ...]:
    """The parts of a message; one of an unknown type stands as its JSON text, so that a change of it is seen."""
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_PARTS.get(part["type"], _other_part)(part) for part in content)


def _other_part(part: dict[str, Json]) -> Part:
    return Text(canonical(part).decode())


_PARTS: dict[str, Callable[[dict[str, Json]], Part]] = {
    "text": lambda part: Text(part["text"]),
    "image": lambda part: Image(part["mimeType"], part["data"]),
    "thinking": lambda part: Thinking(part["thinking"], part.get("thinkingSignature") or ""),
    "toolCall": lambda part: Call(part["id"], part["name"], part["arguments"]),
}

_STOPS: dict[str, Stop] = {
    "stop": "done",
    "toolUse": "calls",
    "length": "truncated",
    "aborted": "aborted",
    "error": "error",
}


def _counts(record: dict[str, Json]) -> list[Json]:
    """What stands in the places of the counters of a reply."""
    message = record.get("message")
    said = message.get("usage") if isinstance(message, dict) else None
    return list(map(said.get, _COUNTERS)) if isinstance(said, dict) else []


_COUNTERS = ("input", "cacheRead", "cacheWrite", "output")


def _usage(counts: Json) -> Usage | None:
    """pi adds up writes of all lifetimes.

    They stand as short ones, which is what it asks for by default. All 0 means that none came.
    """
    if not isinstance(counts, dict):
        return None
    plain, read, write, output = (natural(counts.get(name)) for name in _COUNTERS)
    return (
        Usage(fresh=plain, read=read, write_5m=write, write_1h=0, output=output)
        if plain or read or write or output
        else None
    )


def _cost(counts: Json) -> float | None:
    """What pi worked out that a call cost, by its own price list."""
    cost = counts.get("cost") if isinstance(counts, dict) else None
    return dollars(cost.get("total")) if isinstance(cost, dict) else None


def _user(record: dict[str, Json]) -> Event:
    return UserTurn(_when(record), _parts(record["message"]["content"]))


def _assistant(record: dict[str, Json]) -> Event:
    said = record["message"]
    return AssistantTurn(
        said["timestamp"] / 1000,
        _when(record),
        said["provider"],
        said["model"],
        _parts(said["content"]),
        _STOPS.get(said["stopReason"], "done"),
        said.get("errorMessage"),
        _usage(said.get("usage")),
        _cost(said.get("usage")),
    )


def _result(record: dict[str, Json]) -> Event:
    said = record["message"]
    return ToolResultTurn(_when(record), said["toolCallId"], said["toolName"], _parts(said["content"]), said["isError"])


def _command(record: dict[str, Json]) -> Event | None:
    """A command that the user ran, as pi shows it to the model; None for one that it does not show (`!!`)."""
    ran = record["message"]
    if ran.get("excludeFromContext"):
        return None
    output = f"```\n{ran['output']}\n```" if ran["output"] else "(no output)"
    notes = (
        ("(command cancelled)", ran["cancelled"]),
        (f"Command exited with code {ran.get('exitCode')}", ran.get("exitCode") and not ran["cancelled"]),
        (
            f"[Output truncated. Full output: {ran.get('fullOutputPath')}]",
            ran["truncated"] and ran.get("fullOutputPath"),
        ),
    )
    shown = "\n\n".join([f"Ran `{ran['command']}`\n{output}", *(note for note, is_said in notes if is_said)])
    return UserTurn(_when(record), (Text(shown),))


def _summary(record: dict[str, Json]) -> Event:
    """The summary of a branch that was left, or of a compaction, stored as a message."""
    return UserTurn(_when(record), (Text(record["message"]["summary"]),))


_ROLES: dict[str, Callable[[dict[str, Json]], Event | None]] = {
    "user": _user,
    "assistant": _assistant,
    "toolResult": _result,
    "bashExecution": _command,
    "custom": _user,
    "hookMessage": _user,
    "branchSummary": _summary,
    "compactionSummary": _summary,
}
"""Role → its event. `custom`, until version 3 `hookMessage`, is what an extension adds as a user message."""


def _message(record: dict[str, Json]) -> Event | None:
    role = record["message"]["role"]
    if role not in _ROLES:
        raise _UnknownType(f"a message of role {role!r}")
    return _ROLES[role](record)


def _compaction(record: dict[str, Json], placed: list[int] | None) -> Event:
    """A compaction; in a tree (`placed` is None) the first event it keeps depends on the path."""
    if placed is None:
        return Compacted(_when(record), record["summary"], None, record.get("tokensBefore") or 0)
    first = record["firstKeptEntryIndex"]
    if not 0 <= first < len(placed):
        raise ValueError(f"firstKeptEntryIndex {first} is not a record before this one")
    keep_from = placed[first] if placed[first] < placed[-1] else None
    return Compacted(_when(record), record["summary"], keep_from, record["tokensBefore"])


def _left_branch(record: dict[str, Json]) -> Event | None:
    """What the model is told of the branch that the user came from."""
    if not record.get("summary"):
        return None
    return UserTurn(_when(record), (Text(f"{_LEFT_BRANCH}{record['summary']}</summary>"),))


_LEFT_BRANCH = "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n"
"""What pi puts in front of such a summary (0.74.2, `dist/core/messages.js`)."""


def _nothing(record: dict[str, Json], placed: list[int] | None) -> None:
    """Of a record that the model is not shown."""


_READERS: dict[str, Callable[[dict[str, Json], list[int] | None], Event | None]] = {
    "session": _nothing,
    "message": lambda record, placed: _message(record),
    "thinking_level_change": lambda record, placed: EffortChanged(_when(record), record["thinkingLevel"]),
    "model_change": lambda record, placed: ModelChanged(_when(record), record["provider"], record["modelId"]),
    "compaction": _compaction,
    "branch_summary": lambda record, placed: _left_branch(record),
    "custom_message": lambda record, placed: UserTurn(_when(record), _parts(record["content"])),
    "custom": _nothing,
    "label": _nothing,
    "session_info": _nothing,
}
"""Record type → its event; the second argument has, for each record so far, the index the next event would take there,
in a file that is no tree."""


def _event(record: dict[str, Json], placed: list[int] | None) -> Event | None:
    """The event of a record, None where nothing of it reaches the model."""
    kind = record["type"]
    if kind not in _READERS:
        raise _UnknownType(repr(kind))
    return _READERS[kind](record, placed)


def ledger_of(recording: Recording) -> Ledger:
    """The calls of `recording` as a ledger in memory: one lane, prompts as outlines of what is known to have been sent.

    Segments are the parts of the messages; an entry is an index into `recording.events`. System prompt and tools are in
    no file of pi, so no segment stands for them. The namespaces hold model and effort. Every compaction opens an epoch.
    """
    ledger, calls = Ledger(), Calls(recording.session, recording.effort)
    for event in recording.events:
        call = calls.hear(event)
        if call:
            ledger.append(call)
    return ledger
