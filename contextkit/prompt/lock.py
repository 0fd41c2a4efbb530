"""The head of an agent's prompts, pinned: what system and tools were, what they are now, and what the difference costs.

Takes the layout of a first request, gives its head as a value; of two such values, where they first differ and what is
billed once more. Knows nothing of files or agents' code: reading and writing `prompt.lock` is `cli/lock.py`.

A prompt is cached from its front, so a change re-bills what stands behind it: of the head at its first use, and, of
every conversation that is going on, all that was said. A cache that is written at marks only has none before the end of
the head, so there the whole head is written anew wherever in it the change stands (`docs/guides/lock.md`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from contextkit.cache.prompt import Prompt
from contextkit.cache.usage import Usage
from contextkit.canonical import parse
from contextkit.errors import UnknownModel
from contextkit.models import model_named
from contextkit.prices import bills_writes, cost_usd
from contextkit.prompt.block import Block
from contextkit.prompt.diff import common_blocks, difference, path_of
from contextkit.prompt.prompt import LEVELS, Level, PromptLayout

DIGEST_BYTES = 16
_MESSAGES = LEVELS.index("messages")


def digest_of(body: bytes) -> str:
    """The digest a block is pinned by, in hex."""
    return blake2b(body, digest_size=DIGEST_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class LockedBlock:
    """One tool, or one block of the system prompt."""

    path: str
    """Where it stands in a request's body: `tools[2]`, `system[0]`, `messages[0].content[0]`."""
    level: Level
    """tools or system."""
    body: bytes
    """The block in the wire's normal form."""
    n_tokens: int
    """Its size; 0 for what is not in the prefix (a tool whose loading is deferred)."""

    @property
    def name(self) -> str:
        """What the tool is called, or "" for a block of the system prompt."""
        block = parse(self.body)
        inside = block.get("function") if isinstance(block, dict) else None
        return str((inside if isinstance(inside, Mapping) else block).get("name", "")) if self.level == "tools" else ""


@dataclass(frozen=True)
class LockedHead:
    """What stands first in every prompt of an agent."""

    provider: str
    """Who bills: `anthropic`, `openai`."""
    wire: str
    """The endpoint."""
    model: str
    """The model asked: each has a cache of its own."""
    keys: tuple[str, str, str]
    """Digests of the parameters that key tools, system and messages (`docs/reference/providers.md`, What keys a prefix)."""
    is_estimate: bool
    """Whether token counts are estimated by size."""
    blocks: tuple[LockedBlock, ...]
    """In the order they are rendered."""

    @property
    def n_tokens(self) -> int:
        """The whole head."""
        return sum(block.n_tokens for block in self.blocks)

    @property
    def prefix(self) -> tuple[LockedBlock, ...]:
        """The blocks that are part of the prefix: a tool whose loading is deferred is not, until it is loaded."""
        return tuple(block for block in self.blocks if block.n_tokens)

    @cached_property
    def digest(self) -> str:
        """One digest of everything above."""
        facts = (self.provider, self.wire, self.model, *self.keys, *(digest_of(block.body) for block in self.blocks))
        return digest_of("\0".join(facts).encode())


def head_of(layout: PromptLayout, prompt: Prompt, wire: str, provider: str, model: str) -> LockedHead:
    """The head of a request."""
    columns, n = layout.columns, min(layout.columns.level_ends[1], layout.n)
    blocks = tuple(
        LockedBlock(
            path_of(columns, i),
            LEVELS[columns.levels[i]],
            columns.body(i),
            0 if i in columns.silent else columns.block(i).n_tokens,
        )
        for i in range(n)
    )
    tools, system, messages = (key.hex() for key in prompt.namespaces)
    return LockedHead(provider, wire, model, (tools, system, messages), model_named(model).tokenizer == "bytes", blocks)


@dataclass(frozen=True, slots=True)
class Live:
    """Conversations that are going on when a change goes out."""

    n_sessions: int = 0
    """How many."""
    session_tokens: int = 0
    """What was said in each of them, on average, behind the head."""


@dataclass(frozen=True, slots=True)
class HeadChange:
    """Where a head first differs from the one that was pinned, and what that re-bills at first use."""

    what: str
    """What changed, in words: `tool 'search'`, `the system prompt`, `the model`, `parameters`."""
    path: str
    """Where, as in `LockedBlock.path`; "" for the model and for parameters."""
    offset: int
    """Bytes of the block that still agree."""
    before: str
    """What the pinned block says around there, "" where there is none."""
    after: str
    """What the new block says around there, "" where there is none."""
    head_tokens: int
    """Tokens of the head that are billed once more."""
    session_tokens: int
    """Tokens of all live conversations, billed once more."""
    usd: float | None
    """Dollars beyond what reading them from cache would have cost; None for a model without a price."""

    @property
    def n_tokens(self) -> int:
        """Everything re-billed."""
        return self.head_tokens + self.session_tokens


