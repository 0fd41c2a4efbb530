"""What the token path is timed against: vLLM V1's own way, restated plainly — an object a block, a linked list, SHA-256
over a pickle.

Full attention, one group, no adapter, image or salt. It does for each block what the engine's source does for each
block (asks for extra keys, tags the hash with its group, guards the hash by a property, checks for the null block), and
leaves out its logging, events, metrics, scheduler and per-request wrappers, so a ratio to it errs on the careful side.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from itertools import islice
from typing import Any

SEED = b"\0" * 32


class Block:
    """One block and its place in the queue."""

    __slots__ = ("_hash", "block_id", "is_null", "next_free", "previous_free", "ref_cnt")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_cnt = 0
        self.is_null = block_id == 0
        self._hash: bytes | None = None
        self.previous_free: Block | None = None
        self.next_free: Block | None = None

    @property
    def block_hash(self) -> bytes | None:
        return self._hash

    @block_hash.setter
    def block_hash(self, value: bytes) -> None:
        assert self._hash is None, "a cached block is never cached again"
        self._hash = value

    def reset_hash(self) -> None:
        self._hash = None


class Request:
    """What the hasher asks about."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = tokens
        self.items: list[tuple[str, int, int]] = []
        self.adapter: str | None = None
        self.salt: str | None = None
        self.embeds: bytes | None = None


def item_keys(request: Request, start: int, end: int, item: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    if not request.items:
        return found, item
    while item < len(request.items) and end > request.items[item][1]:
        name, offset, length = request.items[item]
        if start < offset + length:
            found.append((name, offset - start))
            if end < offset + length:
                break
        item += 1
    return found, item


def adapter_keys(request: Request) -> list[str]:
    return [request.adapter] if request.adapter else []


def embeds_keys(request: Request, start: int, end: int) -> list[bytes]:
    return [hashlib.sha256(request.embeds[start:end]).digest()] if request.embeds is not None else []


def extra_keys(request: Request, start: int, end: int, item: int) -> tuple[tuple[Any, ...] | None, int]:
    of_items, item = item_keys(request, start, end, item)
    of_salt = [request.salt] if start == 0 and request.salt else []
    extra: list[Any] = adapter_keys(request) + of_items + of_salt + embeds_keys(request, start, end)
    return (tuple(extra), item) if extra else (None, item)


def sha256(value: object) -> bytes:
    return hashlib.sha256(pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)).digest()


def hash_block(parent: bytes, tokens: Sequence[int], extra: tuple[Any, ...] | None) -> bytes:
    return sha256((parent or SEED, tuple(tokens), extra))


def tagged(block_hash: bytes, group: int) -> bytes:
    return block_hash + group.to_bytes(4, "big", signed=False)


class FreeQueue:
    """A doubly linked list through the blocks themselves."""

    def __init__(self, blocks: list[Block]) -> None:
        self.n = 0
        self.head, self.tail = Block(-1), Block(-1)
        self.head.next_free, self.tail.previous_free = self.tail, self.head
        self.append_n(blocks)

    def popleft_n(self, n: int) -> list[Block]:
        self.n -= n
        taken, current = [], self.head.next_free
        for _ in range(n):
            assert current is not None
            taken.append(current)
            last, current = current, current.next_free
            last.previous_free = last.next_free = None
        if current is not None:
            self.head.next_free, current.previous_free = current, self.head
        return taken

    def remove(self, block: Block) -> None:
        before, after = block.previous_free, block.next_free
        assert before is not None and after is not None
        before.next_free, after.previous_free = after, before
        block.previous_free = block.next_free = None
        self.n -= 1

    def append_n(self, blocks: list[Block]) -> None:
        self._link(self.tail.previous_free, blocks, self.tail)

    def prepend_n(self, blocks: list[Block]) -> None:
        self._link(self.head, blocks, self.head.next_free)

    def _link(self, before: Block | None, blocks: list[Block], after: Block | None) -> None:
        assert before is not None and after is not None
        self.n += len(blocks)
        for block in blocks:
            block.previous_free, before.next_free = before, block
            before = block
        before.next_free, after.previous_free = after, before


