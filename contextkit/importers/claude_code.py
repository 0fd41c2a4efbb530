"""Reads transcripts of Claude Code (`~/.claude/projects/<folder>/<session>.jsonl`, sub-agents under
`<session>/subagents/`).

Takes a source, gives one call a call and what the file says of it. The file is what was displayed, not what was
sent: system prompt, tools and reminders are in no line, so no prompt is given and a change in them is not visible,
except in the provider's own verdict. Most of a transcript is the output of tools, which no bill needs, so lines are
scanned as bytes first: inside a string a quote is escaped, so `"key":"` can only be a key; where the bytes are
ambiguous, the line is parsed.

* One line a content block, each with the usage so far, the last with the final count: lines of one (`requestId`,
  `message.id`) are one
  call, and the one with most output is its bill. Lines may be mixed with others, come twice, or stand in the file of a
  resumed session too.
* A line's time is when its block was complete. A request starts when what it answers was written, the user's line or
  tool result before
  it; where there is none, or one older than an hour, the time of its first line stands in.
* `isSidechain` and `agentId` name a lane of the session; lines of older builds that have no `agentId` are followed by
  `parentUuid`.
* Builds up to 2.1.x write the lines of a sub-agent into the session's file too, each inside a line of the type
  `progress`. It is read as the line it holds; a call that the sub-agent's own file has as well is counted once.
* `compact_boundary` and `isCompactSummary` are remarked as a compaction, a changed `effort` or `speed` as a setting, of
  the next call; as events what else a client wrote before it: a slash command, a skill, thinking switched, another
  permission mode or version, an API error, a resumed session (docs/reference/formats.md).
* `custom-title`, `ai-title` and `summary` lines name the session, in this order of rank; of one type the last counts. A
  `summary` whose `leafUuid` names no line of the file is of another session of the project, and is passed over.
* `iterations` of one reply are calls of their own (server tools, compaction): the bill is their sum.
* Most builds before 2.1.181 write a reply's lines while it streams, and its last line too may hold the count of then:
  where the reply says no `stop_reason`, the output is a lower bound.
* Builds before 1.0.9 (June 2025) say what they worked out that a call cost: `costUSD`; 0 says that they knew no price.
* Ids that somebody masked (`REDACTED`) name nothing: then the lines of a reply are those that follow each other
  (`parentUuid`) and say the same input.
* Replies of the model `<synthetic>` are Claude Code's own text of an error: no call was billed.
"""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from contextkit.cache.usage import NO_COUNT, Quality, Usage, natural, served, tier_fields
from contextkit.importers.format import by_line, first_line
from contextkit.importers.source import Source, load_json
from contextkit.importers.transcript import dollars, has_blanks, parsed, plausible, recorded_id, spelled
from contextkit.ledger.calls import ModelCall, Record, Remark
from contextkit.models import find_model, model_named

NEAR = 512
"""Bytes at either end of a line in which its own keys stand; what lies between may be megabytes of a tool's output."""
MAIN = "main"
"""The lane of the session itself."""


def is_users(near: bytes) -> bool:
    """Return whether a line that starts like this is the user's, or a tool result."""
    at = near.find(b'"type":"user"')
    return at >= 0 and near.find(b'"message":', 0, at) < 0 and near.find(b'"data":', 0, at) < 0


def is_own(line: bytes, near: bytes) -> bool:
    """Return whether a line that is neither the user's nor a reply's is one that Claude Code writes."""
    return b'"sessionId":' in near or any(name in near or line.find(name, -2 * NEAR) >= 0 for name in _NAMES)


_NAMES = (
    b'"sessionId":',
    b'"uuid":',
    b'"leafUuid":',
    b'"messageId":',
    b'"agentType":',
    b'"type":"summary"',
    b'"type":"file-history-snapshot"',
)


def key_of(line: bytes, near: bytes) -> bytes:
    """Message and request of a reply as they are written; empty where the bytes do not show them beyond doubt, and
    where one is masked.
    """
    start, content = near.find(b'"id":"'), near.find(b'"content":')
    request = line.find(b'"requestId":"', -2 * NEAR)
    if not 0 <= start < content or request < 0 or near.find(b'"data":', 0, start) >= 0:
        return b""
    key = line[start + 6 : near.find(b'"', start + 6)] + line[request + 12 : line.find(b'"', request + 13)]
    name, _, behind = key.decode("utf-8", "replace").partition('"')
    return key if recorded_id(name) and recorded_id(behind) else b""


def places(line: bytes, key: bytes) -> tuple[slice, bytes, slice, bytes]:
    """Where a line shows the two names of its key, and the names; what no line shows where it shows neither."""
    name, _, request = key.partition(b'"')
    at, end = line.find(name, 0, NEAR), line.find(request, -2 * NEAR) - len(line)
    if at < 0 or not -len(line) <= end < -len(request):
        return slice(0, 0), b"?", slice(0, 0), b"?"
    return slice(at, at + len(name)), name, slice(end, end + len(request)), request


