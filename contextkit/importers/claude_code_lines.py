"""Lines of a Claude Code transcript, looked at without parsing them: which call, which lane, when.

Takes the bytes of a line, gives what stands in it; most of a transcript is the output of tools, which no bill needs.
Inside a string a quote is escaped, so `"key":"` can be nothing but a key; where the bytes leave a doubt, the line is
parsed. Knows nothing of bills.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from contextkit.importers.transcript import plausible

NEAR = 512
"""Bytes at either end of a line in which its own keys stand; what lies between may be megabytes of a tool's output."""
MAIN = "main"
"""The lane of the session itself."""


def is_users(near: bytes) -> bool:
    """Whether a line that starts like this is the user's, or a tool result."""
    at = near.find(b'"type":"user"')
    return at >= 0 and near.find(b'"message":', 0, at) < 0 and near.find(b'"data":', 0, at) < 0


def is_own(line: bytes, near: bytes) -> bool:
    """Whether a line that is neither the user's nor a reply's is one that Claude Code writes."""
    return any(name in near or line.find(name, -2 * NEAR) >= 0 for name in _NAMES)


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
    """Message and request of a reply as they are written; empty where the bytes do not show them beyond doubt."""
    start, content = near.find(b'"id":"'), near.find(b'"content":')
    request = line.find(b'"requestId":"', -2 * NEAR)
    if not 0 <= start < content or request < 0 or near.find(b'"data":', 0, start) >= 0:
        return b""
    return line[start + 6 : near.find(b'"', start + 6)] + line[request + 12 : line.find(b'"', request + 13)]


def places(line: bytes, key: bytes) -> tuple[slice, bytes, slice, bytes]:
    """Where a line shows the two names of its key, and the names; what no line shows where it shows neither."""
    name, _, request = key.partition(b'"')
    at, end = line.find(name, 0, NEAR), line.find(request, -2 * NEAR) - len(line)
    if at < 0 or not -len(line) <= end < -len(request):
        return slice(0, 0), b"?", slice(0, 0), b"?"
    return slice(at, at + len(name)), name, slice(end, end + len(request)), request


def output_of(line: bytes) -> int:
    """Generated tokens that a reply's line says, 0 where it says none."""
    at = line.find(b'"output_tokens":', -4 * NEAR) + 16
    digits = line[at : line.find(b",", at)]
    return int(digits) if at >= 16 and digits.isdigit() else 0


class SideLanes:
    """Which lane a line of a sub-agent belongs to."""

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


def without_content(line: bytes) -> dict[str, Any] | None:
    """A reply's line but for what was said, which is most of it; None where the bytes do not show where that stands."""
    content, usage = line.find(b'"content":', 0, NEAR), line.find(b'"usage":{', -4 * NEAR)
    if not 0 <= content < usage:
        return None
    try:
        record = orjson.loads(
            line[:content] + line[usage:]
        )  # what stood inside the content leaves brackets that do not match
    except orjson.JSONDecodeError:
        return None
    return record if isinstance(record, dict) else None


def object_of(line: bytes) -> dict[str, Any]:
    """A line whose bytes look like an object; an empty one where it is none, which no reader takes for anything."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return record if isinstance(record, dict) else {}
