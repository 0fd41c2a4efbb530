"""SGLang's radix tree: prompts that share a prefix share its nodes, and leaves are forgotten by the rank of a policy.

Measured (SGLang 0.5.23, executed on its Python tree and its Rust core): a lookup ends on a page, and where it ends
inside a node it splits that node; all nodes it comes by are stamped before that, so the part that did not match is
refreshed too; an insertion gives the length that was there already; a lock holds the path to the root; forgetting takes
whole unlocked leaves, the smallest rank first, until at least so many tokens are gone, and a parent that becomes a leaf
joins the others at once; the keys of all policies; a node's hits are counted by insertions, once a request, never by
lookups; a split gives the upper half fresh times and the lower half keeps its own, only that in the Rust core, which
alone has tlru, the upper half is as old as the whole was (fifo sees that). Read in the source of versions up to 0.5.9:
a last page that is cut short matches only one cut at the same place, and counts as a whole page; there is no slru and
no tlru, and nothing counts hits, so that lfu is lru there.

An edge is compared as memory, not page by page; leaves wait in a heap whose outdated entries are skipped when they come
up, where the engine builds a new heap of all leaves for every eviction. Ticks stand for the engine's clock: one for
every time it reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import takewhile
from typing import TypeGuard

from contextkit.engines.token_ids import N_BYTES, bigrams, shared
from contextkit.errors import UsageError

Space = tuple[str | None, str | None]
"""What besides the tokens must be equal: extra key (a LoRA adapter, say), cache salt. "None" is a namespace of its own.
"""
NO_SPACE: Space = (None, None)
"""The namespace of a request that names none."""
ChildKey = bytes | tuple[Space, bytes]
"""A child is found by its first page, below the root by its namespace too."""
Rank = tuple[int, ...]
"""The node with the smallest goes first."""


@dataclass(eq=False, slots=True)
class Node:
    """A run of tokens that no cached prompt divides."""

    parent: Node | None
    """What comes before; None for the root and for a node that was forgotten."""
    key: ChildKey
    """What the parent knows it by."""
    memory: bytes
    """Holds its tokens; halves of a split share it."""
    start: int
    """Where they begin in it."""
    size: int
    """How many bytes they are."""
    slot: int
    """Number of its first token's KV slot, counted by insertion."""
    priority: int
    """The highest of the requests that used it."""
    accessed: int
    """Tick of the last lookup or insertion that came by."""
    created: int
    """Tick of its making."""
    n_locks: int = 0
    """Requests under way that need it or something behind it."""
    n_hits: int = 0
    """Requests that inserted it."""
    n_before: int = 0
    """Tokens on the way to it; kept for tlru."""
    n_deepest: int = 0
    """Tokens from the front to the end of the longest prompt that ever went through it; kept for tlru."""
    children: dict[ChildKey, Node] = field(default_factory=dict)
    """What may come next."""

    @property
    def edge(self) -> bytes:
        """Its tokens, packed."""
        return self.memory[self.start : self.start + self.size]


POLICIES: dict[str, Callable[..., Rank]] = {
    "lru": lambda node: (node.accessed,),
    "lfu": lambda node: (node.n_hits, node.accessed),
    "fifo": lambda node: (node.created,),
    "mru": lambda node: (-node.accessed,),
    "filo": lambda node: (-node.created,),
    "priority": lambda node: (node.priority, node.accessed),
    "slru": lambda node, protected_threshold=2: (node.n_hits >= protected_threshold, node.accessed),
}
"""Name of a policy → the key of a node, given the policy's parameters."""


def _tail_rank(node: Node, threshold: int = 0, next_prompt_estimate: int = 0) -> Rank:
    """Least recently used, but first what a conversation can lose and still be prefilled in time."""
    budget = max(node.n_deepest + next_prompt_estimate - threshold, 0)
    return (0 if node.n_before >= budget else 1, node.accessed)