class Vllm:
    """Pool, hash map and one full-attention manager."""

    def __init__(self, n_blocks: int, size: int) -> None:
        self.size = size
        self.blocks = [Block(number) for number in range(n_blocks)]
        self.queue = FreeQueue(self.blocks)
        self.queue.popleft_n(1)
        self.map: dict[bytes, Block | dict[int, Block]] = {}
        self.n_evicted = 0

    def hashes(self, request: Request) -> list[bytes]:
        parent, found, item = b"", [], 0
        start = 0
        while start + self.size <= len(request.tokens):
            end = start + self.size
            extra, item = extra_keys(request, start, end, item)
            parent = hash_block(parent, request.tokens[start:end], extra)
            found.append(parent)
            start = end
        return found

    def run(self, tokens: Sequence[int]) -> int:
        """One request from its lookup to its end; gives the tokens that were hit."""
        hashes = self.hashes(Request(tokens))
        hits = self.lookup(hashes, (len(tokens) - 1) // self.size)
        table = self.allocate(hashes, hits, -(-len(tokens) // self.size))
        self.free(table)
        return len(hits) * self.size

    def lookup(self, hashes: list[bytes], limit: int) -> list[Block]:
        found = []
        for block_hash in islice(hashes, limit):
            blocks = self.get(block_hash, (0,))
            if blocks is None:
                break
            found.append(blocks[0])
        return found

    def get(self, block_hash: bytes, groups: tuple[int, ...]) -> list[Block] | None:
        found = []
        for group in groups:
            entry = self.map.get(tagged(block_hash, group))
            block = next(iter(entry.values())) if isinstance(entry, dict) else entry
            if block is None:
                return None
            found.append(block)
        return found

    def allocate(self, hashes: list[bytes], hits: list[Block], n: int) -> list[Block]:
        n_needed = n - len(hits) + sum(block.ref_cnt == 0 and not block.is_null for block in hits)
        assert n_needed <= self.queue.n
        for block in hits:
            if block.ref_cnt == 0 and not block.is_null:
                self.queue.remove(block)
            block.ref_cnt += 1
        table = [*hits, *self.new_blocks(n - len(hits))]
        self.cache_full_blocks(table, hashes, len(hits), len(hashes))
        return table

    def new_blocks(self, n: int) -> list[Block]:
        new = self.queue.popleft_n(n)
        for block in new:
            self.maybe_evict(block)
            assert block.ref_cnt == 0
            block.ref_cnt += 1
        return new

    def cache_full_blocks(self, table: list[Block], hashes: list[bytes], n_cached: int, n_full: int) -> None:
        for index, block in enumerate(table[n_cached:n_full]):
            if block.is_null:
                continue
            assert block.block_hash is None
            block.block_hash = key = tagged(hashes[n_cached + index], 0)
            self.insert(key, block)

    def insert(self, key: bytes, block: Block) -> None:
        entry: Any = self.map.get(key)
        if entry is None:
            self.map[key] = block
        elif isinstance(entry, dict):
            entry[block.block_id] = block
        else:
            self.map[key] = {entry.block_id: entry, block.block_id: block}

    def maybe_evict(self, block: Block) -> None:
        if block.block_hash is None:
            return
        entry = self.map.pop(block.block_hash)
        if isinstance(entry, dict):
            del entry[block.block_id]
            if entry:
                self.map[block.block_hash] = entry
        block.reset_hash()
        self.n_evicted += 1

    def free(self, table: list[Block]) -> None:
        hashed, unhashed = [], []
        for block in reversed(table):
            block.ref_cnt -= 1
            if block.ref_cnt == 0 and not block.is_null:
                (unhashed if block.block_hash is None else hashed).append(block)
        self.queue.prepend_n(unhashed)
        self.queue.append_n(hashed)
