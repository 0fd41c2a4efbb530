"""One block of a request body → one piece, remembered.

The client cuts what it renders, the server what it received; both come through here, so both count the same bytes. What
was cut once is kept by its bytes: a server that sees the same conversation 500 times cuts each block once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import UnreadableRequest
from contextkit.layout.normal_form import marker_of, normal
from contextkit.layout.segment import Level, Piece
from contextkit.layout.tokens import counter_for
from contextkit.models import model_named


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
    is_passing: bool = False
    """Whether it leaves the prompt when a user message follows."""
    flags: Callable[[Mapping[str, Json]], tuple[str, ...]] = field(default=lambda block: ())
    """Flags it raises, from the block."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A piece and the marker it came with."""

    piece: Piece
    marker: Json
    """The marker as sent, None where there was none."""


_Key = tuple[bytes, Level, str, Trait, str, tuple[bytes, bytes], bool]
"""Everything a piece is made from."""


def cut(
    block: Json,
    level: Level,
    role: str,
    trait: Trait,
    model: str,
    frame: tuple[bytes, bytes] = (b"", b""),
    *,
    is_turn: bool = False,
) -> Cut:
    """The piece `block` makes on `level`, counted for `model`, in the message that `frame` opens and closes.

    Raises `NotSerialisable` for what JSON cannot carry.
    """
    raw = canonical(block)
    if not _budget_bytes:
        return _cut(raw, level, role, trait, model, frame, is_turn)
    key = (raw, level, role, trait, model, frame, is_turn)
    found = _MEMO.get(key)
    return found if found is not None else _keep(key, _cut(*key))


def remember(n_bytes: int) -> None:
    """Keep what is cut from now on, up to `n_bytes` of blocks: for whoever is sent the same conversations again and
    again.

    A client cuts each block once and keeps it on its track; it needs no memo and has none.
    """
    global _budget_bytes  # noqa: PLW0603 - the one memo of a process
    _budget_bytes = max(_budget_bytes, n_bytes)


def expect(value: Json, kind: type | tuple[type, ...], path: str, what: str) -> Json:
    """`value` if it is of `kind`, else `UnreadableRequest` at `path`."""
    if not isinstance(value, kind):
        raise UnreadableRequest(path, f"Input should be {what}")
    return value


_MEMO: dict[_Key, Cut] = {}
_memo_bytes = 0
_budget_bytes = 0


def _keep(key: _Key, made: Cut) -> Cut:
    """Keep what was cut; a full memo starts anew, which costs one more cut of what is still in use."""
    global _memo_bytes  # noqa: PLW0603 - the one counter of a process-wide memo
    size = len(key[0]) + len(made.piece.body)
    if _memo_bytes + size > _budget_bytes:
        _MEMO.clear()
        _memo_bytes = 0
    _MEMO[key] = made
    _memo_bytes += size
    return made


def _cut(
    raw: bytes, level: Level, role: str, trait: Trait, model: str, frame: tuple[bytes, bytes], is_turn: bool
) -> Cut:
    block = parse(raw)
    counter = counter_for(model_named(model))
    is_markable = trait.is_markable and not (isinstance(block, dict) and block.get("text") == "")
    flags = trait.flags(block) if isinstance(block, dict) else ()
    piece = Piece(
        level,
        role,
        canonical(normal(block)),
        counter.count(block),
        trait.run,
        frame[0],
        frame[1],
        is_markable=is_markable,
        is_thinking=trait.is_thinking,
        is_turn=is_turn,
        is_silent=trait.is_silent,
        is_passing=trait.is_passing,
        flags=flags,
    )
    return Cut(piece, marker_of(block))
