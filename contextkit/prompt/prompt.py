"""The prompt model: rendered blocks, the append-only columns a conversation grows, and the layout of one request.

A `RenderedBlock` is one block, message or tool in the normal form that is sent and digested; only
`providers.rendered_blocks.render_block` makes one. A `PlacedBlock` is that block at its place on the wire. (A `Block`,
`prompt/block.py`, is a block of a request body as it was sent, for comparing prompts.)

`PromptColumns` keeps the wire bytes, sizes, lookback positions, breakpoint offsets and running digests of one
conversation. It appends blocks and never moves one again, so that a request costs what was added and not what the
conversation holds. It knows no provider: a `Grammar` defines how brackets, positions and markers are written.

A `PromptLayout` is what one request sends of the columns: the first `n` blocks, and where the breakpoints are. Creating
one costs nothing; its bytes are joined on demand.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

from contextkit.cache.prompt import Breakpoint
from contextkit.canonical import Json

Level = Literal["tools", "system", "messages"]
LEVELS: tuple[Level, ...] = ("tools", "system", "messages")
"""The order every provider renders a prompt in; what changes on one level invalidates it and those behind it."""
_LEVEL_NUMBERS = {level: number for number, level in enumerate(LEVELS)}


@dataclass(frozen=True, slots=True)
class RenderedBlock:
    """One block, message or tool in normal form, before it has a place in a prompt."""

    level: Level
    """tools, system or messages."""
    role: str
    """Role of the message it opens; `""` for a block that continues the message of the block before (tools and system blocks always)."""
    body: bytes
    """The block in the wire's normal form, without markers."""
    n_tokens: int
    """Its size; the frame of a message it opens included."""
    run: str = ""
    """Blocks of one non-empty run share a lookback position, by the wire's rule (`tool_use`, `tool_result`, …)."""
    opener: bytes = b""
    """What opens its message on the wire, `{"role":"user","content":[`; empty where `body` is the whole message."""
    closer: bytes = b""
    """What closes that message."""
    can_hold_breakpoint: bool = True
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
    marker: Json = None
    """The cache marker that it came with, None for none; no part of `body`."""


@dataclass(frozen=True, slots=True)
class PlacedBlock:
    """One block at its place in a prompt."""

    entry: int
    """Sequence of the log entry it comes from, -1 for none."""
    level: Level
    """tools, system or messages."""
    role: str
    """Role of the message it opens; `""` for a block that continues a message."""
    lead: bytes
    """What stands before the body on the wire: brackets the block before left open, commas, the opening of a message.
    """
    body: bytes
    """The block in the wire's normal form."""
    n_tokens: int
    """Its size as the cache counts it: 0 once a model has stripped it."""
    position: int
    """Its lookback position."""
    breakpoint_offset: int | None
    """Offset in `body` where a marker is spliced in, None where none may stand."""


DIGEST_BYTES = 16
"""Length of a running digest: 128 bits, collisions out of reach for any real number of prompts."""

