"""A block of any endpoint as the cache keys it: `render_block` is the only code that makes a `RenderedBlock`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import UnreadableRequest
from contextkit.models import model_named
from contextkit.prompt.normal_form import marker_of, normal
from contextkit.prompt.prompt import Level, RenderedBlock
from contextkit.prompt.tokens import counter_for


@dataclass(frozen=True, slots=True)
class Trait:
    """What the cache makes of one type of block, by the table of an endpoint."""

    run: str = ""
    """Lookback run it belongs to."""
    can_hold_breakpoint: bool = True
    """Whether the endpoint accepts a marker on it."""
    is_thinking: bool = False
    """Whether it is reasoning that some models strip."""
    is_silent: bool = False
    """Whether it enters no digest of its own level."""
    is_passing: bool = False
    """Whether it leaves the prompt when a user message follows."""
    flags: Callable[[Mapping[str, Json]], tuple[str, ...]] = field(default=lambda block: ())
    """Flags it raises, from the block."""


_Key = tuple[bytes, Level, str, Trait, str, tuple[bytes, bytes], bool, int]
"""Everything a rendered block depends on."""


def render_block(
    block: Json,
    level: Level,
    role: str,
    trait: Trait,
    model: str,
    frame: tuple[bytes, bytes] = (b"", b""),
    *,
    is_turn: bool = False,
    entry: int = -1,
    is_parsed: bool = False,
) -> RenderedBlock:
    """Render `block` on `level`, counted for `model`, in the message that `frame` opens and closes.

    `entry` is the sequence of the log entry that it comes from; `is_parsed` says that it was read from JSON, as what a
    log holds is, so that it need not be written and read to be what JSON can carry.

    The only code that makes a `RenderedBlock`: adapters call it for what they render, `parse` for what was received, so
    both count and key the same bytes. Raises `NotSerialisable` for what JSON cannot carry.
    """
    global _memo_bytes  # noqa: PLW0603 - the one counter of a process-wide memo
    if is_parsed or not _budget_bytes:
        value = block if is_parsed else parse(canonical(block))
        return _render(value, level, role, trait, model, frame, is_turn, entry)
    key = (canonical(block), level, role, trait, model, frame, is_turn, entry)
    rendered = _MEMO.get(key)
    if rendered is None:
        rendered = _render(parse(key[0]), *key[1:])
        size = len(key[0]) + len(rendered.body)
        if _memo_bytes + size > _budget_bytes:  # a full memo starts anew: what is still in use is rendered once more
            _MEMO.clear()
            _memo_bytes = 0
        _MEMO[key] = rendered
        _memo_bytes += size
    return rendered


def memoize_blocks(n_bytes: int) -> None:
    """Memoize rendered blocks from now on, up to `n_bytes`: for programs that receive the same conversations again.

    What is rendered from a log is rendered once, so it is not in the memo.
    """
    global _budget_bytes  # noqa: PLW0603 - the one memo of a process
    _budget_bytes = max(_budget_bytes, n_bytes)


def expect(value: Json, kind: type | tuple[type, ...], path: str, what: str) -> Json:
    """`value` if it is of `kind`, else `UnreadableRequest` at `path`."""
    if not isinstance(value, kind):
        raise UnreadableRequest(path, f"Input should be {what}")
    return value


_MEMO: dict[_Key, RenderedBlock] = {}


_memo_bytes = 0


_budget_bytes = 0


def _render(
    block: Json,
    level: Level,
    role: str,
    trait: Trait,
    model: str,
    frame: tuple[bytes, bytes],
    is_turn: bool,
    entry: int,
) -> RenderedBlock:
    is_empty_text = isinstance(block, dict) and block.get("text") == ""
    return RenderedBlock(
        level,
        role,
        canonical(normal(block)),
        counter_for(model_named(model)).count(block),
        trait.run,
        frame[0],
        frame[1],
        can_hold_breakpoint=trait.can_hold_breakpoint and not is_empty_text,
        is_thinking=trait.is_thinking,
        is_turn=is_turn,
        is_silent=trait.is_silent,
        is_passing=trait.is_passing,
        flags=trait.flags(block) if isinstance(block, dict) else (),
        entry=entry,
        marker=marker_of(block),
    )
