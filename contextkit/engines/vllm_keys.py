"""What a block is cached under: a key that chains its parent's key, its tokens, and what else separates two equal token
runs.

Takes tokens and a prompt's marks, gives 64-bit integers; knows nothing of pools.

Documented (vLLM, "Automatic Prefix Caching"): only full blocks have a key; key(i) = H(key(i-1), tokens(i), extra(i));
extra holds the adapter (every block), the items that overlap the block with their offset from its start, and the salt
(first block only, the chain carries it on). Measured (vLLM 0.33.0): adapter name *and* path count, the numeric id does
not; no extra is its own namespace. Assumed: 64 bits of Python's tuple hash stand for the engine's SHA-256 — the same in
every process, since only integers go in — so two different blocks may meet with a chance of about n²/2⁶⁵, and somebody
who wants to can make them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

from contextkit.engines.token_ids import TokenIds

SEED = 0x5EED_B10C
"""Parent of the first block; fixed, as in vLLM 0.33.0 with a cryptographic hash, so keys agree between processes."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What changed between vLLM's versions."""

    is_unhashed_first: bool = True
    """Blocks without a key are re-used before all others (0.23.0 and later); before, they waited at the back like the
    rest."""
    is_adapter_path_in_key: bool = True
    """The adapter's path is in the key (0.31.0 and later); up to 0.30.0 only its name was."""
    is_last_token_matched: bool = True
    """The block that EAGLE matches and gives up may hold the prompt's last token (0.32.0 and later, with several
    groups)."""
    are_ends_cached: bool = True
    """A full group's block longer than a key is also cached where a prompt ends inside it (seen in 0.28.0, not in
    0.24.0)."""
    are_replays_kept: bool = True
    """With EAGLE, thinned groups keep the tails that a repeated and a continued prompt resume at (0.32.0 and later),
    not one past them."""


def rules_of(version: str) -> Rules:
    """The rules of a vLLM release.

    >>> rules_of("0.22.1").is_unhashed_first, rules_of("0.33.0").is_unhashed_first
    (False, True)
    """
    major, minor = (int(part) for part in version.removeprefix("v").split(".")[:2])
    release = (major, minor)
    return Rules(release >= (0, 23), release >= (0, 31), release >= (0, 32), release >= (0, 28), release >= (0, 32))


def extend(keys: list[int], tokens: Sequence[int], size: int, prompt: TokenIds, rules: Rules) -> None:
    """Append to `keys` those of the blocks that `tokens`, which begin behind the last keyed block, fill.

    >>> keys: list[int] = []
    >>> extend(keys, [5, 6, 7, 8, 9], 2, TokenIds(()), Rules())
    >>> len(keys)
    2
    """
    blocks = zip(*[iter(tokens)] * size, strict=False)  # whole blocks only: zip stops where one is cut
    if prompt.adapter or prompt.items or (prompt.salt and not keys):
        _extend_marked(keys, blocks, size, prompt, rules)
        return
    parent = keys[-1] if keys else SEED
    append = keys.append
    for block in blocks:
        parent = hash((parent, block))
        append(parent)


def _extend_marked(
    keys: list[int], blocks: Iterable[tuple[int, ...]], size: int, prompt: TokenIds, rules: Rules
) -> None:
    parent = keys[-1] if keys else SEED
    for index, block in enumerate(blocks, len(keys)):
        extra = extras(prompt, index * size, size, rules)
        parent = hash((parent, block, _number(extra))) if extra else hash((parent, block))
        keys.append(parent)


def extras(prompt: TokenIds, start: int, size: int, rules: Rules) -> tuple[object, ...]:
    """Return what besides the tokens is in the key of the block that starts at token `start`.

    >>> extras(TokenIds((), salt="a"), 0, 16, Rules()), extras(TokenIds((), salt="a"), 16, 16, Rules())
    (('salt', 'a'), ())
    """
    adapter = prompt.adapter
    of_adapter = (
        () if adapter is None else ("adapter", adapter.name, adapter.path if rules.is_adapter_path_in_key else "")
    )
    of_items = tuple(
        (item.digest, item.offset - start) for item in prompt.items if _overlaps(item.offset, item.length, start, size)
    )
    of_salt = ("salt", prompt.salt) if prompt.salt and start == 0 else ()
    return (*of_adapter, *of_items, *of_salt)


def _overlaps(offset: int, length: int, start: int, size: int) -> bool:
    return offset < start + size and start < offset + length


def _number(extra: tuple[object, ...]) -> int:
    """An integer for strings and numbers: Python's own hash of a string differs from process to process."""
    return int.from_bytes(blake2b(repr(extra).encode(), digest_size=7).digest())


def coarser(keys: Sequence[int], ratio: int) -> Sequence[int]:
    """Keys of blocks `ratio` times as long: a chain's every `ratio`-th key stands for all before it.

    >>> coarser([1, 2, 3, 4, 5], 2)
    [2, 4]
    """
    return keys if ratio == 1 else list(islice(keys, ratio - 1, None, ratio))