def output_of(line: bytes) -> int:
    """Generated tokens that a reply's line says, 0 where it says none.

    More than any line says where they are no count: that line is the one to be read, and its fault reported.
    """
    at = line.find(b'"output_tokens":', -4 * NEAR) + 16
    digits = line[at : line.find(b",", at)]
    if at >= 16 and digits.startswith((b"-", b'"', b"[", b"{")):
        return sys.maxsize
    return int(digits) if at >= 16 and digits.isdigit() else 0


class SideLanes:
    """The lane of a line, by recorded names only: `isSidechain`, `agentId`, else the chain of `parentUuid`."""

    KEPT = 4096

    def __init__(self) -> None:
        self._lane_of: dict[str, str] = {}
        self._n = 0

    def of_line(self, line: bytes, near: bytes) -> str:
        """As `of`, of a line that is not parsed."""
        if b'"isSidechain":false' in near or (b'"isSidechain":true' not in near and b'"isSidechain":true' not in line):
            return MAIN
        found = _AGENT.search(near) or _AGENT.search(line, max(0, len(line) - 2 * NEAR))
        return found[1].decode("utf-8", "replace") if found else self.of(object_of(line))

    def of(self, record: dict[str, Any]) -> str:
        """`main`, the agent's id, or a number for agents that older builds gave none: its first line has no parent in
        it.
        """
        if not record.get("isSidechain"):
            return MAIN
        agent = record.get("agentId")
        if isinstance(agent, str) and agent:
            return agent
        lane = self._lane_of.get(str(record.get("parentUuid")))
        if lane is None:
            self._n += 1
            lane = f"sidechain {self._n}"
        if len(self._lane_of) >= self.KEPT:
            del self._lane_of[next(iter(self._lane_of))]
        self._lane_of[str(record.get("uuid"))] = lane
        return lane


_AGENT = re.compile(rb'"agentId":"([^"\\]+)"')
_WHEN, _NUMBER = b'"timestamp":"', re.compile(rb'"timestamp":(\d{9,20})')


def when(line: bytes) -> float | None:
    """The time of a line that is not parsed, as it may hold megabytes."""
    at = line.find(_WHEN, -2 * NEAR)
    at = line.find(_WHEN) if at < 0 else at
    if at >= 0:
        return plausible(line[at + 13 : line.find(b'"', at + 13)].decode("utf-8", "replace"))
    number = _NUMBER.search(line)
    return plausible(int(number[1])) if number else None


def content_span(line: bytes) -> tuple[int, int]:
    """Where a reply's line holds what was said, up to the keys that stand behind it; negative for what it does not show."""
    content, usage = line.find(b'"content":', 0, NEAR), line.find(b'"usage":{', -4 * NEAR)
    stopped = line.rfind(b'"stop_reason":', content, usage) if 0 <= content < usage else -1
    return content, usage if stopped < usage - NEAR else stopped


BYTES_PER_OUTPUT_TOKEN = 3.2
"""Bytes of a reply's content as it is written, without signatures, to one token of its output. Measured on 126 replies
with a `stop_reason` of 20 sessions (builds 2.0.76 to 2.1.37): 0.5 % too much in sum, 7 % off in the median."""


def visible_bytes(line: bytes) -> int:
    """Bytes of what a reply's line shows of the reply, the signatures of its thinking left out."""
    content, behind = content_span(line)
    if not 0 <= content < behind:
        return 0
    signature = line.find(b'"signature":"', content, behind)
    signed = line.find(b'"', signature + 13) - signature - 13 if signature >= 0 else 0
    return behind - content - len(b'"content":,') - signed


def without_content(line: bytes) -> dict[str, Any] | None:
    """A reply's line but for what was said, which is most of it; None where the bytes do not show where that stands."""
    content, behind = content_span(line)
    if not 0 <= content < behind:
        return None
    try:
        record = load_json(
            line[:content] + line[behind:]
        )  # what stood inside the content leaves brackets that do not match
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def object_of(line: bytes) -> dict[str, Any]:
    """A line whose bytes look like an object; an empty one where it is none, which no reader takes for anything."""
    try:
        record = load_json(line)
    except orjson.JSONDecodeError:
        return {}
    return record if isinstance(record, dict) else {}


