"""vLLM's rules a second time: no hash, no tree, no queue but a list.

Every block carries all tokens before it and is compared by them.

Slow and obvious. What a step of the engine gives, and how the free blocks stand after it, must be the same here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, lcm


@dataclass
class Layer:
    kind: str
    size: int
    reach: int = 0


@dataclass(eq=False)
class Asked:
    tokens: list[int]
    space: tuple[str, str]
    reads: bool
    n_prompt: int = 0
    computed: int = 0
    tables: list[list[int]] = field(default_factory=list)
    offered: list[int] = field(default_factory=list)
    junction: int = 0

    def __post_init__(self) -> None:
        self.n_prompt = len(self.tokens)


class Naive:
    def __init__(
        self, n_blocks: int, layers: list[Layer], unhashed_first: bool, retention: int | None, ends_cached: bool
    ) -> None:
        self.layers, self.unhashed_first, self.retention, self.ends_cached = (
            layers,
            unhashed_first,
            retention,
            ends_cached,
        )
        self.free_row = list(range(1, n_blocks))
        self.users = [0] * n_blocks
        self.stored: list[
            tuple[int, int, tuple]
        ] = []  # (block, layer, everything up to the block's end), in order of arrival
        self.align, self.unit = lcm(*(layer.size for layer in layers)), gcd(*(layer.size for layer in layers))

    def whole(self, asked: Asked, layer: int, index: int) -> tuple:
        salt, adapter = asked.space
        return (salt, adapter, *asked.tokens[: (index + 1) * self.layers[layer].size])

    def serving(self, asked: Asked, layer: int, index: int) -> int:
        whole = self.whole(asked, layer, index)
        return next((block for block, of, content in self.stored if of == layer and content == whole), 0)

    # Lookup

    def reachable(self, asked: Asked, layer: int, n: int) -> bool:
        """Whether a hit of n tokens leaves this layer nothing to compute."""
        kind = self.layers[layer]
        if n % self.align or n % kind.size:
            return False
        last = n // kind.size
        needed = {"full": last, "window": -(-(kind.reach - 1) // kind.size)}[kind.kind]
        return all(self.serving(asked, layer, index) for index in range(max(0, last - needed), last))

    def longest(self, asked: Asked, layers: list[int], limit: int) -> int:
        chunked = [index for index in layers if self.layers[index].kind == "chunk"]
        plain = [index for index in layers if index not in chunked]
        n = (
            next(n for n in range(limit, -1, -1) if all(self.reachable(asked, layer, n) for layer in plain))
            if plain
            else limit
        )
        for layer in chunked:
            kind = self.layers[layer]
            index = n // kind.reach * kind.reach // kind.size
            while (index + 1) * kind.size <= n and self.serving(asked, layer, index):
                index += 1
            n = index * kind.size
        return n

    def lookup(self, asked: Asked) -> tuple[int, list[list[int]]]:
        if not asked.reads:
            return 0, [[] for _ in self.layers]
        limit = len(asked.tokens) - 1
        n = self.longest(asked, list(range(len(self.layers))), limit)
        first = next((layer for layer in self.layers if layer.kind == "full"), self.layers[0])
        alike = [index for index, layer in enumerate(self.layers) if layer == first]
        ahead = self.longest(asked, alike, limit) if len(self.layers) > 1 else n
        asked.junction = ahead if ahead > n else 0
        return n, [self.hit_blocks(asked, layer, n) for layer in range(len(self.layers))]

    def hit_blocks(self, asked: Asked, layer: int, n: int) -> list[int]:
        kind = self.layers[layer]
        last = n // kind.size
        first = {
            "full": lambda: 0,
            "window": lambda: last - -(-(kind.reach - 1) // kind.size),
            "chunk": lambda: self.chunk_start(asked, kind),
        }[kind.kind]()
        return [self.serving(asked, layer, index) if index >= first else 0 for index in range(last)]

    def chunk_start(self, asked: Asked, kind: Layer) -> int:
        limit = len(asked.tokens) - 1
        full = [index for index, layer in enumerate(self.layers) if layer.kind == "full"]
        if full:
            limit = self.longest(asked, full, limit)
        return limit // kind.reach * kind.reach // kind.size

    # Blocks

    def behind(self, layer: int, computed: int) -> int:
        """How many leading blocks hold only tokens that no later one looks at."""
        kind = self.layers[layer]
        first = {
            "full": 0,
            "window": max(0, computed - kind.reach + 1),
            "chunk": computed - computed % kind.reach if kind.reach else 0,
        }[kind.kind]
        return sum(1 for index in range(len_up(computed, kind.size)) if (index + 1) * kind.size <= first)

    def allocate(
        self, asked: Asked, n_new: int, hit: tuple[int, list[list[int]]] | None
    ) -> tuple[list[list[int]], list[int]] | None:
        n_hit, blocks = hit or (0, [[] for _ in self.layers])
        self.slide(asked, asked.computed + n_hit)
        is_new = not asked.tables
        total = asked.computed + n_hit + n_new
        hits, needed = [], []
        for index, layer in enumerate(self.layers):
            joined = []
            if is_new and hit:
                skipped = self.behind(index, n_hit)
                joined = [0] * skipped + blocks[index][skipped:]
            hits.append(joined)
            have = len(joined) + (0 if is_new else len(asked.tables[index]))
            needed.append(max(0, len_up(total, layer.size) - have))
        revived = [block for joined in hits for block in joined if block in self.free_row]
        if sum(needed) + len(revived) > len(self.free_row):
            return None
        for block in (block for joined in hits for block in joined if block):
            self.users[block] += 1
            if block in self.free_row:
                self.free_row.remove(block)
        new, lost = [], []
        for n in needed:
            new.append([self.free_row.pop(0) for _ in range(n)])
            for block in new[-1]:
                self.users[block] = 1
                lost += [block] if self.forget(block) else []
        if is_new:
            asked.tables, asked.offered = [[] for _ in self.layers], [len(joined) for joined in hits]
        for table, joined, fresh in zip(asked.tables, hits, new, strict=True):
            table.extend(joined + fresh)
        self.store(asked, min(total, len(asked.tokens)))
        return new, lost

    def store(self, asked: Asked, n: int) -> None:
        n = n if len(self.layers) == 1 else n - n % self.align
        for index, layer in enumerate(self.layers):
            for at in range(asked.offered[index], n // layer.size):
                block = asked.tables[index][at]
                if block and self.is_worth(asked, layer, at):
                    if layer.kind == "full" and layer.size > self.unit:
                        self.forget(block)  # where a prompt ended inside it
                    self.stored.append((block, index, self.whole(asked, index, at)))
            asked.offered[index] = max(asked.offered[index], n // layer.size)
            if layer.kind == "full" and layer.size > self.unit and self.ends_cached:
                self.store_end(asked, index, n)

    def store_end(self, asked: Asked, index: int, n: int) -> None:
        """A full layer's block is also known by what the prompt holds up to its last unit, where that ends inside the
        block."""
        end, size = (asked.n_prompt - 1) // self.unit * self.unit, self.layers[index].size
        if not 0 < end <= n or end % size == 0 or end // size >= len(asked.tables[index]):
            return
        block, content = asked.tables[index][end // size], (*asked.space, *asked.tokens[:end])
        known = [row[2] for row in self.stored if row[0] == block]
        if content not in known:
            if known and len(known[0]) < len(content):
                self.forget(block)
            self.stored.append((block, index, content))

    def is_worth(self, asked: Asked, layer: Layer, at: int) -> bool:
        if layer.kind != "window":
            return True
        last = len(asked.tokens) + 2 * layer.reach + self.align
        step = self.align if self.retention is None else self.retention
        ends = list(range(step, last + step, step)) if step else []
        if self.retention is not None:
            ends += [asked.n_prompt - 1, asked.junction]
        tails = [end - end % self.align for end in ends]
        needed = -(-(layer.reach - 1) // layer.size)
        return any(end // layer.size - needed <= at < end // layer.size for end in tails)

    def forget(self, block: int) -> bool:
        kept = [row for row in self.stored if row[0] != block]
        was_stored, self.stored = len(kept) < len(self.stored), kept
        return was_stored

    def slide(self, asked: Asked, computed: int) -> None:
        for index, table in enumerate(asked.tables):
            dropped = []
            for at in reversed(range(min(self.behind(index, computed), len(table)))):
                if not table[at]:
                    break
                dropped.append(table[at])
                table[at] = 0
            self.release(dropped)

    def free(self, asked: Asked) -> None:
        for table in asked.tables:
            self.release([block for block in reversed(table) if block])
        asked.tables, asked.offered = [], []

    def release(self, blocks: list[int]) -> None:
        for block in blocks:
            self.users[block] -= 1
        idle = [block for block in blocks if not self.users[block]]
        hashed = {block for block, _, _ in self.stored}
        front = [block for block in idle if block not in hashed] if self.unhashed_first else []
        self.free_row = front + self.free_row + [block for block in idle if block not in front]

    def reset(self) -> bool:
        if any(self.users):
            return False
        self.stored = []
        return True


def len_up(tokens: int, size: int) -> int:
    return -(-tokens // size)
