"""Sessions of the coding agent pi (github.com/badlogic/pi-mono), version 1 of its format: one JSON record a line.

Takes the path of a session file, gives a `Recording`: what was said, in order, in neutral words, with the bills. `ledger_of` makes a
ledger of it. The file holds neither system prompt nor tools nor any request, so causes that lie there stay unknown.

What the format means, found in a real session and in pi's own session manager:

* An assistant record carries two times: `message.timestamp` (milliseconds) is the start of the request, the record's `timestamp`
  (ISO) is when the reply was complete. When it began is not recorded.
* `firstKeptEntryIndex` counts records of the file from 0, the session record included. After a compaction pi sends the summary, then
  every message record from that index on. Sizes bear it out: 175,004 tokens before, of which those up to the record before that index
  were 153,493, leave 21,511; with a 4,291 character summary and about 2,600 tokens of system prompt and tools that is the 25,739 billed.
* A reply that was aborted or failed before any bill has all counters 0, which means unknown. An aborted reply is sent again, its
  calls without the ones nobody answered.
* `branchedFrom` names the session this file was copied from: what it holds from before its own start was billed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

import orjson

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, parse
from contextkit.errors import NotSerialisable, UnreadableLog
from contextkit.importers.format import by_line
from contextkit.importers.pi_calls import Calls
from contextkit.importers.recording import (
    AssistantSaid,
    Call,
    Compacted,
    EffortChanged,
    Event,
    Image,
    ModelChanged,
    Part,
    Recording,
    ResultSaid,
    Stop,
    Text,
    Thinking,
    UserSaid,
)
from contextkit.importers.source import Source
from contextkit.importers.transcript import CUT
from contextkit.ledger.exchange import Exchange
from contextkit.ledger.ledger import Ledger

EXPECTED = (
    'a pi session: one JSON object a line, the first of "type": "session", then message, model_change, thinking_level_change, compaction'
)
"""Said by every error."""


def is_pi(first_line: bytes) -> bool:
    """Whether a file that starts with this line is a pi session.

    >>> is_pi(b'{"type":"session","id":"a","timestamp":"2025-12-09T00:53:29.825Z","cwd":"/"}'), is_pi(b'{"type":"user"}')
    (True, False)
    """
    try:
        record = parse(first_line)
    except NotSerialisable:
        return False
    return isinstance(record, dict) and record.get("type") == "session" and "id" in record and "timestamp" in record


def read_pi(path: str | Path) -> Recording:
    """The session at `path`.

    Raises `UnreadableLog` with file and line where a record is not what pi writes, also for an empty file and for later versions.
    """

    def refuse(number: int, what: str) -> None:
        raise _unreadable(path, number, what)

    return _recording(path, enumerate(Path(path).read_bytes().splitlines(), 1), refuse)


class PiLines:
    """Reads a session line by line, whatever of it can be read: a line that is no record of pi's is a fault.

    What stands there twice, word for word, is taken once; a call that a file read before tells of too, as branches do, is counted there.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.calls: Calls | None = None
        self.placed: list[int] = []
        self.lines: set[int] = set()
        self.n_known = 0

    def hear(self, number: int, line: bytes) -> tuple[Exchange, ...]:
        """The next line; gives its call."""
        mark = hash(line.rstrip())
        if mark in self.lines:
            self.n_known += 1
            return ()
        self.lines.add(mark)
        self.placed.append(0 if self.calls is None else len(self.calls.sent.events))
        try:
            record = orjson.loads(line)
            if self.calls is None:
                head = _head(self.source.name, number, record)
                self.calls = Calls(head["id"], head.get("thinkingLevel", "off"))
            event = _READERS[record["type"]](record, self.placed)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            is_json = not isinstance(error, orjson.JSONDecodeError)
            self.source.fault(number, f"{type(error).__name__} {error}" if is_json else CUT)
            return ()
        call = self.calls.hear(event) if event else None
        if call is None or self._is_new(call):
            return (call,) if call else ()
        self.n_known += 1
        return ()

    def _is_new(self, call: Exchange) -> bool:
        told = f"{call.at} {call.ended_at} {call.model} {call.usage} {call.error}"
        return self.source.is_new(b"pi", told.encode("utf-8", "surrogatepass"))

    def waiting(self) -> tuple[()]:
        """Nothing is held back."""
        return ()

    def told(self) -> None:
        """Say what is to be said of the file as a whole."""
        if self.calls is None:
            raise _unreadable(self.source.name, 1, "no session record")
        if self.n_known:
            self.source.fault(0, f"{self.n_known:,} of its records stand in it, or in a session read before, too; counted once")


read = by_line(PiLines)