_COLUMNS = (
    "bodies",
    "ends",
    "breakpoint_offsets",
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
"""The columns with one value for each block."""
_FADING = ("thinking_blocks", "passing_blocks")
"""Columns of blocks that a later turn takes out of the prompt."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """How one wire writes and counts."""

    arrays: Mapping[Level, str]
    """Body field that holds each level."""
    merges_roles: bool
    """Whether neighbouring messages of one role are one message."""
    advances: Callable[[str, str, bool], bool]
    """(run before, run, opens a message) → whether the lookback position moves on."""
    marker: Callable[[int], bytes]
    """Lifetime in seconds → what is spliced in before the last byte of a marked block."""
    message_tokens: int
    """What opening a message costs."""
    brackets: Mapping[str, tuple[bytes, bytes]] = field(default_factory=dict)
    """Body field → what opens and closes it, where that is not `"field":[` and `]`."""
    content_field: str = "content"
    """Field of a message that holds its blocks, as paths name it."""
    has_breakpoint_blocks: bool = False
    """Whether a marker is a block of its own behind the marked one, and not a field inside it."""
    opened: Callable[[PromptColumns, int, bytes], tuple[bytes, int]] | None = None
    """(columns, blocks sent, JSON object of the other fields) → what stands before the first block, and where in
    `wire` that one begins; None for the fields themselves, and all blocks."""

    def bracket(self, level: Level) -> tuple[bytes, bytes]:
        """What opens and closes the array of a level."""
        name = self.arrays[level]
        return self.brackets.get(name) or (b'"%b":[' % name.encode(), b"]")


class PromptColumns:
    """The blocks of one conversation for one wire and model, in columns."""

    __slots__ = (
        "bodies",
        "breakpoint_offsets",
        "closers",
        "digests",
        "ends",
        "ends_tokens",
        "entries",
        "flags",
        "grammar",
        "level_ends",
        "levels",
        "passing_blocks",
        "positions",
        "role",
        "roles",
        "runs",
        "silent",
        "sizes",
        "strips",
        "strips_thinking",
        "thinking_blocks",
        "tool_prompt_tokens",
        "wire",
    )

    def __init__(self, grammar: Grammar, *, strips_thinking: bool = False, tool_prompt_tokens: int = 0) -> None:
        self.grammar = grammar
        self.strips_thinking = strips_thinking
        self.tool_prompt_tokens = tool_prompt_tokens
        """Tokens of the system prompt that the provider adds before the first tool."""
        self.wire = bytearray()
        """Leads and bodies, end to end."""
        self.bodies = array("q")
        """Where each body starts in `wire`."""
        self.ends = array("q")
        """Where each block ends in `wire`."""
        self.breakpoint_offsets = array("q")
        """Where a marker goes in `wire`, -1 where none may stand."""
        self.sizes = array("q")
        """Tokens of each block, as sent."""
        self.entries = array("q")
        """Log sequence of each block."""
        self.levels = bytearray()
        """Index into LEVELS of each block."""
        self.roles: list[str] = []
        self.runs: list[str] = []
        self.closers: list[bytes] = []
        """What closes the message each block stands in."""
        self.digests: list[bytes] = []
        self.ends_tokens = array("q")
        self.positions = array("q")
        self.level_ends = [0, 0]
        self.flags: dict[str, int] = {}
        """Flag → first block that raised it."""
        self.silent: set[int] = set()
        """Blocks that are on the wire but in no digest: stripped thinking, server tools that key another level."""
        self.thinking_blocks: list[int] = []
        self.passing_blocks: list[int] = []
        self.strips: list[tuple[int, tuple[int, ...], str]] = []
        """(block of a new user turn, blocks it took out of the prompt, the column that held them)."""
        self.role = ""
        """Role of the message that is open."""

    def __len__(self) -> int:
        return len(self.ends)

    def extend(self, blocks: Iterable[RenderedBlock]) -> None:
        """Append several."""
        for block in blocks:
            self.append(block)

    def append(self, block: RenderedBlock) -> None:
        """Append `block`. Levels only go forward: tools, system, messages."""
        if block.is_turn and self.strips_thinking and self.thinking_blocks:
            self._strip("thinking_blocks")
        if block.role == "user" and self.passing_blocks:
            self._strip("passing_blocks")
        level, opens = _LEVEL_NUMBERS[block.level], self._opens(block)
        body = block.body
        data = self._lead(block, opens) + body
        try:
            self.wire += data
        except BufferError:  # somebody is copying a body out just now, in another thread: the old bytes stay theirs, these begin with them
            self.wire = self.wire + data
        self.bodies.append(len(self.wire) - len(body))
        self._append_columns(block, level, opens)
        self._count(len(self.ends) - 1, body)

    def withhold(self, indexes: Iterable[int]) -> None:
        """Take thinking out of the prompt that the provider says it left out, as of the last block.

        The wire keeps it.
        """
        withheld = tuple(sorted(index for index in indexes if index in self.thinking_blocks))
        if withheld:
            self.strips.append((len(self) - 1, withheld, "thinking_blocks"))
            self.silent.update(withheld)
            self.thinking_blocks = [index for index in self.thinking_blocks if index not in withheld]
            self._recount(withheld[0])

    def rewound(self, n: int) -> PromptColumns:
        """Copy the first `n` blocks into new columns; these, and every layout over them, stay as they are."""
        other = PromptColumns(
            self.grammar, strips_thinking=self.strips_thinking, tool_prompt_tokens=self.tool_prompt_tokens
        )
        other.strips = [strip for strip in self.strips if strip[0] < n]
        restored = [index for at, indexes, _ in self.strips if at >= n for index in indexes if index < n]
        for name in _COLUMNS:
            setattr(other, name, getattr(self, name)[:n])
        other.wire = self.wire[: self.ends[n - 1]] if n else bytearray()
        other.level_ends = [min(end, n) for end in self.level_ends]
        other.flags = {flag: at for flag, at in self.flags.items() if at < n}
        other.silent = {index for index in self.silent if index < n} - set(restored)
        for column in _FADING:
            back = {index for at, indexes, name in self.strips if at >= n and name == column for index in indexes}
            setattr(other, column, sorted(index for index in back | set(getattr(self, column)) if index < n))
        other.role = next((role for role in reversed(other.roles) if role), "")
        other._recount(min(restored, default=n))
        return other

    def block(self, index: int) -> PlacedBlock:
        """Block `index` as a value of its own."""
        start = self.ends[index - 1] if index else 0
        offset = self.breakpoint_offsets[index]
        body = self.bodies[index]
        n_tokens = self.ends_tokens[index] - (self.ends_tokens[index - 1] if index else 0)
        return PlacedBlock(
            self.entries[index],
            LEVELS[self.levels[index]],
            self.roles[index],
            bytes(self.wire[start:body]),
            bytes(self.wire[body : self.ends[index]]),
            n_tokens,
            self.positions[index],
            None if offset < 0 else offset - body,
        )

    def body(self, index: int) -> bytes:
        """The body of block `index`, in normal form."""
        return bytes(self.wire[self.bodies[index] : self.ends[index]])

    def message_role(self, index: int) -> str:
        """Return the role of the message that block `index` stands in; empty for tools and system text without one."""
        return next((self.roles[i] for i in range(index, -1, -1) if self.roles[i]), "")

    def raised(self, n: int) -> tuple[str, ...]:
        """Flags raised by the first `n` blocks, sorted."""
        return tuple(sorted(flag for flag, at in self.flags.items() if at < n))

    def _opens(self, block: RenderedBlock) -> bool:
        if not block.role:
            return False
        if block.role != self.role or not self.grammar.merges_roles:
            return True
        return not self.levels or LEVELS[self.levels[-1]] != block.level

    def _lead(self, block: RenderedBlock, opens: bool) -> bytes:
        grammar, opener = self.grammar, block.opener if opens else b""
        if not self.ends:
            return grammar.bracket(block.level)[0] + opener
        closer, before = self.closers[-1], LEVELS[self.levels[-1]]
        if before != block.level and grammar.arrays[before] != grammar.arrays[block.level]:
            return b"%b%b,%b%b" % (closer, grammar.bracket(before)[1], grammar.bracket(block.level)[0], opener)
        return (closer if opens else b"") + b"," + opener

    def _append_columns(self, block: RenderedBlock, level: int, opens: bool) -> None:
        index = len(self.ends)
        self.ends.append(len(self.wire))
        self.breakpoint_offsets.append(
            len(self.wire) - (not self.grammar.has_breakpoint_blocks) if block.can_hold_breakpoint else -1
        )
        self.sizes.append(block.n_tokens + (self.grammar.message_tokens if opens else 0))
        self.entries.append(block.entry)
        self.levels.append(level)
        self.roles.append(block.role if opens else "")
        self.runs.append(block.run)
        self.closers.append(block.closer if opens or not block.role else self.closers[-1])
        self.role = block.role or self.role
        if level < len(self.level_ends):
            self.level_ends = [index + 1 if level <= bound else end for bound, end in enumerate(self.level_ends)]
        if block.flags:
            for flag in block.flags:
                self.flags.setdefault(flag, index)
        if block.is_silent:
            self.silent.add(index)
        if block.is_thinking:
            self.thinking_blocks.append(index)
        if block.is_passing:
            self.passing_blocks.append(index)

    def _count(self, index: int, body: bytes) -> None:
        """Append digest, token end and position of block `index`; its neighbours before it are counted already."""
        digest = self.digests[index - 1] if index else b""
        tokens = self.ends_tokens[index - 1] if index else 0
        position = self.positions[index - 1] if index else 0
        if index not in self.silent:
            level, role = LEVELS[self.levels[index]], self.roles[index] or self._opener(index)
            covered = blake2b(b"%b%b\x00%b\x00" % (digest, level.encode(), role.encode()), digest_size=DIGEST_BYTES)
            covered.update(body)
            digest = covered.digest()
            if index:
                position += self.grammar.advances(self.runs[index - 1], self.runs[index], bool(role))
            if not tokens and level == "tools":
                tokens = self.tool_prompt_tokens
            tokens += self.sizes[index] + (self.grammar.message_tokens if role and not self.roles[index] else 0)
        self.digests.append(digest)
        self.ends_tokens.append(tokens)
        self.positions.append(position)

    def _opener(self, index: int) -> str:
        """Role of the message that block `index` opens, as the cache counts: stripped blocks before it open nothing."""
        while index and not self.roles[index] and index - 1 in self.silent:
            index -= 1
        return self.roles[index]

    def _strip(self, column: str) -> None:
        """Take earlier thinking, or text meant for one turn, out of the prompt; the wire keeps them."""
        stripped: list[int] = getattr(self, column)
        self.strips.append((len(self), tuple(stripped), column))
        self.silent.update(stripped)
        setattr(self, column, [])
        self._recount(stripped[0])

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
class PromptLayout:
    """The first `n` blocks of a conversation, and the breakpoints on them."""

    columns: PromptColumns
    """The columns it borrows from."""
    n: int
    """How many blocks are sent."""
    breakpoints: tuple[Breakpoint, ...] = ()
    """Explicit breakpoints, in rising order of block."""

    @property
    def blocks(self) -> tuple[PlacedBlock, ...]:
        """All blocks as values; costs O(n), for tests and reports."""
        return tuple(map(self.columns.block, range(self.n)))

    @property
    def n_bytes(self) -> int:
        """Size of the blocks on the wire, breakpoints and closing brackets aside."""
        return self.columns.ends[self.n - 1] if self.n else 0

    def slices(self, start: int = 0) -> list[bytes | memoryview]:
        """The wire bytes from `start` to the last closing bracket: at most one slice more than there are breakpoints."""
        if not self.n:
            return []
        grammar, slices = self.columns.grammar, list[bytes | memoryview]()
        with memoryview(self.columns.wire) as wire:
            for one in self.breakpoints:
                place = self.columns.breakpoint_offsets[one.segment]
                slices += [wire[start:place], grammar.marker(one.ttl_seconds)]
                start = place
            slices.append(wire[start : self.n_bytes])
        closing = grammar.bracket(LEVELS[self.columns.levels[self.n - 1]])[1]
        return [*slices, self.columns.closers[self.n - 1] + closing]

    def body(self, params: bytes) -> bytes:
        """The whole request body. `params` is the JSON object of all other fields."""
        opened = self.columns.grammar.opened
        middle = b"," if self.n and len(params) > 2 else b""
        opening, start = opened(self.columns, self.n, params) if opened else (params[:-1] + middle, 0)
        parts = [opening, *self.slices(start), b"}"]
        try:
            return b"".join(parts)
        finally:
            for part in parts:
                if isinstance(part, memoryview):
                    part.release()
