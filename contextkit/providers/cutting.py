"""One block of a request body → one piece, remembered.

The client cuts what it renders, the server what it received; both come through here, so both count the same bytes. What was cut once
is kept by its bytes: a server that sees the same conversation 500 times cuts each block once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import UnreadableRequest
from contextkit.layout.normal_form import marker_of, normal
from contextkit.layout.segment import Level, Piece
from contextkit.layout.tokens import counter_for
from contextkit.models import model_named

_REMEMBERED = 1 << 16
"""Blocks kept; a long conversation has a few thousand."""


@dataclass(frozen=True, slots=True)
class Trait:
    """What a wire's table says about one type of block."""

    run: str = ""
    """Lookback run it belongs to."""
    is_markable: bool = True
    """Whether the wire accepts a marker on it."""
    is_thinking: bool = False
    """Whether it is reasoning that some models strip."""
    is_silent: bool = False
    """Whether it enters no digest of its own level."""
    flags: Callable[[Mapping[str, Json]], tuple[str, ...]] = field(default=lambda block: ())
    """Flags it raises, from the block."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A piece and the marker it came with."""

    piece: Piece
    marker: Json
    """The marker as sent, None where there was none."""


def cut(block: Json, level: Level, role: str, trait: Trait, model: str) -> Cut:
    """The piece `block` makes on `level`, counted for `model`; framing and turn marks are the caller's.

    Raises `NotSerialisable` for what JSON cannot carry.
    """
    return _cut(canonical(block), level, role, trait, model)


def framed(piece: Piece, opener: bytes, closer: bytes, *, is_turn: bool = False, entry: int = -1) -> Piece:
    """`piece` in the message it belongs to."""
    return replace(piece, opener=opener, closer=closer, is_turn=is_turn, entry=entry)


def expect(value: Json, kind: type | tuple[type, ...], path: str, what: str) -> Json:
    """`value` if it is of `kind`, else `UnreadableRequest` at `path`."""
    if not isinstance(value, kind):
        raise UnreadableRequest(path, f"Input should be {what}")
    return value


@lru_cache(maxsize=_REMEMBERED)
def _cut(raw: bytes, level: Level, role: str, trait: Trait, model: str) -> Cut:
    block = parse(raw)
    counter = counter_for(model_named(model))
    is_markable = trait.is_markable and not (isinstance(block, dict) and block.get("text") == "")
    flags = trait.flags(block) if isinstance(block, dict) else ()
    piece = Piece(
        level, role, canonical(normal(block)), counter.count(block), trait.run,
        is_markable=is_markable, is_thinking=trait.is_thinking, is_silent=trait.is_silent, flags=flags,
    )  # fmt: skip
    return Cut(piece, marker_of(block))