def _recording(path: str | Path, lines: Iterable[tuple[int, bytes]], refuse: Callable[[int, str], None]) -> Recording:
    head: dict[str, Json] | None = None
    events: list[Event] = []
    placed: list[int] = []
    for number, line in lines:
        if not line.strip():
            continue
        placed.append(len(events))  # a line that cannot be read is a record too: later ones are named by their count
        try:
            record = _record(line)
            head = head or _head(path, number, record)
            event = _READERS[record["type"]](record, placed)
        except (NotSerialisable, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            refuse(number, str(error) if isinstance(error, NotSerialisable) else f"{type(error).__name__} {error}")
            continue
        events += [event] if event else []
    if head is None:
        raise _unreadable(path, 1, "the file is empty")
    return Recording(head["id"], head.get("thinkingLevel", "off"), head.get("branchedFrom"), tuple(events))


def _record(line: bytes) -> dict[str, Json]:
    record = parse(line)
    if not isinstance(record, dict):
        raise NotSerialisable("$", "not an object")
    return record


def _head(path: str | Path, number: int, record: dict[str, Json]) -> dict[str, Json]:
    if record.get("type") != "session" or not isinstance(record.get("id"), str):
        raise _unreadable(path, number, "no session record")
    if record.get("version", 1) != 1:
        raise _unreadable(path, number, f"format version {record['version']}, only version 1 is read")
    return record


def _unreadable(path: str | Path, number: int, what: str) -> UnreadableLog:
    return UnreadableLog(f"{path} line {number}: {what}; expected {EXPECTED}")


def _when(record: dict[str, Json]) -> float:
    return datetime.fromisoformat(record["timestamp"]).timestamp()


def _parts(content: Json) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_PARTS[part["type"]](part) for part in content)


_PARTS: dict[str, Callable[[dict[str, Json]], Part]] = {
    "text": lambda part: Text(part["text"]),
    "image": lambda part: Image(part["mimeType"], part["data"]),
    "thinking": lambda part: Thinking(part["thinking"], part.get("thinkingSignature") or ""),
    "toolCall": lambda part: Call(part["id"], part["name"], part["arguments"]),
}

_STOPS: dict[str, Stop] = {"stop": "done", "toolUse": "calls", "length": "truncated", "aborted": "aborted", "error": "error"}


def _usage(counts: dict[str, Json]) -> Usage | None:
    """pi adds up writes of all lifetimes; they stand as short ones, which is what it asks for by default."""
    usage = Usage(fresh=counts["input"], read=counts["cacheRead"], write_5m=counts["cacheWrite"], write_1h=0, output=counts["output"])
    return usage if usage.prompt or usage.output else None


def _user(record: dict[str, Json]) -> Event:
    return UserSaid(_when(record), _parts(record["message"]["content"]))


def _assistant(record: dict[str, Json]) -> Event:
    said = record["message"]
    return AssistantSaid(
        said["timestamp"] / 1000, _when(record), said["provider"], said["model"], _parts(said["content"]),
        _STOPS[said["stopReason"]], said.get("errorMessage"), _usage(said["usage"]),
    )  # fmt: skip


def _result(record: dict[str, Json]) -> Event:
    said = record["message"]
    return ResultSaid(_when(record), said["toolCallId"], said["toolName"], _parts(said["content"]), said["isError"])


def _command(record: dict[str, Json]) -> Event:
    """A command that the user ran, as pi tells the model about it."""
    ran = record["message"]
    output = f"```\n{ran['output']}\n```" if ran["output"] else "(no output)"
    notes = (
        ("(command cancelled)", ran["cancelled"]),
        (f"Command exited with code {ran.get('exitCode')}", ran.get("exitCode") and not ran["cancelled"]),
        (f"[Output truncated. Full output: {ran.get('fullOutputPath')}]", ran["truncated"] and ran.get("fullOutputPath")),
    )
    shown = "\n\n".join([f"Ran `{ran['command']}`\n{output}", *(note for note, is_said in notes if is_said)])
    return UserSaid(_when(record), (Text(shown),))


_ROLES: dict[str, Callable[[dict[str, Json]], Event]] = {
    "user": _user,
    "assistant": _assistant,
    "toolResult": _result,
    "bashExecution": _command,
}


def _compaction(record: dict[str, Json], placed: list[int]) -> Event:
    first = record["firstKeptEntryIndex"]
    if not 0 <= first < len(placed):
        raise ValueError(f"firstKeptEntryIndex {first} is not a record before this one")
    keep_from = placed[first] if placed[first] < placed[-1] else None
    return Compacted(_when(record), record["summary"], keep_from, record["tokensBefore"])


_READERS: dict[str, Callable[[dict[str, Json], list[int]], Event | None]] = {
    "session": lambda record, placed: None,
    "message": lambda record, placed: _ROLES[record["message"]["role"]](record),
    "thinking_level_change": lambda record, placed: EffortChanged(_when(record), record["thinkingLevel"]),
    "model_change": lambda record, placed: ModelChanged(_when(record), record["provider"], record["modelId"]),
    "compaction": _compaction,
}
"""Record type → its event; the second argument has, for each record so far, the index the next event would take there."""


def ledger_of(recording: Recording) -> Ledger:
    """The calls of `recording` as a ledger in memory: one lane, prompts as outlines of what is known to have been sent.

    Segments are the parts of the messages; an entry is an index into `recording.events`. System prompt and tools are in no file of pi,
    so no segment stands for them. The namespaces hold model and effort. Every compaction opens an epoch.
    """
    ledger, calls = Ledger(), Calls(recording.session, recording.effort)
    for event in recording.events:
        call = calls.hear(event)
        if call:
            ledger.append(call)
    return ledger
