"""SGLang's radix cache without a tree: a list of runs, compared token by token, scanned from end to end for everything.

What a run is forgotten after is written out once more here, so that the two can disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Space = tuple[str | None, str | None]


@dataclass(eq=False)
class Run:
    """Tokens from the front of a prompt up to here, of which those from `start` on are this run's own."""

    space: Space
    tokens: list[Any]
    start: int
    slots: list[int]
    priority: int
    accessed: int
    created: int
    locks: int = 0
    hits: int = 0

    @property
    def own(self) -> list[Any]:
        return self.tokens[self.start :]


def rank(policy: str, run: Run) -> tuple[int, int]:
    if policy == "lru":
        return 0, run.accessed
    if policy == "mru":
        return 0, -run.accessed
    if policy == "fifo":
        return 0, run.created
    if policy == "filo":
        return 0, -run.created
    if policy == "lfu":
        return run.hits, run.accessed
    if policy == "priority":
        return run.priority, run.accessed
    return (1 if run.hits >= 2 else 0), run.accessed


class NaiveRadix:
    """The same operations as `RadixTree`, on lists of ints."""

    def __init__(self, page: int, policy: str, is_old: bool, is_eagle: bool) -> None:
        self.page, self.policy, self.is_old, self.is_eagle = page, policy, is_old, is_eagle
        self.runs: list[Run] = []
        self.clock = self.n_slots = 0

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def keyed(self, tokens: list[int]) -> list[Any]:
        return list(pairwise(tokens)) if self.is_eagle else list(tokens)

    def floored(self, key: list[Any]) -> list[Any]:
        return key[: len(key) // self.page * self.page]

    def next_run(self, space: Space, key: list[Any], at: int) -> Run | None:
        for run in self.runs:
            if (
                run.space == space
                and run.start == at
                and run.tokens[:at] == key[:at]
                and run.own[: self.page] == key[at : at + self.page]
            ):
                return run
        return None

    def length(self, run: Run, rest: list[Any]) -> int:
        """Page after page, as the engine's loop goes."""
        at = 0
        while at < min(len(run.own), len(rest)) and run.own[at : at + self.page] == rest[at : at + self.page]:
            at += self.page
        return at

    def split(self, run: Run, length: int) -> Run:
        cut = run.start + length
        head = Run(
            run.space,
            run.tokens[:cut],
            run.start,
            run.slots[:length],
            run.priority,
            self.tick(),
            self.tick(),
            run.locks,
            run.hits,
        )
        run.start, run.slots = cut, run.slots[length:]
        self.runs.append(head)
        return head

    def match(self, tokens: list[int], space: Space) -> tuple[int, Run | None]:
        key = self.floored(self.keyed(tokens))
        at, last, now = 0, None, self.tick()
        while at < len(key) and (run := self.next_run(space, key, at)):
            run.accessed = now
            length = self.length(run, key[at:])
            at += length
            if length < len(run.own):
                return at, self.split(run, length)
            last = run
        return at, last

    def insert(self, tokens: list[int], space: Space, priority: int, n_inserted: int) -> int:
        slots = list(range(self.n_slots, self.n_slots + len(tokens)))
        self.n_slots += len(tokens)
        key = self.keyed(tokens) if self.is_old else self.floored(self.keyed(tokens))
        at, now = 0, self.tick()
        while at < len(key) and (run := self.next_run(space, key, at)):
            run.accessed = now
            length = self.length(run, key[at:])
            at += length
            if length < len(run.own):
                run = self.split(run, length)
            run.priority = max(run.priority, priority)
            run.hits += int(not self.is_old and at > n_inserted)
        if at < len(key):
            leaf = Run(space, key, at, slots[at : len(key)], priority, self.tick(), self.tick())
            leaf.hits = int(not self.is_old and len(key) > n_inserted)
            self.runs.append(leaf)
        return at

    def path(self, run: Run | None) -> list[Run]:
        """This run and what comes before it, back to the front."""
        path: list[Run] = []
        while run:
            path.insert(0, run)
            run = next(
                (other for other in self.runs if other.space == run.space and other.tokens == run.tokens[: run.start]),
                None,
            )
        return path

    def lock(self, run: Run | None, by: int) -> None:
        for other in self.path(run):
            other.locks += by

    def is_leaf(self, run: Run) -> bool:
        end = len(run.tokens)
        return not any(
            other.space == run.space and other.start == end and other.tokens[:end] == run.tokens for other in self.runs
        )

    def evict(self, n_tokens: int) -> list[list[int]]:
        gone: list[list[int]] = []
        while sum(map(len, gone)) < n_tokens:
            leaves = [run for run in self.runs if not run.locks and self.is_leaf(run)]
            if not leaves:
                break
            victim = min(leaves, key=lambda run: rank(self.policy, run))
            self.runs.remove(victim)
            gone.append(victim.slots)
        return gone

    def lengths(self) -> list[list[int]]:
        return sorted([len(other.own) for other in self.path(run)] for run in self.runs)

    def total(self, *, is_locked: bool) -> int:
        return sum(len(run.own) for run in self.runs if bool(run.locks) == is_locked)