def of_sub_agent(line: bytes) -> bytes:
    """The sub-agent's line that a `progress` line holds, as the sub-agent's own file would have it; the line itself where
    it holds none.

    >>> of_sub_agent(b'{"sessionId":"s","data":{"message":{"type":"user","uuid":"u"},"agentId":"a"},"type":"progress"}')
    b'{"isSidechain":true,"agentId":"a","sessionId":"s","type":"user","uuid":"u"}'
    """
    start, end = line.find(_DATA) + len(_DATA), line.rfind(_BEHIND_MESSAGE)
    message = line[start:end]  # written as it is where that can be all of the message, and no key comes twice
    is_whole = len(_DATA) <= start < end and message[:1] == b"{" and not any(key in message for key in _OWN_KEYS)
    record = object_of(line[:start] + b"{}" + line[end:]) if is_whole else {}
    if not record:
        is_whole, record = False, object_of(line)
    data = record.get("data")
    if not isinstance(data, dict) or not isinstance(data.get("message"), dict):
        return line
    own = {"isSidechain": True, "agentId": data.get("agentId")}
    own |= {name: record[name] for name in _OF_SESSION if name in record}
    if is_whole:
        return orjson.dumps(own)[:-1] + b"," + message[1:]
    return orjson.dumps({**own, **data["message"]})


_OF_SESSION = ("parentUuid", "sessionId", "cwd", "version")
"""Keys that a `progress` line has and the line in it has not."""
_OWN_KEYS = tuple(b'"%b":' % name.encode() for name in ("isSidechain", "agentId", *_OF_SESSION))
_DATA, _BEHIND_MESSAGE = b',"data":{"message":', b',"normalizedMessages":['
OPEN = 16
"""Replies whose lines may still come: blocks of parallel sub-agents are mixed in one file."""
LONGEST_REPLY = 3600.0
"""Seconds; an answer to something older than that is an answer to something else."""
STRANGE = "no line of a transcript; passed over"
OWN_WORDS = "<synthetic>"
"""The model of lines that Claude Code wrote itself."""


def is_claude_code(head: bytes) -> bool:
    """Return whether a file that starts like this is a transcript, or the note Claude Code puts beside a sub-agent's.

    >>> is_claude_code(b'{"parentUuid":null,"isSidechain":false,"type":"user"'), is_claude_code(b'{"type":"session","id":"a"}')
    (True, False)
    """
    line = first_line(head)
    if not line.startswith(b"{") or b'"contextkit_ledger"' in line:
        return False
    is_line = b'"parentUuid"' in head and b'"isSidechain"' in head
    is_reply = b'"sessionId"' in head and b'"requestId"' in head and b'"assistant"' in head
    is_start = b'"sessionId"' in line and b'"traceId"' not in line and any(kind in line for kind in _STARTS)
    return is_line or is_reply or is_start or b'"leafUuid"' in line or line.startswith(_FIRST_KEYS)


_STARTS = (
    b'"queue-operation"',
    b'"permission-mode"',
    b'"last-prompt"',
    b'"custom-title"',
    b'"agent-name"',
    b'"file-history-snapshot"',
    b'{"type":"mode"',
)
_FIRST_KEYS = (b'{"agentType"', b'{"type":"file-history-snapshot","messageId":')


