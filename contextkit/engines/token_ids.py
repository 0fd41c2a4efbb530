"""Prompts as an engine reads them: token ids, or ids of blocks that are hashed already, and token ids as memory.

Comparing two long prompts is comparing memory, four bytes a token. An `array("i")` or any other buffer of 32-bit
integers is taken as it is; a list or a range is converted, which costs more than the comparison.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from contextkit.errors import UsageError


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter."""

    name: str
    """Its name."""
    path: str
    """Where its weights lie: the same name under another path is another adapter."""


@dataclass(frozen=True, slots=True)
class Item:
    """An image, a sound, a video: placeholder tokens that stand for one thing."""

    offset: int
    """Index of its first placeholder token."""
    length: int
    """How many placeholder tokens it takes."""
    digest: str
    """What the thing is known by."""


@dataclass(frozen=True, slots=True)
class TokenIds:
    """A prompt as token ids, with what else decides whether its blocks may be shared."""

    tokens: Sequence[int]
    """Token ids, from the front."""
    adapter: Adapter | None = None
    """The LoRA adapter it runs under."""
    items: tuple[Item, ...] = ()
    """In rising order of offset."""
    salt: str | None = None
    """Separates one tenant's cache from another's; empty is as good as none."""
    is_read_skipped: bool = False
    """Whether it reads nothing from the cache (it wants log probabilities of its prompt); it still writes."""


@dataclass(frozen=True, slots=True)
class BlockIds:
    """A prompt as block ids; equal ids at equal places mean equal blocks."""

    size: int
    """Tokens in a block."""
    ids: Sequence[int]
    """One id a block, from the front."""


N_BYTES = array("i").itemsize
"""Bytes of one token: 4 wherever CPython runs."""
_FORMATS = {"i", "I"}
"""Buffers that are 32-bit integers already."""


def pack(tokens: Sequence[int]) -> bytes:
    """The tokens' memory; raises `UsageError` for what is not a 32-bit integer.

    >>> len(pack([1, 2, 3])), pack(array("i", [1, 2])) == pack(range(1, 3))
    (12, True)
    """
    if getattr(tokens, "typecode", "") in _FORMATS:
        return memoryview(tokens).tobytes()  # type: ignore[arg-type]
    try:
        return array("i", tokens).tobytes()
    except (OverflowError, TypeError) as error:
        raise UsageError(
            f"token ids are 32-bit integers, and one of {len(tokens)} is not ({error}): pass the tokenizer's ids"
        ) from error


def view(tokens: Sequence[int]) -> memoryview:
    """The tokens' memory without a copy where it is 32-bit integers already, else of `pack`.

    Raises `UsageError` as that does.

    Let go of it before the caller goes on: as long as somebody holds it, an `array` cannot grow.

    >>> view(array("i", [1, 2])).tobytes() == pack([1, 2]), view([1, 2]).nbytes
    (True, 8)
    """
    if getattr(tokens, "typecode", "") in _FORMATS:
        return memoryview(tokens).cast("B")  # type: ignore[arg-type]
    return memoryview(pack(tokens))


def packed_view(prompt: TokenIds) -> memoryview:
    """Return what `packed_bytes` gives, without a copy where the prompt holds no images or sounds and `view` makes
    none.
    """
    return memoryview(packed_bytes(prompt)) if prompt.items else view(prompt.tokens)


def packed_bytes(prompt: TokenIds) -> bytes:
    """The prompt's memory, each placeholder token of an image or sound standing for the thing itself.

    >>> one, other = (TokenIds([7, 7], items=(Item(0, 2, digest),)) for digest in "ab")
    >>> packed_bytes(one) == packed_bytes(other), packed_bytes(TokenIds([7, 7])) == pack([7, 7])
    (False, True)
    """
    if not prompt.items:
        return pack(prompt.tokens)
    tokens = array("i", prompt.tokens)
    for item in prompt.items:
        tokens[item.offset : item.offset + item.length] = array("i", [_stand_in(item)]) * item.length
    return tokens.tobytes()


def _stand_in(item: Item) -> int:
    """A negative number, so that no vocabulary holds it."""
    return -1 - (int.from_bytes(blake2b(item.digest.encode(), digest_size=4).digest()) >> 1)


def bigrams(data: bytes | memoryview) -> bytes:
    """Each token with the one after it: n tokens give n - 1 units of two tokens.

    >>> array("i", bigrams(pack([1, 2, 3]))).tolist()
    [1, 2, 2, 3]
    """
    tokens = array("i", bytes(data))
    pairs = array("i", bytes(2 * max(0, len(data) - N_BYTES)))
    pairs[0::2], pairs[1::2] = tokens[:-1], tokens[1:]
    return pairs.tobytes()


def shared(one: bytes, at: int, other: bytes | memoryview, start: int, limit: int, step: int) -> int:
    """Bytes, in whole steps and at most `limit`, that are equal in `one` from `at` and in `other` (bytes, or a view of
    bytes) from `start`.

    Each look is one comparison of memory, and there are log2(limit / step) of them.

    >>> shared(b"xxabcdef", 2, b"abcdXf", 0, 6, 2), shared(b"ab", 0, b"ab", 0, 2, 1)
    (4, 2)
    """
    memory = memoryview(other)
    if one.startswith(memory[start : start + limit], at):
        return limit - limit % step
    low, high = 0, limit // step
    while low < high:
        middle = (low + high + 1) // 2
        if one.startswith(memory[start + low * step : start + middle * step], at + low * step):
            low = middle
        else:
            high = middle - 1
    return low * step
