"""The pieces a prompt is cut into.

A *piece* is what an adapter says about one block, one message or one tool; a *segment* is that piece in its place on
the wire.

Everything about a conversation that grows: its wire bytes, sizes, positions, mark places and running digests.

Takes pieces in order, keeps each as a segment and never moves one again, so that a request costs what was added, not
what was said before. Knows nothing of any one provider: how brackets, positions and markers go is told by a `Grammar`.

One request's view of a track: how much of it is sent, and where the breakpoints stand.

Takes a track and a length, gives bytes and prompts. Making one costs nothing; its bytes are joined when they are asked
for.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from contextkit.cache.prompt import Breakpoint

Level = Literal["tools", "system", "messages"]
LEVELS: tuple[Level, ...] = ("tools", "system", "messages")
"""The order every provider renders a prompt in; what changes on one level invalidates it and those behind it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One block before it has a place."""

    level: Level
    """Where it belongs."""
    role: str
    """Who speaks; `""` for a block that continues the message of the piece before (tools and system blocks always)."""
    body: bytes
    """The block in the wire's normal form, without markers."""
    n_tokens: int
    """Its size; the frame of a message it opens included."""
    run: str = ""
    """Pieces of one non-empty run share a lookback position, by the wire's rule (`tool_use`, `tool_result`, …)."""
    opener: bytes = b""
    """What opens its message on the wire, `{"role":"user","content":[`; empty where `body` is the whole message."""
    closer: bytes = b""
    """What closes that message."""
    is_markable: bool = True
    """Whether a breakpoint may stand on it (just before the last byte of `body`)."""
    is_thinking: bool = False
    """Whether some models strip it when a new user turn arrives."""
    is_turn: bool = False
    """Whether it is (part of) a new user turn, as opposed to a tool result."""
    flags: tuple[str, ...] = ()
    """Facts about it that some provider keys a whole level on: `image`, `citations`, a server tool's name."""
    is_silent: bool = False
    """Whether it stands on the wire without entering the key of its own level (it enters through its flags)."""
    is_passing: bool = False
    """Whether it leaves the prompt, and not the wire, when a user message follows."""
    entry: int = -1
    """Sequence of the log entry it comes from, -1 for none."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One piece in its place."""

    entry: int
    """Sequence of the log entry it comes from, -1 for none."""
    level: Level
    """tools, system or messages."""
    role: str
    """Who speaks; `""` for a block that continues a message."""
    lead: bytes
    """What stands before the body on the wire: brackets the segment before left open, commas, the opening of a message.
    """
    body: bytes
    """The block in the wire's normal form."""
    n_tokens: int
    """Its size as the cache counts it: 0 once a model has stripped it."""
    position: int
    """Its lookback position."""
    mark_at: int | None
    """Offset in `body` where a marker is spliced in, None where none may stand."""


DIGEST_BYTES = 16
"""Length of a running digest: 128 bits, collisions out of reach for any real number of prompts."""

