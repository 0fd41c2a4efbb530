"""What the documented rules bill, worked out from the bytes that were sent and from nothing else.

Slow and obvious: every body is read from scratch, every block is spelled and hashed along with all before it, every
entry is looked up by hand. Nothing of contextkit is used but its token counter, so that both sides weigh a block alike.

Rules: platform.claude.com "Prompt caching"; OpenAI "Prompt caching" guide, gpt-5.6 and later, and `openai.types` 3.52.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from contextkit.models import model_named
from contextkit.prompt.tokens import counter_for

MARKS = ("cache_control", "prompt_cache_breakpoint")
ORDERED = ("input", "input_schema", "parameters", "arguments")
"""Keys whose values are shown to the model in the order they were written."""
A_MESSAGE = 3
"""Tokens that the opening of a message counts as."""
CLAUDE_MINIMUM = {"claude-opus-4-5": 4096}
CLAUDE_TOOL_PROMPT = {"claude-opus-4-5": 496}
"""Tokens of the system prompt that the provider adds to a request with tools."""
OPENAI_MINIMUM = 1024
ANTHROPIC_NEUTRAL = {"model", "max_tokens", "stream", "tools", "system", "messages"}
OPENAI_NEUTRAL = {"stream", "stream_options", "store", "include", "tools", "messages", "input"}


@dataclass
class Block:
    """One block of a prompt, in order."""

    level: str
    """tools, system or messages."""
    value: Any
    opens: str
    """Who speaks, where it opens a message; "" where it goes on with one."""
    kind: str
    """Its type, or the role of its message."""
    mark: Any
    """The marker on it, None without."""
    key: str = ""
    """Hash of everything up to and including it."""
    tokens: int = 0
    """Tokens up to and including it."""


@dataclass
class Stored:
    """One cached prefix."""

    ttl: float
    expires: float


@dataclass
class Oracle:
    """A provider's cache, by the book. Requests come one after the other."""

    wire: str
    stored: dict[str, Stored] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def bill(self, body: bytes, now: float, begins: bool) -> tuple[int, int, int, int]:
        """(fresh, read, short writes, long writes) of a request that starts `now`.

        Unless its reply `begins` it leaves nothing.
        """
        request = json.loads(body)
        blocks = list(BLOCKS[self.wire](request))
        self._weigh(blocks, request)
        looked_up, written = RULES[self.wire](blocks, request["model"])
        hit = max((index for index in looked_up if self._is_live(blocks[index].key, now)), default=None)
        read = 0 if hit is None else blocks[hit].tokens
        if hit is not None:
            for index in {hit, *(index for index, _ in written if index <= hit)}:
                self._touch(blocks[index].key, now)
        if begins:
            for index, ttl in written:
                self._store(blocks[index].key, ttl, now)
        return split(blocks[-1].tokens, read, [(blocks[index].tokens, ttl) for index, ttl in written])

    def _weigh(self, blocks: list[Block], request: dict[str, Any]) -> None:
        """Fill in what stands before each block: its hash, and its tokens."""
        counter, so_far, tokens = counter_for(model_named(request["model"])), "", 0
        keyed = {
            level: json.dumps(settings(self.wire, request, level, blocks)) for level in ("tools", "system", "messages")
        }
        if any(block.level == "tools" for block in blocks):
            tokens = CLAUDE_TOOL_PROMPT.get(request["model"], 0)
        for block in blocks:
            spelled = json.dumps(spell(block.value))
            if spelled not in self.sizes:
                self.sizes[spelled] = counter.count(block.value)
            tokens += self.sizes[spelled] + (A_MESSAGE if block.opens else 0)
            so_far = sha(so_far, block.level, block.opens, spelled)
            block.key, block.tokens = sha(keyed[block.level], so_far), tokens

    def _is_live(self, key: str, now: float) -> bool:
        return key in self.stored and now < self.stored[key].expires

    def _touch(self, key: str, now: float) -> None:
        if self._is_live(key, now):
            self.stored[key].expires = max(self.stored[key].expires, now + self.stored[key].ttl)

    def _store(self, key: str, ttl: float, now: float) -> None:
        longest = max(ttl, self.stored[key].ttl) if self._is_live(key, now) else ttl
        self.stored[key] = Stored(longest, now + longest)


def split(total: int, read: int, written: list[tuple[int, float]]) -> tuple[int, int, int, int]:
    """Read up to the hit, long writes up to the last long mark behind it, short ones up to the last mark, the rest in
    full."""
    long_end = max([read, *(tokens for tokens, ttl in written if ttl in (3600, 43200))])
    end = max([long_end, *(tokens for tokens, _ in written)])
    return total - end, read, end - long_end, long_end - read


