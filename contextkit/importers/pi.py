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

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from hashlib import blake2b
from pathlib import Path

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical, parse
from contextkit.errors import NotSerialisable, UnreadableLog
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
from contextkit.ledger.exchange import Exchange
from contextkit.ledger.ledger import Ledger
from contextkit.ledger.recorder import Recorder
from contextkit.ledger.row import Record
from contextkit.models import MODELS

EXPECTED = (
    'a pi session: one JSON object a line, the first of "type": "session", then message, model_change, thinking_level_change, compaction'
)
"""Said by every error."""
BYTES_PER_TOKEN = 3.3
"""For models without a row; the sizes of segments are estimates, the bills are the provider's."""


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


def read(source: Source) -> Iterator[Record]:
    """The calls of a session, whatever of it can be read: a line that is no record of pi's is a fault."""
    yield from ledger_of(_recording(source.name, source.lines(), source.fault))


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
    recorder = Recorder(Ledger())
    sent, effort, epoch = _Sent(recording), recording.effort, 0
    for index, event in enumerate(recording.events):
        match event:
            case AssistantSaid():
                exchange = _exchange(recording.session, len(recorder.ledger), event)
                recorder.record(exchange, sent.prompt(event, effort), sent.entries, epoch)
            case EffortChanged():
                effort = event.level
            case Compacted():
                epoch += 1
        sent.add(index)
    return recorder.ledger


_ERROR_TYPE = re.compile(r'"type":\s*"(\w+_error)"')


def _exchange(session: str, number: int, said: AssistantSaid) -> Exchange:
    """The row of one call; of an error only its kind, as its text may quote the prompt."""
    kind = _ERROR_TYPE.search(said.error or "")
    error = {"aborted": "aborted", "error": kind[1] if kind else "error"}.get(said.stop)
    return Exchange(
        id=f"{session}/{number}", session=session, lane="main", at=said.started_at, first_byte_at=None, ended_at=said.ended_at,
        provider=said.provider, model=said.model, prompt=None, usage=said.usage, predicted=None, error=error,
    )  # fmt: skip


class _Sent:
    """The messages that the next request would carry, as running digests."""

    def __init__(self, recording: Recording) -> None:
        self.events = recording.events
        self.answered = {event.call_id for event in recording.events if isinstance(event, ResultSaid)}
        self.clear()

    def clear(self) -> None:
        self.digests: list[bytes] = []
        self.ends_bytes: list[int] = []
        self.ends_tokens: list[int] = []
        self.per_token = 0.0
        self.entries: list[int] = []

    def add(self, index: int) -> None:
        """What the event at `index` does to the messages."""
        event = self.events[index]
        match event:
            case UserSaid():
                self._put(index, [["user", _neutral(part)] for part in event.parts])
            case ResultSaid():
                self._put(index, [["result", event.call_id, event.is_error, _neutral(part)] for part in event.parts])
            case AssistantSaid():
                self._put(index, [["assistant", _neutral(part)] for part in event.parts if self._is_sent(part)])
            case Compacted():
                self._start_again(index, event)

    def _start_again(self, index: int, compacted: Compacted) -> None:
        self.clear()
        self._put(index, [["user", _neutral(Text(compacted.summary))]])
        for kept in range(index if compacted.keep_from is None else compacted.keep_from, index):
            if not isinstance(self.events[kept], Compacted):
                self.add(kept)

    def _is_sent(self, part: Part) -> bool:
        return not isinstance(part, Call) or part.id in self.answered

    def _put(self, index: int, segments: list[Json]) -> None:
        for segment in segments:
            body = canonical(segment)
            before = self.digests[-1] if self.digests else b""
            self.digests.append(blake2b(before + body, digest_size=16).digest())
            self.ends_bytes.append((self.ends_bytes[-1] if self.ends_bytes else 0) + len(body))
            self.entries.append(index)

    def prompt(self, said: AssistantSaid, effort: str) -> Prompt:
        """What was sent for `said`; the sizes, kept in bytes, become estimated tokens of its model."""
        row = MODELS.get(said.model)
        per_token = row.bytes_per_token if row else BYTES_PER_TOKEN
        model, thinking = (_namespace(said.provider, said.model, *more) for more in ((), (effort,)))
        n = len(self.digests)
        if per_token != self.per_token:
            self.per_token, self.ends_tokens = per_token, []
        self.ends_tokens += [round(size / per_token) for size in self.ends_bytes[len(self.ends_tokens) :]]
        return Prompt(
            namespaces=(model, model, thinking), level_ends=(0, 0), digests=self.digests,
            ends_tokens=self.ends_tokens, positions=range(n), breakpoints=(), n=n,
        )  # fmt: skip


def _namespace(*settings: str) -> bytes:
    return blake2b(canonical(settings), digest_size=16).digest()


def _neutral(part: Part) -> Json:
    return {"type": type(part).__name__.lower(), **{name: getattr(part, name) for name in part.__slots__}}