TUNED: dict[str, Callable[..., Rank]] = {"tlru": _tail_rank}
"""Policies that are lru where their parameters are left out."""
PARAMETERS: dict[str, tuple[str, ...]] = {
    "slru": ("protected_threshold",),
    "tlru": ("threshold", "next_prompt_estimate"),
}
"""Policy → what its config may name (`--radix-eviction-policy-config`): slru keeps what was hit as often as its
threshold says; tlru takes tokens that may be computed again within the time allowed, and how many the next prompt is
expected to add."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What changed between SGLang's versions."""

    is_insert_floored: bool = True
    """`insert` drops what does not fill a page; up to 0.5.9 its caller had to."""
    is_counting_hits: bool = True
    """Insertions count hits; up to 0.5.9 nothing did."""
    is_split_new: bool = True
    """The upper half of a split counts as made then; in the Rust core it is as old as the whole was."""
    is_prompt_raised: bool = True
    """A prompt outranks by one the pages generated after it, so that the priority policy forgets outputs first; not up
    to 0.5.9."""
    missing: frozenset[str] = frozenset()
    """Policies this version does not have."""


_OLD = Rules(
    is_insert_floored=False, is_counting_hits=False, is_prompt_raised=False, missing=frozenset({"slru", "tlru"})
)
CORES = {"python": Rules(), "rust": Rules(is_split_new=False)}
"""The two trees of a release; up to 0.5.9 there is one."""


def rules_of(version: str, core: str = "python") -> Rules:
    """The rules of an SGLang release: the old ones up to 0.5.9.

    Where between 0.5.9 and 0.5.23 they changed is not known.

    Raises `UsageError` for a core there is not.

    >>> rules_of("0.5.9").is_insert_floored, rules_of("0.5.23").is_insert_floored, rules_of("0.5.9.post1").is_counting_hits
    (False, True, False)
    """
    if core not in CORES:
        raise UsageError(f"SGLang has no core {core!r}: choose one of {', '.join(CORES)}")
    return _OLD if tuple(int(part) for part in version.split(".")[:3]) <= (0, 5, 9) else CORES[core]


def ranking(policy: str, rules: Rules, parameters: Mapping[str, int] | None = None) -> Callable[[Node], Rank]:
    """Return the rank function of a policy.

    Raises `UsageError` for one the version does not have, and for a parameter the policy does not.
    """
    name, known = policy.lower(), POLICIES | TUNED
    if name not in known or name in rules.missing:
        has = ", ".join(each for each in known if each not in rules.missing)
        raise UsageError(f"this SGLang has no eviction policy {policy!r}: choose one of {has}")
    given, taken = dict(parameters or {}), PARAMETERS.get(name, ())
    if unknown := sorted(given.keys() - set(taken)):
        raise UsageError(f"{name} takes no parameter {', '.join(unknown)}: it takes {', '.join(taken) or 'none'}")
    if wrong := [each for each, value in given.items() if value < 0]:
        raise UsageError(f"{name}: {', '.join(wrong)} is below 0: pass 0 or more")
    return partial(known[name], **given) if given else known[name]


Tokens = bytes | memoryview
"""Packed tokens, or a view of their bytes; a view is read during the call and never kept, `bytes` may be."""


@dataclass(frozen=True, slots=True)
class Match:
    """How far a lookup came, or an insertion found its tokens there already."""

    length: int
    """Tokens that were cached, whole pages."""
    node: Node
    """The last node, to be locked; the root where there is none."""