class Transcript:
    """Tells the lines of replies from the others, and gives their calls in the order of their first lines."""

    def __init__(self, source: Source) -> None:
        self.source, self.is_spaced = source, has_blanks(source.head)
        self.replies = _Replies(source)
        self.reply: _Reply | None = None
        """Whose line was the last of any reply."""
        self.titles: dict[str, tuple[str, str]] = {}
        """Type of a line → the session it names, empty for that of the file, and its title."""
        self.unnamed: tuple[str, bytes, bytes] = "", b"", b""
        """Of the last line of a reply without ids: its `uuid`, the input it says, the key of its reply."""
        self.summaries: dict[str, str] = {}
        """`leafUuid` → summary, of lines that may be of another session."""

    def hear(self, number: int, line: bytes) -> Sequence[Record]:
        """The next line; gives the calls of a reply that no further lines are waited for."""
        if self.is_spaced or line[0] != _OPEN or line[-2:] != b"}\n":
            spelling = spelled(self.source, number, line, is_spaced=self.is_spaced)
            if spelling is None:
                return ()
            line = spelling
        near, reply = line[:NEAR], self.reply
        progress = near.find(b'"type":"progress"')
        if progress >= 0:
            if near.startswith(_STATUS, progress):
                if _CLEARED in near:
                    self.replies.cleared(line, near)
                self._note(number, line, near)
                return ()
            if b'"type":"agent_progress"' in line:
                line = of_sub_agent(line)
                near = line[:NEAR]
        if b'"type":"user"' in near and is_users(near):
            self.replies.user_line(line, near)
        elif reply is not None and near[reply.place] == reply.name and line[reply.place_behind] == reply.name_behind:
            self.replies.more(reply, line)
        elif b'"role":"assistant"' in near or b'"usage":{' in line:
            return self._of_a_reply(number, line, near)
        elif b'compact_boundary"' in line:
            self.replies.compacted(line)
        elif (kind := _TITLE_LINE.search(near)) is not None:
            self._title(kind[1].decode(), line)
        else:
            self._note(number, line, near)
        return ()

    def _note(self, number: int, line: bytes, near: bytes) -> None:
        """A line that is neither the user's nor a reply's."""
        self.replies.note(line, near)
        if not is_own(line, near):
            self.source.fault(number, STRANGE)

    def _of_a_reply(self, number: int, line: bytes, near: bytes) -> Sequence[Record]:
        if b'"model":"<synthetic>"' in line[: 2 * NEAR]:
            self.replies.note_own_words(line, near)
            self.reply = None
            return ()
        replies, key, ready = self.replies, key_of(line, near) or self._parsed_key(number, line), None
        reply = replies.open.get(key)
        if reply is not None:
            replies.more(reply, line)
        elif key:
            ready = replies.hear(number, key, line, near)
            reply = replies.open.get(key)
        elif not is_own(line, near):
            self.source.fault(number, STRANGE)
        self.reply = reply
        return () if ready is None else replies.calls(ready)

    def _parsed_key(self, number: int, line: bytes) -> bytes:
        """As `key_of`, of a line that is parsed for it; empty for what is no reply."""
        record = parsed(self.source, number, line) or {}
        message = record.get("message")
        if record.get("type") != "assistant" or not isinstance(message, dict):
            return b""
        name, request = recorded_id(message.get("id")), recorded_id(record.get("requestId"))
        own = recorded_id(record.get("uuid")) or f"{self.source.name}:{number}"
        if name or request or not (message.get("id") or record.get("requestId")):
            return f'{name or (not request and own) or ""}"{request}'.encode("utf-8", "surrogatepass")
        usage = message.get("usage")
        billed = repr([usage.get(count) for count in _INPUT] if isinstance(usage, dict) else None).encode()
        before, said, key = self.unnamed
        if not before or record.get("parentUuid") != before or billed != said:
            key = f'{own}"'.encode("utf-8", "surrogatepass")
        self.unnamed = own, billed, key
        return key

    def _title(self, kind: str, line: bytes) -> None:
        record = object_of(line)
        title = record.get(_TITLES[kind])
        if not isinstance(title, str) or not title.strip():
            return
        if kind == "summary":
            self.summaries[str(record.get("leafUuid"))] = title.strip()
        else:
            session = record.get("sessionId")
            self.titles[kind] = session if isinstance(session, str) else "", title.strip()

    def waiting(self) -> Iterator[Record]:
        """The calls of replies whose lines may still come, as they stand, then what the session is called."""
        ahead = self.replies.copied()
        for reply in ahead.open.values():
            yield from ahead.calls(reply)
        self._take_summary()
        named = next((self.titles[kind] for kind in _TITLES if kind in self.titles), None)
        if named is not None and (session := named[0] or ahead.session):
            yield Remark("title", session, named[1])

    def _take_summary(self) -> None:
        """Keep the last of the new summaries that is of this file's session."""
        while self.summaries:
            leaf, summary = self.summaries.popitem()
            if _has_line(self.source.name, leaf):
                self.titles["summary"] = "", summary
                self.summaries.clear()

    def finish(self) -> None:
        """Report what concerns the file as a whole."""
        self.replies.finish()


def _has_line(file: str, uuid: str) -> bool:
    """Return whether a line of a file has this `uuid`; what came by a pipe cannot be looked through once more."""
    if not uuid or not Path(file).is_file():
        return False
    needle, before = f'"uuid":"{uuid}"'.encode("utf-8", "surrogatepass"), b""
    for piece in Source(file).chunks():
        if needle in before + piece:
            return True
        before = piece[-len(needle) :]
    return False


_OPEN = ord("{")
_STATUS = tuple(b'"type":"progress","data":{"type":"%b_progress"' % kind for kind in (b"bash", b"hook", b"mcp"))
"""How a command, a hook or a server says that it is still at work: about a line in three."""
_CLEARED = b'"hookName":"SessionStart:clear"'
"""Stands in the progress of a hook that runs since the session was cleared."""
read = by_line(Transcript)
_TITLE_LINE = re.compile(rb'"type":"(custom-title|ai-title|summary)"')
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}
"""Type of a line that names a session → the key of its title; the user's own name first."""


