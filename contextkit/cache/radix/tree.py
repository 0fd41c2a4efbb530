"""SGLang's radix tree: prompts that share a prefix share its nodes.

Takes packed tokens, namespaces and locks, gives lengths and what was forgotten; knows nothing of requests, capacity or text.

Measured (SGLang 0.5.23, executed on its Python tree and its Rust core): a lookup ends on a page, and where it ends inside a node it
splits that node; all nodes it comes by are stamped before that, so the part that did not match is refreshed too; an insertion gives the
length that was there already; a lock holds the path to the root; forgetting takes whole unlocked leaves, the smallest rank first, until
at least so many tokens are gone, and a parent that becomes a leaf joins the others at once. Read in the source of versions up to 0.5.9:
a last page that is cut short matches only one cut at the same place, and counts as a whole page.

An edge is compared as memory, not page by page; leaves wait in a heap whose outdated entries are skipped when they come up, where the
engine builds a new heap of all leaves for every eviction. Ticks stand for the engine's clock: one for every time it reads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from contextkit.cache.packed import N_BYTES, bigrams, shared
from contextkit.cache.radix.policies import NO_SPACE, ChildKey, Node, Rank, Rules, Space, ranking
from contextkit.errors import UsageError


@dataclass(frozen=True, slots=True)
class Match:
    """How far a lookup came, or an insertion found its tokens there already."""

    length: int
    """Tokens that were cached, whole pages."""
    node: Node
    """The last node, to be locked; the root where there is none."""


class RadixTree:
    """Prefixes of prompts and the order in which they are forgotten.

    >>> from contextkit.cache.packed import pack
    >>> tree = RadixTree(page=2)
    >>> tree.insert(pack([1, 2, 3, 4, 5])).length, tree.match(pack([1, 2, 3, 9])).length, tree.lengths()
    (0, 2, [[2], [2, 2]])
    """

    def __init__(self, page: int = 1, policy: str = "lru", rules: Rules | None = None, *, is_eagle: bool = False) -> None:
        """`is_eagle`: keyed by pairs of tokens, as for EAGLE drafts; raises `UsageError` for a page below 1 or a policy there is not."""
        if page < 1:
            raise UsageError(f"a page of {page} tokens holds nothing: pass 1 or more")
        self.page = page
        self.rules = rules or Rules()
        self._rank = ranking(policy, self.rules)
        self._is_eagle = is_eagle
        self._unit = N_BYTES * 2 if is_eagle else N_BYTES
        self._page_bytes = page * self._unit
        self.reset()

    def reset(self) -> None:
        """Forget everything, locks included."""
        self.root = Node(None, b"", b"", 0, 0, 0, 0)
        self.evictable, self.protected, self.n_nodes = 0, 0, 0
        self._clock = self._n_slots = self._serial = 0
        self._heap: list[tuple[Rank, int, Node]] = []
        self._changed: dict[Node, None] = {}

    @property
    def total(self) -> int:
        """Tokens held."""
        return self.evictable + self.protected

    def measure(self, tokens: bytes, space: Space = NO_SPACE, n_tokens: int | None = None) -> int:
        """What `match` would find; changes nothing."""
        key, end = self._keyed(tokens, n_tokens)
        end = self._floor(end)
        node, at = self.root, 0
        while at < end and (child := node.children.get(self._child_key(node, key, at, end, space))):
            length = self._along(child.edge, key, at, end)
            at += length
            if length < len(child.edge):
                break
            node = child
        return at // self._unit

    def match(self, tokens: bytes, space: Space = NO_SPACE, n_tokens: int | None = None) -> Match:
        """The longest cached prefix of the first `n_tokens` in whole pages: refreshes it, and splits the node it ends in."""
        key, end = self._keyed(tokens, n_tokens)
        end = self._floor(end)
        node, at, now = self.root, 0, self._tick()
        while at < end and (child := node.children.get(self._child_key(node, key, at, end, space))):
            self._touch(child, now)
            length = self._along(child.edge, key, at, end)
            at += length
            if length < len(child.edge):
                return Match(at // self._unit, self._split(child, length))
            node = child
        return Match(at // self._unit, node)

    def insert(
        self, tokens: bytes, space: Space = NO_SPACE, priority: int = 0, n_inserted: int = 0, n_tokens: int | None = None
    ) -> Match:
        """Keep the prefix of `n_tokens`; gives how many of them were there already, and the node it ends with.

        `n_inserted`: so many were inserted by the same request before, and their nodes are not counted as hit again.
        """
        key, end = self._keyed(tokens, n_tokens)
        slot, self._n_slots = self._n_slots, self._n_slots + (len(tokens) // N_BYTES if n_tokens is None else n_tokens)
        end = self._floor(end) if self.rules.is_insert_floored else end
        node, at, now = self.root, 0, self._tick()
        while at < end and (child := node.children.get(self._child_key(node, key, at, end, space))):
            self._touch(child, now)
            length = self._along(child.edge, key, at, end)
            at += length
            node = self._split(child, length) if length < len(child.edge) else child
            self._use(node, priority, at > n_inserted * self._unit)
        if at < end:
            edge = key[at:end]
            node = self._add(node, self._child_key(node, key, at, end, space), edge, slot + at // self._unit, priority)
        return Match(at // self._unit, node)

    def lock(self, node: Node) -> None:
        """Nothing on the way to this node is forgotten until it is unlocked."""
        for step in self._path(node):
            if not step.n_locks:
                self.evictable -= len(step.edge) // self._unit
                self.protected += len(step.edge) // self._unit
            step.n_locks += 1

    def unlock(self, node: Node) -> None:
        """Take back one `lock` of this node."""
        for step in self._path(node):
            step.n_locks -= 1
            if not step.n_locks:
                self.evictable += len(step.edge) // self._unit
                self.protected -= len(step.edge) // self._unit
                self._changed[step] = None

    def evict(self, n_tokens: int) -> list[range]:
        """Forget leaves until `n_tokens` are gone or all that is left is locked; gives their KV slots in the order they went."""
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
        self._tidy()
        return gone

    def lengths(self) -> list[list[int]]:
        """The tree as sorted paths of node lengths, one for each node."""
        paths: list[list[int]] = []
        waiting: list[tuple[Node, list[int]]] = [(self.root, [])]
        while waiting:
            node, path = waiting.pop()
            for child in node.children.values():
                paths.append([*path, len(child.edge) // self._unit])
                waiting.append((child, paths[-1]))
        return sorted(paths)

    def nodes(self) -> Iterator[Node]:
        """Every node but the root, parents before children."""
        waiting = list(self.root.children.values())
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.children.values())

    def counters(self) -> tuple[int, int]:
        """Ticks and KV slots counted so far."""
        return self._clock, self._n_slots

    def load(self, nodes: list[Node], clock: int, n_slots: int) -> None:
        """Take over nodes whose parents are `self.root` or one another."""
        self._clock, self._n_slots, self.n_nodes = clock, n_slots, len(nodes)
        for node in nodes:
            parent_of(node).children[node.key] = node
            self._changed[node] = None
        self.protected = sum(len(node.edge) for node in nodes if node.n_locks) // self._unit
        self.evictable = sum(len(node.edge) for node in nodes if not node.n_locks) // self._unit

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _keyed(self, tokens: bytes, n_tokens: int | None) -> tuple[bytes, int]:
        """The tokens as units, and how many bytes of them count."""
        n_bytes = len(tokens) if n_tokens is None else min(n_tokens * N_BYTES, len(tokens))
        if not self._is_eagle:
            return tokens, n_bytes
        pairs = bigrams(tokens[:n_bytes])
        return pairs, len(pairs)

    def _floor(self, n_bytes: int) -> int:
        return n_bytes - n_bytes % self._page_bytes

    def _child_key(self, node: Node, key: bytes, at: int, end: int, space: Space) -> ChildKey:
        first = key[at : min(at + self._page_bytes, end)]
        return (space, first) if node is self.root and space != NO_SPACE else first

    def _along(self, edge: bytes, key: bytes, at: int, end: int) -> int:
        """Bytes of `edge` that `key` goes along from `at`, in whole pages."""
        if not len(edge) % self._page_bytes and key.startswith(edge, at, end):
            return len(edge)
        limit = min(len(edge), end - at)
        whole = self._floor(limit)
        same = shared(key, at, edge, 0, whole, self._page_bytes)
        is_cut_alike = same == whole < limit and len(edge) == end - at and key.startswith(edge, at, end)
        return same + self._page_bytes if is_cut_alike else same

    def _touch(self, node: Node, now: int) -> None:
        node.accessed = now
        self._changed[node] = None

    def _use(self, node: Node, priority: int, is_first_time: bool) -> None:
        node.priority = max(node.priority, priority)
        if self.rules.is_counting_hits and is_first_time:
            node.n_hits += 1

    def _add(self, parent: Node, key: ChildKey, edge: bytes, slot: int, priority: int) -> Node:
        leaf = Node(parent, key, edge, slot, priority, self._tick(), self._tick(), 0, int(self.rules.is_counting_hits))
        parent.children[key] = leaf
        self.evictable += len(edge) // self._unit
        self.n_nodes += 1
        self._changed[leaf] = None
        return leaf

    def _split(self, node: Node, n_bytes: int) -> Node:
        """A new node takes the first bytes, this one keeps the rest."""
        parent = parent_of(node)
        head = Node(parent, node.key, node.edge[:n_bytes], node.slot, node.priority, self._tick(), self._tick(), node.n_locks, node.n_hits)
        node.edge, node.slot, node.parent = node.edge[n_bytes:], node.slot + n_bytes // self._unit, head
        node.key = node.edge[: self._page_bytes]
        head.children[node.key] = node
        parent.children[head.key] = head
        self.n_nodes += 1
        return head

    def _path(self, node: Node) -> Iterator[Node]:
        while node is not self.root:
            yield node
            node = parent_of(node)

    def _is_free(self, node: Node) -> bool:
        return node.parent is not None and not node.children and not node.n_locks

    def _offer(self, node: Node) -> None:
        if self._is_free(node):
            self._serial += 1  # so that two equal ranks never compare nodes
            heappush(self._heap, (self._rank(node), self._serial, node))

    def _forget(self, node: Node) -> range:
        parent, length = parent_of(node), len(node.edge) // self._unit
        del parent.children[node.key]
        node.parent = None
        self.evictable -= length
        self.n_nodes -= 1
        self._offer(parent)
        return range(node.slot, node.slot + length)

    def _tidy(self) -> None:
        """Drop outdated entries where they outnumber the nodes."""
        if len(self._heap) > 2 * self.n_nodes + 64:
            newest = {node: (rank, serial, node) for rank, serial, node in self._heap if self._is_free(node) and rank == self._rank(node)}
            self._heap = list(newest.values())
            heapify(self._heap)


def parent_of(node: Node) -> Node:
    """The node before this one; raises `UsageError` for one that was forgotten, which only a lock outliving its tree can hold."""
    if node.parent is None:
        raise UsageError("this node is no longer in the tree: match again, and unlock what you locked before resetting")
    return node.parent
