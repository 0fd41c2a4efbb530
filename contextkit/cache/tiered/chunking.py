"""A prompt cut into chunks, each with the key a tier stores it under.

Takes token ids or block ids, gives chunks; knows nothing of tiers. A chunk's key is chained to the key before it, so
two prompts have equal keys at a place exactly when they agree up to there. Its content is a key without that chain, for
re-use at another place.

Executed on LMCache 0.5.6: chunks of 256 tokens, the last one only if it is full unless `save_unfull_chunk`; a hit on
the whole prompt reads one token less; the chunk's key holds model and tokens only, not the adapter
(`is_isolating=False`). SGLang's lower tiers chain from extra key and salt (`is_isolating=True`). Documented for
CacheBlend in LMCache: segments end at a separator and are known by their own tokens, from 256 tokens on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Protocol, TypeVar

from contextkit.cache.block.ids import BlockIds, TokenIds
from contextkit.cache.packed import N_BYTES, pack, spelled

P = TypeVar("P", contravariant=True)
_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a prompt that is stored as one."""

    key: bytes
    """Stands for everything up to and including it; equal to `content` for one that is known by its own tokens only."""
    content: bytes
    """Stands for its own tokens wherever they are; empty where it may not be re-used elsewhere."""
    n_tokens: int
    """Its size in tokens."""
    n_bytes: int
    """Its size in memory."""


@dataclass(frozen=True, slots=True)
class Reuse:
    """Re-use of a chunk behind another beginning (CacheBlend, arXiv 2405.16444): approximate, so never a hit."""

    recompute_share: float = 0.15
    """Share of its tokens that is computed again, rounded up."""
    min_tokens: int = 256
    """Shorter chunks are not re-used."""


class Chunking(Protocol[P]):
    """How one kind of prompt is cut."""

    @property
    def reuse(self) -> Reuse | None:
        """Whether and how chunks are re-used at another place."""
        ...

    def chunks(self, prompt: P) -> list[Chunk]:
        """What of the prompt is stored, from the front."""
        ...

    def n_tokens(self, prompt: P) -> int:
        """Its size."""
        ...

    def n_readable(self, prompt: P) -> int:
        """How many of its tokens may be read."""
        ...


@dataclass(frozen=True, slots=True)
class TokenChunks:
    """Token ids in chunks of one size, or in segments that end at a separator.

    >>> [chunk.n_tokens for chunk in TokenChunks(1, saves_partial=True).chunks(TokenIds(range(600)))]
    [256, 256, 88]
    >>> [chunk.n_tokens for chunk in TokenChunks(1, separator=(0, 0)).chunks(TokenIds([5, 6, 0, 0, 7, 0, 0, 8]))]
    [4, 3]
    """

    bytes_per_token: int
    """Memory of one token's keys and values, all layers; 131,072 for Llama-3.1-8B in 16 bits."""
    size: int = 256
    """Tokens in a chunk."""
    saves_partial: bool = False
    """Whether what is left at the end is a chunk too."""
    separator: tuple[int, ...] = ()
    """Tokens that end a segment; empty for chunks of one size."""
    is_isolating: bool = True
    """Whether the adapter and the salt are part of the key."""
    namespace: bytes = b""
    """What else must be equal: the model, its precision, the part of it an instance runs."""
    reuse: Reuse | None = None
    """Whether and how chunks are re-used at another place."""

    def chunks(self, prompt: TokenIds) -> list[Chunk]:
        """What of the prompt is stored, from the front."""
        data = spelled(prompt)
        ends = [0, *(self._separated(data) if self.separator else range(self.size, len(prompt.tokens) + 1, self.size))]
        if self.saves_partial and ends[-1] < len(prompt.tokens):
            ends.append(len(prompt.tokens))
        pieces = ((end - start, data[start * N_BYTES : end * N_BYTES]) for start, end in pairwise(ends))
        return _chained(self._root(prompt), pieces, self.bytes_per_token, self.reuse)

    def n_tokens(self, prompt: TokenIds) -> int:
        """Its size."""
        return len(prompt.tokens)

    def n_readable(self, prompt: TokenIds) -> int:
        """All but the last token, whose logits are wanted; nothing where the prompt reads nothing."""
        return 0 if prompt.is_read_skipped else max(0, len(prompt.tokens) - 1)

    def _separated(self, data: bytes) -> Iterator[int]:
        """Where segments end, the separator included."""
        mark, at = pack(self.separator), 0
        while (found := data.find(mark, at)) >= 0:
            at = found + 1
            if found % N_BYTES == 0:
                at = found + len(mark)
                yield at // N_BYTES

    def _root(self, prompt: TokenIds) -> bytes:
        adapter = (prompt.adapter.name, prompt.adapter.path) if prompt.adapter else None
        return repr((self.namespace, (adapter, prompt.salt or None) if self.is_isolating else None)).encode()


@dataclass(frozen=True, slots=True)
class BlockChunks:
    """Block ids, so and so many to a chunk.

    >>> [chunk.n_tokens for chunk in BlockChunks(1, n_blocks=2).chunks(BlockIds(16, [4, 5, 6]))]
    [32]
    """

    bytes_per_token: int
    """Memory of one token's keys and values, all layers."""
    n_blocks: int = 1
    """Blocks in a chunk."""
    saves_partial: bool = False
    """Whether what is left at the end is a chunk too."""
    namespace: bytes = b""
    """What else must be equal."""
    reuse: Reuse | None = None
    """Whether and how chunks are re-used at another place; only where an id stands for its own tokens, not for all
    before it."""

    def chunks(self, prompt: BlockIds) -> list[Chunk]:
        """What of the prompt is stored, from the front."""
        n_stored = len(prompt.ids) if self.saves_partial else len(prompt.ids) // self.n_blocks * self.n_blocks
        groups = (prompt.ids[at : min(at + self.n_blocks, n_stored)] for at in range(0, n_stored, self.n_blocks))
        pieces = ((len(ids) * prompt.size, array("q", ids).tobytes()) for ids in groups)
        return _chained(repr((self.namespace, prompt.size)).encode(), pieces, self.bytes_per_token, self.reuse)

    def n_tokens(self, prompt: BlockIds) -> int:
        """Its size, every id a full block."""
        return prompt.size * len(prompt.ids)

    def n_readable(self, prompt: BlockIds) -> int:
        """All of it."""
        return self.n_tokens(prompt)


def _chained(
    root: bytes, pieces: Iterator[tuple[int, bytes]], bytes_per_token: int, reuse: Reuse | None
) -> list[Chunk]:
    alone = _digest(b"alone", root)
    key, chunks = _digest(b"chain", root), []
    for n_tokens, data in pieces:
        key = _digest(key, data)
        content = _digest(alone, data) if reuse and n_tokens >= reuse.min_tokens else b""
        chunks.append(Chunk(key, content, n_tokens, n_tokens * bytes_per_token))
    return chunks


def _digest(before: bytes, data: bytes) -> bytes:
    return blake2b(before + data, digest_size=_KEY_BYTES).digest()