@dataclass(slots=True)
class _Reply:
    """One call, as far as its lines have come."""

    number: int
    """Of its first line."""
    first: bytes
    """Its first line."""
    line: bytes
    """The one with most output."""
    lane: str
    """Whose."""
    user_line: bytes | None
    """What it answers."""
    last: bytes
    """The one that came last."""
    place: slice
    """Where the first line shows the message's id, counted from the front: a neighbour that shows the same there is of
    this reply too."""
    name: bytes
    """What it shows there."""
    place_behind: slice
    """Where it shows the request's, counted from the end."""
    name_behind: bytes
    """What it shows there."""
    notes: dict[str, str] = field(default_factory=dict)
    """What was noted of the lane since the call before it."""
    output: int = -1
    """Of `line`; -1 where nobody asked yet."""
    n_visible: int = 0
    """Bytes that its further lines show of it."""
    n_lines: int = 1
    """How many it has: one a content block."""

    def more(self, line: bytes) -> None:
        """A further line; lines may be out of order, and counts only grow."""
        before, output = self.output if self.output >= 0 else output_of(self.line), output_of(line)
        self.last, self.output = line, max(before, output)
        self.n_visible, self.n_lines = self.n_visible + visible_bytes(line), self.n_lines + 1
        if output >= before:
            self.line = line


@dataclass(slots=True)
class _Lane:
    """What was seen of a lane besides its replies."""

    user_line: bytes | None = None
    """The last line that a request answers."""
    began: float = 0.0
    """When the first block of its last reply was complete."""
    ended: float = 0.0
    """When its last reply was complete."""
    notes: dict[str, str] = field(default_factory=dict)
    """What was noted since its last call: who compacted it under `compaction`, events under their names."""
    settings: tuple[object, ...] = (None, None)
    """Effort and speed of its last call."""
    n_user_lines: int = 0
    """Lines of the user's, and tool results, since its last call."""
    reply: _Reply | None = None
    """Its last call."""
    version: object = None
    """Of the client, at its last call."""
    thinking: bytes = b""
    """Thinking, as the prompt that its last call answered says it; empty before the first."""
    thinking_next: bytes = b""
    """The same of the last prompt since then; empty where there was none."""
    permission: bytes = b""
    """Permission mode, likewise."""

    def note_event(self, name: str, text: str = "") -> None:
        """An event that comes before its next call."""
        self.notes[name] = text

    def note_prompt(self, line: bytes) -> None:
        """A line that the user wrote, or that Claude Code wrote for the user."""
        command = _COMMAND.search(line) if b"<command-name>" in line else None
        if command:
            name = command[1].decode()
            is_exit = name in _ENDING  # a call behind it is one of a session that was taken up again
            self.note_event(*(("resume", f"after {name}") if is_exit else ("slash command", name)))
        if _tells_thinking(line) and not any(mark in line for mark in _NOT_TYPED):
            at = line.rfind(b'"thinkingMetadata":{')
            found = _THINKING.match(line, at) if at >= 0 else None
            self.thinking_next = b"none" if at < 0 else found[1].translate(None, b'"') if found else b"on"
        mode = _PERMISSION.search(line, max(0, line.rfind(b'"permissionMode":')))
        if mode and self.permission not in (b"", mode[1]):
            self.note_event("permission mode", f"{self.permission.decode()} → {mode[1].decode()}")
        self.permission = mode[1] if mode else self.permission
        if b'"type":"image"' in line:
            self.note_event("image")

    def see(self, reply: _Reply, line: bytes) -> None:
        """A line of a reply: one that shows thinking contradicts a prompt that does not ask for it."""
        if self.thinking == b"none" and line.find(b'"type":"thinking"', 0, 2 * NEAR) >= 0:
            self.thinking = b""
            reply.notes.pop("thinking", None)

    def begin(self, reply: _Reply) -> None:
        """A call, with what was noted since the one before it."""
        n_blocks = self.n_user_lines + (self.reply.n_lines if self.reply else 0)
        if n_blocks >= LOOKBACK:
            self.note_event("many blocks", f"{n_blocks}")
        if self.thinking_next and self.thinking not in (b"", self.thinking_next):
            self.note_event("thinking", f"{self.thinking.decode()} → {self.thinking_next.decode()}")
        reply.notes = self.notes
        self.go_on(reply)
        self.see(reply, reply.first)

    def go_on(self, reply: _Reply | None) -> None:
        """To what comes behind a call; None for one that was read before, of which nothing is news."""
        self.thinking, self.thinking_next = self.thinking_next or self.thinking, b""
        self.notes, self.user_line, self.n_user_lines, self.reply = {}, None, 0, reply


LOOKBACK = 20
"""Positions that a lookup goes back from a breakpoint, the breakpoint's own among them
(https://platform.claude.com/docs/en/build-with-claude/prompt-caching)."""
RUNS_COUNT_ONCE = 1_788_220_800.0
"""From September 2026 on a run of tool calls, or of tool results, is one position; lines do not show how many there
are."""


def _tells_thinking(line: bytes) -> bool:
    """Return whether a prompt's line says how thinking was set for the calls behind it.

    Up to 2.1.37 a prompt without `thinkingMetadata`, such as a command's or a plan's, was answered without thinking: 17
    of 18 calls behind a change missed (62 transcripts). From 2.1.38 on 2 of 8 did: thinking stays as it was.
    """
    version = _VERSION.search(line, 0, 2 * NEAR)
    return version is not None and tuple(map(int, version.groups())) <= _LAST_WITH_THINKING


