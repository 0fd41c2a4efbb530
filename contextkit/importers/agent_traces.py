"""Agent traces of LMCache (github.com/LMCache/lmcache-agent-trace): `{"timestamp": µs, "input": text, "output": text,
"session_id"}`.

Takes a source, gives one call for each call, its prompt as an outline of its text and what an endless cache of its
session would have read of it as its prediction. Bills and models are in no line of these.

* Lines are in no order: they are put in that of their times. How long a call took is in none: it is taken to be
  answered at once.
* A prompt is cut at blank lines and where an earlier one ended, so what two prompts of a session share is a number of
  whole segments.
  What they share beyond the last common cut, less than a paragraph, is not counted.
* Sizes are estimates, `BYTES_PER_TOKEN` of UTF-8 a token, rounded at each cut, so that parts add up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from contextkit.cache.usage import Usage
from contextkit.importers.provider_names import UNKNOWN
from contextkit.importers.read_once import ReadOnce
from contextkit.importers.rows import bare, in_time, rows
from contextkit.importers.source import Source
from contextkit.importers.transcript import plausible
from contextkit.ledger.calls import ModelCall, Outline, Record

BYTES_PER_TOKEN = 4
"""UTF-8 bytes to a token, an estimate for English and code."""
NAMESPACES = ("", "", "")
"""No setting beside the text is known."""
TAIL = 512
"""Characters at the end of a prompt by which, with its time and length, a line is known again."""
_KEYS = {"timestamp", "input", "output", "session_id"}
_START = re.compile(rb'\{\s*"timestamp"\s*:\s*[\d.]+\s*,\s*(?:"session_id"\s*:\s*"[^"]*"\s*,\s*)?"input"\s*:\s*"')
_CUT = re.compile(r"\n\n+")


def is_agent_trace(head: bytes) -> bool:
    """Return whether a file that starts like this is such a trace.

    >>> is_agent_trace(b'{"timestamp": 1760428436442742, "input": "a", "output": "b", "session_id": "c"}')
    True
    """
    return _START.match(bare(head).removeprefix(b"[").lstrip()) is not None


@dataclass(slots=True)
class _Session:
    """The prompt before, cut."""

    text: str = ""
    ends: list[int] = field(default_factory=list)
    """Where its segments end, in characters."""
    sizes: list[int] = field(default_factory=list)
    """The same in bytes of UTF-8."""
    digests: list[str] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)


def read(source: Source) -> Iterator[Record]:
    """The calls of a trace by their times."""
    sessions: dict[str, _Session] = {}
    once = ReadOnce(source, "agent trace", "lines were")
    for _, (at, row) in in_time(
        source, _timed(source), lambda timed: timed[0], lambda timed: 2 * len(timed[1]["input"])
    ):
        name, text = str(row["session_id"]), row["input"]
        if once.is_new(f"{name} {at!r} {len(text)} {text[-TAIL:]}"):
            session = sessions.setdefault(name, _Session())
            yield _call(f"{name}/{row['timestamp']}", name, at, session, _grown(session, text), row["output"])
    once.finish()


def _timed(source: Source) -> Iterator[tuple[int, tuple[float, dict[str, Any]]]]:
    latest, n_late = 0.0, 0
    for line, row in rows(source):
        if not row.keys() >= _KEYS or not isinstance(row["input"], str) or not isinstance(row["output"], str):
            source.fault(line, "no call of an agent trace; passed over")
            continue
        at = plausible(row["timestamp"])
        if at is None:
            source.fault(line, "no time, or one of a clock that was never set; the latest before it stands in")
            at = latest
        n_late += at < latest
        latest = max(latest, at)
        yield line, (at, row)
    if n_late:
        source.fault(0, f"{n_late:,} of its lines are earlier than a line before them; put in the order of their times")


def _grown(session: _Session, text: str) -> Outline:
    """The next prompt of a session as a difference to the one before."""
    shared = _common(session.text, text)
    keep = sum(end <= shared for end in session.ends)
    start = session.ends[keep - 1] if keep else 0
    cuts = [cut.end() for cut in _CUT.finditer(text, start) if start < cut.end() < len(text)]
    ends = [*cuts, len(text)] if len(text) > start else []
    digest, digests = session.digests[keep - 1] if keep else "", list[str]()
    size, sizes = session.sizes[keep - 1] if keep else 0, list[int]()
    for begin, end in zip([start, *ends], ends, strict=False):
        part = text[begin:end].encode("utf-8", "surrogatepass")
        digest, size = blake2b(bytes.fromhex(digest) + part, digest_size=16).hexdigest(), size + len(part)
        digests.append(digest)
        sizes.append(size)
    position = session.positions[keep - 1] + 1 if keep else 0
    session.text = text
    session.ends[keep:], session.digests[keep:], session.positions[keep:] = ends, digests, [position] * len(ends)
    session.sizes[keep:] = sizes
    return Outline(
        keep=keep,
        namespaces=NAMESPACES,
        level_ends=(0, 0),
        digests=tuple(digests),
        ends_tokens=tuple(map(_tokens, sizes)),
        positions=(position,) * len(ends),
        entries=(-1,) * len(ends),
        breakpoints=(),
    )


def _call(identity: str, name: str, at: float, session: _Session, prompt: Outline, output: str) -> ModelCall:
    read = _tokens(session.sizes[prompt.keep - 1]) if prompt.keep else 0
    sent = _tokens(session.sizes[-1]) if session.sizes else 0
    generated = _tokens(len(output.encode("utf-8", "surrogatepass")))
    expected = Usage(sent - read, read, 0, 0, generated, estimated=True)
    return ModelCall(
        id=identity,
        session=name,
        at=at,
        first_byte_at=at,
        ended_at=at,
        model=UNKNOWN,
        prompt=prompt,
        predicted=expected,
    )


def _tokens(n_bytes: int) -> int:
    return -(-n_bytes // BYTES_PER_TOKEN)


def _common(one: str, other: str) -> int:
    """How many leading characters agree."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low