def compare(was: LockedHead, now: LockedHead, live: Live) -> HeadChange | None:
    """What a deploy of `now` over `was` re-bills, None where the two are the same.

    The head is billed once where prompts of its size are shared between conversations, else once for each of them.
    """
    place = _first(was, now)
    if place is None:
        return None
    what, level, index = place
    behind = _behind(now, level, index)
    is_shared = now.n_tokens >= model_named(now.model).min_tokens
    n_heads = 1 if is_shared else max(1, live.n_sessions)
    path, offset, before, after = _window(was.prefix, now.prefix, index)
    usd = _extra(now, [(behind, n_heads), (live.session_tokens, live.n_sessions)])
    return HeadChange(what, path, offset, before, after, behind * n_heads, live.session_tokens * live.n_sessions, usd)


def _first(was: LockedHead, now: LockedHead) -> tuple[str, int, int | None] | None:
    """What differs first, the first level that is lost, and the index of the block, None where no block is to blame."""
    if (was.provider, was.wire, was.model) != (now.provider, now.wire, now.model):
        return f"the model (was {was.provider} {was.model}, now {now.provider} {now.model})", 0, None
    older, newer = _blocks(was), _blocks(now)
    shared = common_blocks(older, newer)
    index = None if shared == len(older) == len(newer) else shared
    keyed = next((level for level, (a, b) in enumerate(zip(was.keys, now.keys, strict=True)) if a != b), None)
    if index is not None and (keyed is None or keyed >= _level(was, now, index)):
        return _name(was, now, index), _level(was, now, index), index
    return None if keyed is None else (f"parameters that key the {LEVELS[keyed]}", keyed, None)


def _blocks(head: LockedHead) -> list[Block]:
    """The prefix as blocks of a request body."""
    blocks = []
    for block in head.prefix:
        kind = "tool" if block.level == "tools" else "text"
        blocks.append(Block(block.level, block.path, -1, block.name, kind, None, block.body, None))
    return blocks


def _level(was: LockedHead, now: LockedHead, index: int) -> int:
    return min(LEVELS.index(head.prefix[index].level) for head in (was, now) if index < len(head.prefix))


def _name(was: LockedHead, now: LockedHead, index: int) -> str:
    """What a person would call the block that differs, and what became of it."""
    old, new = (head.prefix[index] if index < len(head.prefix) else None for head in (was, now))
    names, before = [block.name for block in now.prefix], [block.name for block in was.prefix]
    if old is not None and old.level == "tools" and (new is None or new.level != "tools" or old.name != new.name):
        fate = "moved" if old.name in names else "removed"
        return (
            f"tool {new.name!r} added"
            if new is not None and new.name and new.name not in before
            else f"tool {old.name!r} {fate}"
        )
    if new is not None and new.level == "tools":
        return f"tool {new.name!r} {'changed' if new.name in before else 'added'}"
    return "the system prompt"


def _behind(now: LockedHead, level: int, index: int | None) -> int:
    """Tokens of the head from the block on, or from the level on.

    All of it where only marks are read, and it changed at all.
    """
    if level < _MESSAGES and model_named(now.model).cache == "breakpoints":
        return now.n_tokens
    blocks = (
        now.prefix[index:]
        if index is not None
        else [block for block in now.prefix if LEVELS.index(block.level) >= level]
    )
    return sum(block.n_tokens for block in blocks)


def _window(was: Sequence[LockedBlock], now: Sequence[LockedBlock], index: int | None) -> tuple[str, int, str, str]:
    if index is None:
        return "", 0, "", ""
    old, new = (blocks[index] if index < len(blocks) else None for blocks in (was, now))
    side = new or old
    return side.path if side else "", *difference(old.body if old else b"", new.body if new else b"")


def _extra(head: LockedHead, calls: list[tuple[int, int]]) -> float | None:
    """Dollars for writing (tokens, times) instead of reading them."""
    try:
        writes = bills_writes(head.provider, head.model)
        prices = [_price(head, n_tokens, writes) * times for n_tokens, times in calls if n_tokens]
    except UnknownModel:
        return None
    return sum(prices)


def _price(head: LockedHead, n_tokens: int, writes: bool) -> float:
    written = Usage(0, 0, n_tokens, 0, 0) if writes else Usage(n_tokens, 0, 0, 0, 0)
    paid, spared = (
        cost_usd(head.provider, head.model, usage) or 0.0 for usage in (written, Usage(0, n_tokens, 0, 0, 0))
    )
    return paid - spared