_VERSION = re.compile(rb'"version":"(\d+)\.(\d+)\.(\d+)"')
_LAST_WITH_THINKING = (2, 1, 37)
_COMMAND = re.compile(rb"<command-name>(/?[\w:.-]{1,80})</command-name>")
_ENDING = ("/exit", "/quit")
_NOT_TYPED = (
    *(b'"isMeta":true', b"<local-command", b"<bash-", b"[Request interrupted"),
    *(b"<task-notification>", b"Operation stopped by hook"),
)
"""What stands in lines of the user's that the user did not type; they do not say how thinking is set."""
_THINKING = re.compile(rb'"thinkingMetadata":\{("(?:level|maxThinkingTokens)":(?:"\w{1,20}"|\d{1,9}))[,}]')
_PERMISSION = re.compile(rb'"permissionMode":"(\w{1,40})"')
_TOOLS_DELTA = re.compile(rb'"attachment":\{"type":"(?:deferred_tools|mcp_instructions)_delta"')
_REMOVED = re.compile(rb'"removedNames":\[([^\]]+)\]')
_SKILL = re.compile(rb'"commandName":"([\w:.-]{1,80})"')


class _Replies:
    """Puts the lines of each reply together."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.open: OrderedDict[bytes, _Reply] = OrderedDict()
        self.lanes: dict[str, _Lane] = {}
        self.side = SideLanes()
        self.remarked: set[str] = set()
        self.agent_type = _agent_type(source.name)
        self.n_known = 0
        self.session = ""
        """Of the last call."""

    def copied(self) -> _Replies:
        """The same, for calls to be taken of it that count for nothing yet; what is wrong with them is told elsewhere."""
        ahead = copy(self)
        ahead.lanes = {name: replace(lane) for name, lane in self.lanes.items()}
        ahead.remarked = set(self.remarked)
        return ahead

    def lane(self, name: str) -> _Lane:
        known = self.lanes.get(name)
        if known is None:
            known = self.lanes[name] = _Lane()
        return known

    def more(self, reply: _Reply, line: bytes) -> None:
        """A further line of a reply."""
        reply.more(line)
        self.lanes[reply.lane].see(reply, line)

    def user_line(self, line: bytes, near: bytes) -> None:
        """A line of the user's, or a tool result."""
        lane = self.lane(self.side.of_line(line, near))
        lane.user_line, lane.n_user_lines, end = line, lane.n_user_lines + 1, line[-2 * NEAR :]
        if _SUMMARY in end or _SUMMARY in near:
            lane.notes.setdefault("compaction", "a summary took the place of what came before")
        elif b'"tool_use_id":"' not in line[: 2 * NEAR] and b'"sourceToolAssistantUUID":' not in end:
            lane.note_prompt(line)
        elif b'"commandName":"' in end and (skill := _SKILL.search(end)):
            lane.note_event("skill", skill[1].decode())
        elif b'"total_deferred_tools":' in end:
            lane.note_event("tool search")

    def note(self, line: bytes, near: bytes) -> None:
        """A line that is neither the user's nor a reply's."""
        if b'"subtype":"api_error"' in near:
            self.lane(self.side.of_line(line, near)).note_event("API error")
        elif b'"SessionStart:resume"' in near:
            self.lane(MAIN).note_event("resume")
        elif b'_delta"' in near and _TOOLS_DELTA.search(near) and (removed := _REMOVED.search(line)):
            n = removed[1].count(b",") + 1
            self.lane(self.side.of_line(line, near)).note_event("MCP change", f"{n} removed")

    def note_own_words(self, line: bytes, near: bytes) -> None:
        """A reply that Claude Code wrote itself: the text of an error, or what stands for a reply where a session that
        was interrupted is taken up again.
        """
        is_error = b'"isApiErrorMessage":true' in line
        self.lane(self.side.of_line(line, near)).note_event("API error" if is_error else "resume")

    def cleared(self, line: bytes, near: bytes) -> None:
        """The user has cleared the session: the hooks of its start run again."""
        self.lane(self.side.of_line(line, near)).notes["compaction"] = "the session was cleared"

    def compacted(self, line: bytes) -> None:
        record = object_of(line)
        if record.get("type") == "system":
            facts = record.get("compactMetadata")
            trigger = facts.get("trigger") if isinstance(facts, dict) else None
            text = f"{record.get('subtype')}{f', {trigger}' if trigger else ''}"
            self.lane(self.side.of(record)).notes["compaction"] = text

    def hear(self, number: int, key: bytes, line: bytes, near: bytes) -> _Reply | None:
        """The first line of a reply; gives the one whose place it takes among the open ones, if there is one."""
        name = self.side.of_line(line, near)
        lane = self.lane(name)
        if self.source.is_new(b"claude code", key):
            reply = _Reply(number, line, line, name, lane.user_line, line, *places(line, key))
            lane.begin(reply)
            self.open[key] = reply
            return self.open.popitem(last=False)[1] if len(self.open) > OPEN else None
        self.n_known += 1
        lane.go_on(None)
        lane.began = lane.ended = max(lane.ended, when(line) or 0.0)
        return None

    def finish(self) -> None:
        """Report what concerns the file as a whole."""
        if self.n_known:
            what = "lines are of calls that were read before, as resumed sessions repeat them; counted once"
            self.source.fault(0, f"{self.n_known:,} {what}")

    def calls(self, reply: _Reply) -> Sequence[Record]:
        """The remarks on a reply, then its call, or its calls."""
        record = without_content(reply.line) or parsed(self.source, reply.number, reply.line) or {}
        message = record.get("message")
        if record.get("type") != "assistant" or not isinstance(message, dict):
            return ()
        if not isinstance(message.get("usage"), dict):
            message = {**message, "usage": {}}  # a reply whose bill was not recorded is a call all the same
        if message.get("model") == OWN_WORDS or record.get("isApiErrorMessage"):
            return ()
        session = self.session = recorded_id(record.get("sessionId")) or self.source.label
        ids = map(recorded_id, (message.get("id"), record.get("requestId"), record.get("uuid")))
        identity = next(filter(None, ids), f"{session}/{reply.number}")
        times = self._times(reply, record)
        said = [*self._about(session, reply.lane, record), *self._changes(reply, identity, times, record, message)]
        return said + self._billed(reply, (identity, session, *times), message, dollars(record.get("costUSD")))

    def _billed(
        self, reply: _Reply, of: tuple[str, str, float, float], message: dict[str, Any], usd: float | None
    ) -> list[Record]:
        identity, session, at, ended = of
        model, usage = str(message.get("model") or "unknown"), message["usage"]
        steps = usage.get("iterations")
        if not isinstance(steps, list) or len(steps) < 2 or not all(isinstance(step, dict) for step in steps):
            is_partial, estimate = message.get("stop_reason", "") is None, None
            billed = _usage(self.source, reply.number, usage, is_partial=is_partial)
            if is_partial and billed is not None and billed.output is not None:
                n_visible = visible_bytes(reply.first) + reply.n_visible
                estimate = max(billed.output, round(n_visible / BYTES_PER_OUTPUT_TOKEN))
            call = ModelCall(
                id=identity,
                session=session,
                lane=reply.lane,
                at=at,
                ended_at=ended,
                provider=provider_of(model),
                model=model,
                usage=billed,
                billed_usd=usd,
                output_estimate=estimate,
            )
            return [call]
        calls: list[Record] = []
        for number, step in enumerate(steps, 1):
            lane = reply.lane if step.get("type", "message") in _OF_THE_LANE else f"{reply.lane} {step['type']}"
            name = step["model"] if isinstance(step.get("model"), str) else model
            own, end = (identity if number == 1 else f"{identity}/{number}"), (ended if number == len(steps) else None)
            billed = _usage(self.source, reply.number, {**tier_fields(usage), **step})
            calls.append(
                ModelCall(
                    id=own,
                    session=session,
                    lane=lane,
                    at=at,
                    ended_at=end,
                    provider=provider_of(name),
                    model=name,
                    usage=billed,
                )
            )
        return calls

    def _times(self, reply: _Reply, record: dict[str, Any]) -> tuple[float, float]:
        """When a call started and ended.

        What it answers was put to it when it started, if that is not older than a reply can be.
        """
        lane = self.lanes[reply.lane]
        ended = plausible(record.get("timestamp")) if reply.last is reply.line else when(reply.last)
        first = ended if reply.first is reply.last else when(reply.first)
        if ended is None or first is None:
            self.source.fault(
                reply.number, "no time, or one of a clock that was never set; the time of the call before stands in"
            )
            return lane.ended, lane.ended
        if first < lane.began - 1:
            self.source.fault(
                reply.number,
                "earlier than the call before it: a wrong clock, or lines out of order; taken as it stands",
            )
        elif first < lane.ended - 1:
            self.source.fault(
                reply.number,
                "overlaps the call before it: one session sent requests side by side, and no line says which call "
                "continues which; it is counted, and the cause of a miss here is uncertain",
            )
        user_line = when(reply.user_line) if reply.user_line else None
        started = (
            user_line
            if user_line is not None and max(lane.ended, first - LONGEST_REPLY) <= user_line <= first
            else first
        )
        lane.began = first
        lane.ended = ended = max(first, ended)
        return started, ended

    def _about(self, session: str, lane: str, record: dict[str, Any]) -> list[Record]:
        """Where the session was held and who the lane is, once each."""
        said: list[Record] = []
        if session not in self.remarked and isinstance(record.get("cwd"), str):
            self.remarked.add(session)
            said.append(Remark("project", session, record["cwd"]))
        if lane != MAIN and (place := f"{session}/{lane}") not in self.remarked:
            self.remarked.add(place)
            agent = self.agent_type or record.get("attributionAgent")
            said += [Remark("agent", place, agent)] if isinstance(agent, str) else []
        return said

    def _changes(
        self,
        reply: _Reply,
        identity: str,
        times: tuple[float, float],
        record: dict[str, Any],
        message: dict[str, Any],
    ) -> list[Record]:
        """What makes this prompt another one than the lane's last, and what the provider says of it."""
        lane, usage, said = self.lanes[reply.lane], message["usage"], list[Record]()
        version = record.get("version")
        if isinstance(version, str) and lane.version not in (None, version):
            reply.notes["client version"] = f"{lane.version} → {version}"
        lane.version = version
        if times[0] >= RUNS_COUNT_ONCE:
            reply.notes.pop("many blocks", None)
        for name, text in reply.notes.items():
            is_compaction = name == "compaction"
            said.append(
                Remark(
                    "compaction" if is_compaction else "event", identity, text if is_compaction else f"{name}: {text}"
                )
            )
        settings = record.get("perTurnEffort") or record.get("effort"), usage.get("speed")
        if settings != lane.settings:
            pairs = [*zip(("effort", "speed"), lane.settings, settings, strict=True)]
            changed = [
                f"{name} {was} → {now}" for name, was, now in pairs if was is not None and now not in (None, was)
            ]
            said += [Remark("setting", identity, ", ".join(changed))] if changed else []
            lane.settings = tuple(was if now is None else now for _, was, now in pairs)
        diagnostics = message.get("diagnostics")
        reason = diagnostics.get("cache_miss_reason") if isinstance(diagnostics, dict) else None
        if isinstance(reason, dict) and isinstance(reason.get("type"), str):
            said.append(Remark("verdict", identity, reason["type"]))
        return said


