"""A node of the tree, in what order nodes are forgotten, and what changed between SGLang's versions.

Takes a node, gives the key by which the smallest goes first; knows nothing of the tree.

Measured (SGLang 0.5.23, executed on its Python tree and its Rust core): the keys of lru, lfu, fifo, filo and priority; a node's hits are
counted by insertions, once a request, never by lookups; a split gives the upper half fresh times and the lower half keeps its own.
Read in its source: mru, slru and its threshold of 2; up to 0.5.9 there is no slru and nothing counts hits, so that lfu is lru there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from contextkit.errors import UsageError

Space = tuple[str | None, str | None]
"""What besides the tokens must be equal: extra key (a LoRA adapter, say), cache salt. "None" is a namespace of its own."""
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
    edge: bytes
    """Its tokens' memory."""
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
    children: dict[ChildKey, Node] = field(default_factory=dict)
    """What may come next."""


_PROTECTED_HITS = 2
"""From so many on slru keeps a node behind those with fewer."""

POLICIES: dict[str, Callable[[Node], Rank]] = {
    "lru": lambda node: (node.accessed,),
    "lfu": lambda node: (node.n_hits, node.accessed),
    "fifo": lambda node: (node.created,),
    "mru": lambda node: (-node.accessed,),
    "filo": lambda node: (-node.created,),
    "priority": lambda node: (node.priority, node.accessed),
    "slru": lambda node: (node.n_hits >= _PROTECTED_HITS, node.accessed),
}
"""Name of a policy → the key of a node."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What changed between SGLang's versions."""

    is_insert_floored: bool = True
    """`insert` drops what does not fill a page; up to 0.5.9 its caller had to."""
    is_counting_hits: bool = True
    """Insertions count hits; up to 0.5.9 nothing did."""
    is_prompt_raised: bool = True
    """A prompt outranks by one what was generated after it, so that the priority policy forgets outputs first; not up to 0.5.9."""
    missing: frozenset[str] = frozenset()
    """Policies this version does not have."""


_OLD = Rules(False, False, False, frozenset({"slru"}))


def rules_of(version: str) -> Rules:
    """The rules of an SGLang release: the old ones up to 0.5.9; where between 0.5.9 and 0.5.23 they changed is not known.

    >>> rules_of("0.5.9").is_insert_floored, rules_of("0.5.23").is_insert_floored, rules_of("0.5.9.post1").is_counting_hits
    (False, True, False)
    """
    return _OLD if tuple(int(part) for part in version.split(".")[:3]) <= (0, 5, 9) else Rules()


def ranking(policy: str, rules: Rules) -> Callable[[Node], Rank]:
    """How this policy ranks nodes; raises `UsageError` for one the version does not have."""
    if policy not in POLICIES or policy in rules.missing:
        known = ", ".join(name for name in POLICIES if name not in rules.missing)
        raise UsageError(f"this SGLang has no eviction policy {policy!r}: choose one of {known}")
    return POLICIES[policy]