def sha(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def spell(value: Any) -> Any:
    """A block as the provider sees it: no markers, no order among its fields but where a model or an author chose one."""
    if isinstance(value, dict):
        return {key: value[key] if key in ORDERED else spell(value[key]) for key in sorted(value) if key not in MARKS}
    return [spell(item) for item in value] if isinstance(value, list) else value


def mark_on(block: dict[str, Any]) -> Any:
    return next((block[name] for name in MARKS if name in block), None)


# Reading a body
# ----------------------------------------------------------------------------------------------------------------------


def anthropic_blocks(request: dict[str, Any]) -> Iterator[Block]:
    """Tools, system, messages; messages of one speaker in a row are one."""
    for tool in request.get("tools", []):
        yield Block("tools", tool, "", "tool", mark_on(tool))
    for block in request.get("system", []):
        yield Block("system", block, "", block["type"], mark_on(block))
    speaker = None
    for message in request["messages"]:
        for block in message["content"]:
            yield Block(
                "messages", block, "" if message["role"] == speaker else message["role"], block["type"], mark_on(block)
            )
            speaker = message["role"]


def chat_blocks(request: dict[str, Any]) -> Iterator[Block]:
    for tool in request.get("tools", []):
        yield Block("tools", tool, "", "tool", None)
    yield from spoken(request["messages"], lambda message: message["role"])


def responses_blocks(request: dict[str, Any]) -> Iterator[Block]:
    for tool in request.get("tools", []):
        yield Block("tools", tool, "", "tool", None)
    yield from spoken(
        request["input"], lambda item: item["type"] if item.get("type", "message") != "message" else item["role"]
    )


def spoken(messages: list[dict[str, Any]], kind_of: Any) -> Iterator[Block]:
    """What developers and users say, part by part.

    Everything else whole. The developer's first messages are the system prompt.
    """
    level = "system"
    for message in messages:
        kind = kind_of(message)
        level = level if kind == "developer" else "messages"
        if kind not in ("developer", "user"):
            yield Block(level, message, kind, kind, None)
            continue
        for index, part in enumerate(message["content"]):
            yield Block(level, part, "" if index else kind, kind, mark_on(part))


BLOCKS = {"anthropic_messages": anthropic_blocks, "openai_chat": chat_blocks, "openai_responses": responses_blocks}


def settings(wire: str, request: dict[str, Any], level: str, blocks: list[Block]) -> Any:
    """What besides the text must be the same: for Claude the model everywhere and the rest for messages only, for
    OpenAI everything."""
    if wire != "anthropic_messages":
        return {name: value for name, value in sorted(request.items()) if name not in OPENAI_NEUTRAL}
    given = {name: value for name, value in sorted(request.items()) if name not in ANTHROPIC_NEUTRAL}
    return [request["model"], *([given, any(map(has_image, blocks))] if level == "messages" else [])]


def has_image(block: Block) -> bool:
    inside = block.value.get("content", []) if block.kind == "tool_result" else [block.value]
    return any(part.get("type") == "image" for part in inside)


# Where a cache is looked up, and where it is written
# -----------------------------------------------------------------------------------


def anthropic_rules(blocks: list[Block], model: str) -> tuple[set[int], list[tuple[int, float]]]:
    """A marker writes, and looks back over twenty positions; a run of tool calls, or of results, is one position."""
    position, positions = 0, []
    for index, block in enumerate(blocks):
        is_run = index and block.kind in ("tool_use", "tool_result") and block.kind == blocks[index - 1].kind
        position += 0 if is_run else 1
        positions.append(position)
    marks = [index for index, block in enumerate(blocks) if block.mark]
    looked_up = {index for mark in marks for index in range(mark + 1) if positions[mark] - positions[index] < 20}
    written = [(mark, 3600.0 if blocks[mark].mark.get("ttl") == "1h" else 300.0) for mark in marks]
    return long_enough(blocks, looked_up, written, CLAUDE_MINIMUM[model])


def long_enough(
    blocks: list[Block], looked_up: set[int], written: list[tuple[int, float]], least: int
) -> tuple[set[int], list[tuple[int, float]]]:
    """Shorter prefixes are neither read nor written."""
    return {i for i in looked_up if blocks[i].tokens >= least}, [
        (i, ttl) for i, ttl in written if blocks[i].tokens >= least
    ]


def openai_rules(blocks: list[Block], model: str) -> tuple[set[int], list[tuple[int, float]]]:
    """Implicit mode: the latest eligible ending and the latest three marks are written.

    Twenty earlier endings, the first two marks, the latest fifty and the end of the developer's first messages are
    looked up.
    """
    marks = [index for index, block in enumerate(blocks) if block.mark]
    ends = [index for index in range(len(blocks)) if is_ending(blocks, index)]
    heads = [index for index, block in enumerate(blocks) if block.level == "system"][-1:]
    looked_up = {*ends[-21:], *marks[:2], *marks[-50:], *heads}
    written = [(index, 1800.0) for index in sorted({*ends[-1:], *marks[-3:]})]
    return long_enough(blocks, looked_up, written, OPENAI_MINIMUM)


def is_ending(blocks: list[Block], index: int) -> bool:
    """A user message's last part, the last of tool outputs in a row, the last of the developer's first messages."""
    this, after = blocks[index], blocks[index + 1] if index + 1 < len(blocks) else None
    if this.kind == "user":
        return after is None or bool(after.opens)
    if this.kind in ("tool", "function_call_output"):
        return after is None or after.kind != this.kind
    return this.level == "system" and (after is None or after.level != "system")


RULES = {"anthropic_messages": anthropic_rules, "openai_chat": openai_rules, "openai_responses": openai_rules}