_SUMMARY = b'"isCompactSummary":true'


def _agent_type(name: str) -> str | None:
    """What Claude Code noted beside a sub-agent's transcript: `agent-<id>.meta.json`."""
    path = Path(name)
    note = path.with_name(f"{path.name.partition('.')[0]}.meta.json")
    if not path.name.startswith("agent-") or not note.is_file():
        return None
    kind = object_of(note.read_bytes()).get("agentType")
    return kind if isinstance(kind, str) else None


@lru_cache(maxsize=256)
def provider_of(model: str) -> str:
    """Whose prices: the model table's word, Anthropic for what is named Claude; a router's other models are nobody's."""
    row = find_model(model)
    return model_named(model).provider if row else "anthropic" if "claude" in model else ""


_OF_THE_LANE = ("message", "compaction", None)
"""Iterations that send the lane's own prompt."""


def _usage(source: Source, line: int, said: dict[str, Any], *, is_partial: bool = False) -> Usage | None:
    """The bill; `input_tokens` leaves out what was read and written. None where all is 0, as no call costs nothing.

    `is_partial` where the output may be the count of a reply that was not complete yet.
    """
    fresh, read, output = said.get("input_tokens"), said.get("cache_read_input_tokens"), said.get("output_tokens")
    total, split = said.get("cache_creation_input_tokens"), said.get("cache_creation")
    short, long = (split.get(_SHORT), split.get(_LONG)) if isinstance(split, dict) else (None, None)
    for count in (fresh, read, output, total, short, long):
        if count is not None and natural(count) is None:
            source.fault(line, NO_COUNT)
            return _usage(source, line, _natural(said), is_partial=is_partial)
    if (
        short is None or long is None or (total and not short + long)
    ):  # builds before there were two lifetimes asked for the short one
        short, long = total, None if total is None else 0
    elif total is not None and short + long != total:
        source.fault(
            line, "the writes of both lifetimes are not their sum, cache_creation_input_tokens; the lifetimes stand"
        )
    if not (fresh or read or short or long or output):
        return None
    qualities = _PARTIAL if is_partial and output is not None else ()
    return served(Usage(fresh, read, short, long, output, qualities=qualities), said)


_PARTIAL: tuple[tuple[str, Quality], ...] = (("output", "partial"),)
_SHORT, _LONG = "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"


def _natural(said: dict[str, Any]) -> dict[str, Any]:
    """The counts of a bill that are counts."""
    split = said.get("cache_creation")
    parts = {name: natural(said.get(name)) for name in (*_COUNTS, "cache_creation_input_tokens")}
    return {
        **parts,
        "cache_creation": {name: natural(split.get(name)) for name in (_SHORT, _LONG)}
        if isinstance(split, dict)
        else None,
    }


_COUNTS = ("input_tokens", "cache_read_input_tokens", "output_tokens")
_INPUT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