class RadixTree:
    """Prefixes of prompts and the order in which they are forgotten.

    >>> from contextkit.engines.token_ids import pack
    >>> tree = RadixTree(page=2)
    >>> tree.insert(pack([1, 2, 3, 4, 5])).length, tree.match(pack([1, 2, 3, 9])).length, tree.lengths()
    (0, 2, [[2], [2, 2]])
    """

    def __init__(
        self,
        page: int = 1,
        policy: str = "lru",
        rules: Rules | None = None,
        *,
        is_eagle: bool = False,
        parameters: Mapping[str, int] | None = None,
    ) -> None:
        """`is_eagle`: keyed by pairs of tokens, as for EAGLE drafts; `parameters`: of the policy.

        Raises `UsageError` for a page below 1, and for a policy or a parameter there is not.
        """
        if page < 1:
            raise UsageError(f"a page of {page} tokens holds nothing: pass 1 or more")
        self.page = page
        self.rules = rules or Rules()
        self._rank = ranking(policy, self.rules, parameters)
        self._is_deepening = policy.lower() in TUNED
        self._is_eagle = is_eagle
        self._n_slots = 0
        self._unit = N_BYTES * 2 if is_eagle else N_BYTES
        self._page_bytes = page * self._unit
        self.reset()

    def reset(self) -> None:
        """Forget everything, locks included; slots are counted on."""
        self.root = Node(None, b"", b"", 0, 0, 0, 0, 0, 0)
        self.evictable, self.protected, self.n_nodes = 0, 0, 0
        self._clock = self._serial = 0
        self._heap: list[tuple[Rank, int, Node]] = []
        self._changed: dict[Node, None] = {}

    @property
    def total(self) -> int:
        """Tokens held."""
        return self.evictable + self.protected

    def measure(self, tokens: Tokens, space: Space = NO_SPACE, n_tokens: int | None = None) -> int:
        """Return the length `match` would find; changes nothing."""
        key = self._whole_pages(self._keyed(tokens, n_tokens))
        node, at, end = self.root, 0, len(key)
        while at < end and (child := node.children.get(self._child_key(node, key, at, space))):
            length = self._along(child, key, at)
            at += length
            if length < child.size:
                break
            node = child
        return at // self._unit

    def match(self, tokens: Tokens, space: Space = NO_SPACE, n_tokens: int | None = None) -> Match:
        """The longest cached prefix of the first `n_tokens` in whole pages: refreshes it, and splits the node it ends
        in.
        """
        key = self._whole_pages(self._keyed(tokens, n_tokens))
        node, at, end, now = self.root, 0, len(key), self._tick()
        while at < end and (child := node.children.get(self._child_key(node, key, at, space))):
            self._touch(child, now)
            length = self._along(child, key, at)
            at += length
            if length < child.size:
                return Match(at // self._unit, self._split(child, length))
            node = child
        return Match(at // self._unit, node)

    def insert(
        self,
        tokens: Tokens,
        space: Space = NO_SPACE,
        priority: int = 0,
        n_inserted: int = 0,
        n_tokens: int | None = None,
    ) -> Match:
        """Keep the prefix of `n_tokens`; gives how many of them were there already, and the node it ends with.

        `n_inserted`: so many were inserted by the same request before, and their nodes are not counted as hit again.
        """
        return self.extend(Match(0, self.root), tokens, space, priority, n_inserted, n_tokens)

    def extend(
        self,
        after: Match,
        tokens: Tokens,
        space: Space = NO_SPACE,
        priority: int = 0,
        n_inserted: int = 0,
        n_tokens: int | None = None,
    ) -> Match:
        """`insert` what led to `after` with `tokens` behind it, without comparing the way there again: its node was
        locked ever since.

        `n_tokens` counts from there, `n_inserted` and the length that is given from the front.
        """
        key = self._keyed(tokens, n_tokens)
        slot, self._n_slots = (
            self._n_slots,
            self._n_slots + after.length + (len(tokens) // N_BYTES if n_tokens is None else n_tokens),
        )
        key = self._whole_pages(key) if self.rules.is_insert_floored else key
        before, known = after.length * self._unit, n_inserted * self._unit
        node, at, end, now = after.node, 0, len(key), self._tick()
        passed = before
        for step in self._path(node):  # back to the root, the nodes that are passed are renewed
            self._touch(step, now)
            self._use(step, priority, passed > known)
            passed -= step.size
        while at < end and (child := node.children.get(self._child_key(node, key, at, space))):
            self._touch(child, now)
            length = self._along(child, key, at)
            at += length
            node = self._split(child, length) if length < child.size else child
            self._use(node, priority, before + at > known)
        length = after.length + at // self._unit
        if at < end:
            memory = tokens if self._is_worth_keeping(tokens, at, end) else key[at:].tobytes()
            leaf = Node(node, self._child_key(node, key, at, space), memory, 0, end - at, slot + length, priority, 0, 0)
            leaf.n_hits = int(self.rules.is_counting_hits and before + end > known)
            leaf.n_before = length
            leaf.accessed, leaf.created = self._tick(), self._tick()
            node.children[leaf.key] = leaf
            self.evictable += leaf.size // self._unit
            self.n_nodes += 1
            self._changed[leaf] = None
            if self._is_deepening:  # all on the way to this leaf have seen a prompt of its length
                n_deepest = length + self.length(leaf)
                for step in takewhile(lambda step: step.n_deepest < n_deepest, self._path(leaf)):
                    step.n_deepest = n_deepest
            node = leaf
        return Match(length, node)

    def lock(self, node: Node, held: Node | None = None) -> None:
        """Nothing on the way to this node is forgotten until it is unlocked.

        Of the way to `held`, the lock it has passes over to it.
        """
        for step in self._path(node, held):
            if not step.n_locks:
                self.evictable -= step.size // self._unit
                self.protected += step.size // self._unit
            step.n_locks += 1

    def unlock(self, node: Node) -> None:
        """Take back one `lock` of this node."""
        for step in self._path(node):
            step.n_locks -= 1
            if not step.n_locks:
                self.evictable += step.size // self._unit
                self.protected -= step.size // self._unit
                self._changed[step] = None

    def evict(self, n_tokens: int) -> list[range]:
        """Forget leaves until `n_tokens` are gone or all that is left is locked.

        Gives their KV slots in the order they went.
        """
        for node in self._changed:
            self._offer(node)
        self._changed.clear()
        gone: list[range] = []
        n_gone = 0
        while n_gone < n_tokens and self._heap:
            rank, _, node = heappop(self._heap)
            if self._is_free(node) and rank == self._rank(node):
                gone.append(self._forget(node))
                n_gone += len(gone[-1])
        if len(self._heap) > 2 * self.n_nodes + 64:  # outdated entries outnumber the nodes
            newest = {
                entry[2]: entry for entry in self._heap if self._is_free(entry[2]) and entry[0] == self._rank(entry[2])
            }
            self._heap = list(newest.values())
            heapify(self._heap)
        return gone

    def length(self, node: Node) -> int:
        """Tokens of this node."""
        return node.size // self._unit

    def lengths(self) -> list[list[int]]:
        """The tree as sorted paths of node lengths, one for each node."""
        paths: list[list[int]] = []
        waiting: list[tuple[Node, list[int]]] = [(self.root, [])]
        while waiting:
            node, path = waiting.pop()
            for child in node.children.values():
                paths.append([*path, self.length(child)])
                waiting.append((child, paths[-1]))
        return sorted(paths)

    def nodes(self) -> Iterator[Node]:
        """Every node but the root, parents before children."""
        waiting = list(self.root.children.values())
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.children.values())

    def edges(self, node: Node) -> list[bytes]:
        """The packed tokens on the way to this node, from the front, one for each node."""
        return [step.edge for step in self._path(node)][::-1]

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _keyed(self, tokens: Tokens, n_tokens: int | None) -> memoryview:
        """The tokens that count, as units."""
        memory = memoryview(tokens)
        if n_tokens is not None:
            memory = memory[: n_tokens * N_BYTES]
        return memoryview(bigrams(memory)) if self._is_eagle else memory

    def _whole_pages(self, key: memoryview) -> memoryview:
        cut = len(key) % self._page_bytes
        return key[:-cut] if cut else key

    def _child_key(self, node: Node, key: memoryview, at: int, space: Space) -> ChildKey:
        first = key[at : at + self._page_bytes].tobytes()
        return (space, first) if node is self.root and space != NO_SPACE else first

    def _along(self, node: Node, key: memoryview, at: int) -> int:
        """Bytes of the node that `key` goes along from `at`, in whole pages."""
        size, left = node.size, len(key) - at
        if size <= left and node.memory.startswith(key[at : at + size], node.start) and not size % self._page_bytes:
            return size
        limit = min(size, left)
        whole = limit - limit % self._page_bytes
        same = shared(node.memory, node.start, key, at, whole, self._page_bytes)
        is_cut_alike = same == whole < limit and size == left and node.memory.startswith(key[at:], node.start)
        return same + self._page_bytes if is_cut_alike else same

    def _is_worth_keeping(self, tokens: Tokens, at: int, end: int) -> TypeGuard[bytes]:
        """Return whether these bytes can be a node's memory as they are: nobody writes over them, and most of them are
        the node's.
        """
        return isinstance(tokens, bytes) and not self._is_eagle and not at and 2 * end >= len(tokens)

    def _touch(self, node: Node, now: int) -> None:
        node.accessed = now
        self._changed[node] = None

    def _use(self, node: Node, priority: int, is_first_time: bool) -> None:
        node.priority = max(node.priority, priority)
        if self.rules.is_counting_hits and is_first_time:
            node.n_hits += 1

    def _split(self, node: Node, size: int) -> Node:
        """A new node takes the first bytes, this one keeps the rest; the memory stays where it is."""
        parent, now, made = parent_of(node), self._tick(), self._tick()
        made = made if self.rules.is_split_new else node.created
        head = Node(
            parent,
            node.key,
            node.memory,
            node.start,
            size,
            node.slot,
            node.priority,
            now,
            made,
            node.n_locks,
            node.n_hits,
        )
        head.n_before, head.n_deepest, node.n_before = node.n_before, node.n_deepest, node.n_before + size // self._unit
        node.start, node.size, node.slot, node.parent = (
            node.start + size,
            node.size - size,
            node.slot + size // self._unit,
            head,
        )
        node.key = node.memory[node.start : node.start + min(self._page_bytes, node.size)]
        head.children[node.key] = node
        parent.children[head.key] = head
        self.n_nodes += 1
        return head

    def _path(self, node: Node, end: Node | None = None) -> Iterator[Node]:
        """From this node back to the root or to `end`, which is not of it."""
        while node is not self.root and node is not end:
            yield node
            node = parent_of(node)

    def _is_free(self, node: Node) -> bool:
        return node.parent is not None and not node.children and not node.n_locks

    def _offer(self, node: Node) -> None:
        if self._is_free(node):
            self._serial += 1  # so that two equal ranks never compare nodes
            heappush(self._heap, (self._rank(node), self._serial, node))

    def _forget(self, node: Node) -> range:
        parent, length = parent_of(node), node.size // self._unit
        del parent.children[node.key]
        node.parent = None
        self.evictable -= length
        self.n_nodes -= 1
        self._offer(parent)
        if parent.memory is node.memory and 2 * node.start <= len(node.memory):
            left = node.memory[: node.start]  # less than half: a copy takes its place in the nodes that share it
            for step in takewhile(lambda step: step.memory is node.memory, self._path(parent)):
                step.memory = left
        return range(node.slot, node.slot + length)


def parent_of(node: Node) -> Node:
    """The node before this one.

    Raises `UsageError` for one that was forgotten, which only a lock outliving its tree can hold.
    """
    if node.parent is None:
        raise UsageError("this node is no longer in the tree: match again, and unlock what you locked before resetting")
    return node.parent
