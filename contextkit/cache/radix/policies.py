"""A node of the tree, in what order nodes are forgotten, and what changed between SGLang's versions.

Takes a node, gives the key by which the smallest goes first; knows nothing of the tree.

Measured (SGLang 0.5.23, executed on its Python tree and its Rust core): the keys of all policies; a node's hits are
counted by insertions, once a request, never by lookups; a split gives the upper half fresh times and the lower half
keeps its own, only that in the Rust core, which alone has tlru, the upper half is as old as the whole was (fifo sees
that). Read in its source: up to 0.5.9 there is no slru and no tlru, and nothing counts hits, so that lfu is lru there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

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
    """How this policy ranks nodes.

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