_COLUMNS = (
    "bodies",
    "ends",
    "marks",
    "sizes",
    "entries",
    "levels",
    "roles",
    "runs",
    "closers",
    "digests",
    "ends_tokens",
    "positions",
)
"""What a track holds one of for each segment."""
_FADING = ("pieces_thinking", "pieces_passing")
"""Columns of segments that a later turn takes out of the prompt."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """How one wire writes and counts."""

    arrays: Mapping[Level, str]
    """Body field that holds each level."""
    merges_speakers: bool
    """Whether neighbouring messages of one role are one message."""
    advances: Callable[[str, str, bool], bool]
    """(run before, run, opens a message) → whether the lookback position moves on."""
    marker: Callable[[int], bytes]
    """Lifetime in seconds → what is spliced in before the last byte of a marked block."""
    message_tokens: int
    """What opening a message costs."""
    brackets: Mapping[str, tuple[bytes, bytes]] = field(default_factory=dict)
    """Body field → what opens and closes it, where that is not `"field":[` and `]`."""
    has_mark_blocks: bool = False
    """Whether a marker is a block of its own behind the marked one, and not a field inside it."""
    opened: Callable[[Track, int, bytes], tuple[bytes, int]] | None = None
    """(track, segments sent, JSON object of the other fields) → what stands before the first segment, and where in
    `wire` that one begins; None for the fields themselves, and all segments."""

    def bracket(self, level: Level) -> tuple[bytes, bytes]:
        """What opens and closes the array of a level."""
        name = self.arrays[level]
        return self.brackets.get(name) or (b'"%b":[' % name.encode(), b"]")


class Track:
    """Segments of one conversation for one wire and model, in columns."""

    __slots__ = (
        "bodies",
        "closers",
        "digests",
        "ends",
        "ends_tokens",
        "entries",
        "flags",
        "grammar",
        "level_ends",
        "levels",
        "marks",
        "pieces_passing",
        "pieces_thinking",
        "positions",
        "roles",
        "runs",
        "silent",
        "sizes",
        "speaker",
        "strips",
        "strips_thinking",
        "wire",
    )

    def __init__(self, grammar: Grammar, *, strips_thinking: bool = False) -> None:
        self.grammar = grammar
        self.strips_thinking = strips_thinking
        self.wire = bytearray()
        """Leads and bodies, end to end."""
        self.bodies = array("q")
        """Where each body starts in `wire`."""
        self.ends = array("q")
        """Where each segment ends in `wire`."""
        self.marks = array("q")
        """Where a marker goes in `wire`, -1 where none may stand."""
        self.sizes = array("q")
        """Tokens of each segment, as sent."""
        self.entries = array("q")
        """Log sequence of each segment."""
        self.levels = bytearray()
        """Index into LEVELS of each segment."""
        self.roles: list[str] = []
        self.runs: list[str] = []
        self.closers: list[bytes] = []
        """What closes the message each segment stands in."""
        self.digests: list[bytes] = []
        self.ends_tokens = array("q")
        self.positions = array("q")
        self.level_ends = [0, 0]
        self.flags: dict[str, int] = {}
        """Flag → first segment that raised it."""
        self.silent: set[int] = set()
        """Segments that are on the wire but in no digest: stripped thinking, server tools keyed elsewhere."""
        self.pieces_thinking: list[int] = []
        self.pieces_passing: list[int] = []
        self.strips: list[tuple[int, tuple[int, ...], str]] = []
        """(segment of a new user turn, what it took out of the prompt, the column that held it)."""
        self.speaker = ""

    def __len__(self) -> int:
        return len(self.ends)

    def extend(self, pieces: Iterable[Piece]) -> None:
        """Append several."""
        for piece in pieces:
            self.append(piece)

    def append(self, piece: Piece) -> None:
        """Put `piece` behind all the others. Levels only go forward: tools, system, messages."""
        if piece.is_turn and self.strips_thinking and self.pieces_thinking:
            self._strip("pieces_thinking")
        if piece.role == "user" and self.pieces_passing:
            self._strip("pieces_passing")
        level, opens = LEVELS.index(piece.level), self._opens(piece)
        lead = self._lead(piece, opens)
        self._write(lead + piece.body)
        self.bodies.append(len(self.wire) - len(piece.body))
        self._note(piece, level, opens)
        self._count(len(self.ends) - 1, piece.body)

    def withhold(self, segments: Iterable[int]) -> None:
        """Take thinking out of the prompt that the provider says it left out, as of the last segment.

        The wire keeps it.
        """
        found = tuple(sorted(index for index in segments if index in self.pieces_thinking))
        if found:
            self.strips.append((len(self) - 1, found, "pieces_thinking"))
            self.silent.update(found)
            self.pieces_thinking = [index for index in self.pieces_thinking if index not in found]
            self._recount(found[0])

    def rewound(self, n: int) -> Track:
        """A new track of the first `n` segments; this one, and every layout over it, stays as it is."""
        other = Track(self.grammar, strips_thinking=self.strips_thinking)
        other.strips = [strip for strip in self.strips if strip[0] < n]
        restored = [index for at, indexes, _ in self.strips if at >= n for index in indexes if index < n]
        for name in _COLUMNS:
            setattr(other, name, getattr(self, name)[:n])
        other.wire = self.wire[: self.ends[n - 1]] if n else bytearray()
        other.level_ends = [min(end, n) for end in self.level_ends]
        other.flags = {flag: at for flag, at in self.flags.items() if at < n}
        other.silent = {index for index in self.silent if index < n} - set(restored)
        for held in _FADING:
            back = {index for at, indexes, name in self.strips if at >= n and name == held for index in indexes}
            setattr(other, held, sorted(index for index in back | set(getattr(self, held)) if index < n))
        other.speaker = next((role for role in reversed(other.roles) if role), "")
        other._recount(min(restored, default=n))
        return other

    def segment(self, index: int) -> Segment:
        """Segment `index` as a value of its own."""
        start, mark = self.ends[index - 1] if index else 0, self.marks[index]
        body = self.bodies[index]
        n_tokens = self.ends_tokens[index] - (self.ends_tokens[index - 1] if index else 0)
        return Segment(
            self.entries[index],
            LEVELS[self.levels[index]],
            self.roles[index],
            bytes(self.wire[start:body]),
            bytes(self.wire[body : self.ends[index]]),
            n_tokens,
            self.positions[index],
            None if mark < 0 else mark - body,
        )

    def body(self, index: int) -> bytes:
        """The block of segment `index`, in normal form."""
        return bytes(self.wire[self.bodies[index] : self.ends[index]])

    def raised(self, n: int) -> tuple[str, ...]:
        """Flags raised by the first `n` segments, sorted."""
        return tuple(sorted(flag for flag, at in self.flags.items() if at < n))

    def _write(self, data: bytes) -> None:
        try:
            self.wire += data
        except BufferError:  # somebody is copying a body out just now, in another thread: the old bytes stay theirs, these begin with them
            self.wire = self.wire + data

    def _opens(self, piece: Piece) -> bool:
        if not piece.role:
            return False
        is_same_level = bool(self.levels) and LEVELS[self.levels[-1]] == piece.level
        return not (self.grammar.merges_speakers and is_same_level and piece.role == self.speaker)

    def _lead(self, piece: Piece, opens: bool) -> bytes:
        grammar, opener = self.grammar, piece.opener if opens else b""
        if not self.ends:
            return grammar.bracket(piece.level)[0] + opener
        closer, before = self.closers[-1], LEVELS[self.levels[-1]]
        if grammar.arrays[before] != grammar.arrays[piece.level]:
            return b"%b%b,%b%b" % (closer, grammar.bracket(before)[1], grammar.bracket(piece.level)[0], opener)
        return (closer if opens else b"") + b"," + opener

    def _note(self, piece: Piece, level: int, opens: bool) -> None:
        index = len(self.ends)
        self.ends.append(len(self.wire))
        self.marks.append(len(self.wire) - (not self.grammar.has_mark_blocks) if piece.is_markable else -1)
        self.sizes.append(piece.n_tokens + (self.grammar.message_tokens if opens else 0))
        self.entries.append(piece.entry)
        self.levels.append(level)
        self.roles.append(piece.role if opens else "")
        self.runs.append(piece.run)
        self.closers.append(piece.closer if opens or not piece.role else self.closers[-1])
        self.speaker = piece.role or self.speaker
        self.level_ends = [index + 1 if level <= bound else end for bound, end in enumerate(self.level_ends)]
        for flag in piece.flags:
            self.flags.setdefault(flag, index)
        if piece.is_silent:
            self.silent.add(index)
        if piece.is_thinking:
            self.pieces_thinking.append(index)
        if piece.is_passing:
            self.pieces_passing.append(index)

    def _count(self, index: int, body: bytes) -> None:
        """Append digest, token end and position of segment `index`; its neighbours before it are counted already."""
        digest = self.digests[index - 1] if index else b""
        tokens = self.ends_tokens[index - 1] if index else 0
        position = self.positions[index - 1] if index else 0
        if index not in self.silent:
            level, role = LEVELS[self.levels[index]], self._opener(index)
            digest = blake2b(
                b"%b%b\x00%b\x00%b" % (digest, level.encode(), role.encode(), body), digest_size=DIGEST_BYTES
            ).digest()
            position += bool(index) and self.grammar.advances(self.runs[index - 1], self.runs[index], bool(role))
            tokens += self.sizes[index] + (self.grammar.message_tokens if role and not self.roles[index] else 0)
        self.digests.append(digest)
        self.ends_tokens.append(tokens)
        self.positions.append(position)

    def _opener(self, index: int) -> str:
        """Who speaks, where segment `index` is the first of its message that counts: what was stripped before it took
        no role along.
        """
        while index and not self.roles[index] and index - 1 in self.silent:
            index -= 1
        return self.roles[index]

    def _strip(self, held: str) -> None:
        """A new user turn takes earlier thinking, or words meant for one turn, out of the prompt; the wire keeps them."""
        pieces: list[int] = getattr(self, held)
        self.strips.append((len(self), tuple(pieces), held))
        self.silent.update(pieces)
        setattr(self, held, [])
        self._recount(pieces[0])

    def _recount(self, first: int) -> None:
        """Count again from `first` on, in new arrays: prompts that borrowed the old ones keep them."""
        self.digests, self.ends_tokens, self.positions = (
            self.digests[:first],
            self.ends_tokens[:first],
            self.positions[:first],
        )
        for index in range(first, len(self)):
            self._count(index, self.body(index))


@dataclass(frozen=True, slots=True)
class Layout:
    """The first `n` segments of a track, with marks."""

    track: Track
    """What it borrows from."""
    n: int
    """How many segments are sent."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """Explicit marks, in rising order of segment."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments as values; costs O(n), for tests and reports."""
        return tuple(map(self.track.segment, range(self.n)))

    @property
    def n_bytes(self) -> int:
        """Size of the segments on the wire, marks and closing brackets aside."""
        return self.track.ends[self.n - 1] if self.n else 0

    def slices(self, start: int = 0) -> Iterator[bytes | memoryview]:
        """The wire bytes from `start` to the last closing bracket: at most one slice more than there are marks."""
        if not self.n:
            return
        grammar = self.track.grammar
        with memoryview(self.track.wire) as wire:
            for mark in self.breakpoints:
                place = self.track.marks[mark.segment]
                yield wire[start:place]
                yield grammar.marker(mark.ttl_seconds)
                start = place
            yield wire[start : self.n_bytes]
        yield self.track.closers[self.n - 1] + grammar.bracket(LEVELS[self.track.levels[self.n - 1]])[1]

    def body(self, params: bytes) -> bytes:
        """The whole request body. `params` is the JSON object of everything that is not a segment."""
        opened = self.track.grammar.opened
        middle = b"," if self.n and len(params) > 2 else b""
        opening, start = opened(self.track, self.n, params) if opened else (params[:-1] + middle, 0)
        parts: list[bytes | memoryview] = [opening]
        parts.extend(self.slices(start))
        parts.append(b"}")
        try:
            return b"".join(parts)
        finally:
            for part in parts:
                if isinstance(part, memoryview):
                    part.release()
