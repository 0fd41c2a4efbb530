"""What an engine is configured with, and what passes between its steps.

Knows nothing of how a step is done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, lcm

from contextkit.cache.block.groups import Group
from contextkit.cache.block.ids import TokenIds
from contextkit.cache.block.keys import Rules
from contextkit.errors import UsageError

_RULES = Rules()


@dataclass(frozen=True, slots=True)
class Shape:
    """What an engine is configured with."""

    n_blocks: int
    """Blocks in the pool, the null block included."""
    groups: tuple[Group, ...] = (Group(),)
    """One for each kind of layer."""
    rules: Rules = _RULES
    """Of which release."""
    is_caching: bool = True
    """Whether prefixes are cached at all."""
    is_eagle: bool = False
    """Whether EAGLE drafting makes every hit give up one more block."""
    retention: int | None = None
    """Tokens between the tails that windows and recurrent states keep; None keeps all (the engine's own default is 0).
    """
    key_size: int | None = None
    """Tokens a key stands for, a divisor of every block; None for the largest there is (the engine's
    `prefix_match_unit`)."""
    eagle_groups: tuple[int, ...] = ()
    """Numbers of the groups that draft, which alone give up a block; none for all of them."""

    @property
    def unit(self) -> int:
        """Tokens a key stands for."""
        return self.key_size or gcd(*(group.size for group in self.groups))

    @property
    def largest(self) -> int:
        """What every block's end meets: the least common multiple of the blocks' sizes."""
        return lcm(*(group.size for group in self.groups))

    @property
    def is_partial(self) -> bool:
        """Whether a hit may end inside a block: a recurrent group's blocks are longer than a key, and every group can
        look there.
        """
        states = any(group.kind == "mamba" and group.size > self.unit for group in self.groups)
        return (
            len(self.groups) > 1
            and states
            and all(group.kind in ("full", "mamba") or group.size == self.unit for group in self.groups)
        )

    @property
    def dropping(self) -> frozenset[int]:
        """Numbers of the groups that give up a block."""
        return frozenset(self.eagle_groups or range(len(self.groups))) if self.is_eagle else frozenset()


@dataclass(slots=True)
class Pending:
    """What a step leaves undone until the next one begins."""

    fresh: set[int] = field(default_factory=set)
    """Keys of states that are not written yet."""
    copied: dict[int, list[int]] = field(default_factory=dict)
    """Group → blocks held once more because one is copied to the other."""


@dataclass(slots=True)
class State:
    """What a recurrent group remembers of a running request."""

    is_allocated: bool = False
    """Whether it got blocks in an earlier step."""
    last: int | None = None
    """Index of the block the step before last wrote."""
    n_retired: int = 0
    """Leading blocks that were given back already."""


@dataclass(slots=True, eq=False)
class Request:
    """One request: its tokens so far, their keys, its block tables."""

    prompt: TokenIds
    """What was asked."""
    generated: list[int]
    """Tokens after the prompt."""
    tables: list[list[int]]
    """Blocks of each group, null where none is needed any more."""
    n_cached: list[int]
    """How many leading blocks of each table have been offered to the cache."""
    keys: list[int] = field(default_factory=list)
    """Chained keys of the full blocks."""
    computed: int = 0
    """Tokens whose KV is there."""
    is_running: bool = False
    """Whether it holds blocks."""
    n_preemptions: int = 0
    """How often it lost them again."""
    shared_end: int = 0
    """Where a prefix that others have, but a thinned group has not, ended at the last lookup; 0 for nowhere."""
    tails: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Group → index and number of a block that is cached up to somewhere inside it, and copied before it is written on.
    """
    states: dict[int, State] = field(default_factory=dict)
    """What recurrent groups remember."""

    @property
    def n_tokens(self) -> int:
        """Prompt and generated tokens."""
        return len(self.prompt.tokens) + len(self.generated)


@dataclass(frozen=True, slots=True)
class Found:
    """What a lookup found; changes nothing until it is allocated with."""

    tokens: int
    """Tokens that need not be computed."""
    blocks: tuple[list[int], ...]
    """Their blocks in each group, null where none is needed."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a step was given."""

    new: tuple[list[int], ...]
    """New blocks in each group."""
    evicted: list[int]
    """Those of them that were cached until now."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far a step goes, in tokens from the front."""

    local: int
    """Computed, or found here."""
    start: int
    """With what a connector brings: where computing begins."""
    end: int
    """Where it ends."""
    slots: int
    """The same, with room for drafted tokens."""


def check(shape: Shape) -> None:
    """Raises `UsageError` for a shape no engine has."""
    if shape.n_blocks < 2 or not shape.groups:
        raise UsageError(
            f"an engine with {shape.n_blocks} blocks and {len(shape.groups)} groups holds nothing: 2 and 1 are the least"
        )
    for group in shape.groups:
        if group.size < 1 or (group.kind in ("sliding_window", "chunked_local") and group.reach < 1):
            raise UsageError(
                f"a {group.kind} group of {group.size}-token blocks reaching {group.reach} tokens: pass 1 or more of each"
            )
    if any(group.size % shape.unit for group in shape.groups) or (
        len(shape.groups) == 1 and shape.unit != shape.groups[0].size
    ):
        raise UsageError(
            f"keys of {shape.unit} tokens: each group's block must be a multiple, a single group's block the same"
        )
    if shape.retention and shape.retention % shape.largest:
        raise UsageError(
            f"retention {shape.retention} is no multiple of the block size: a kept tail must end where a hit can"
        )
