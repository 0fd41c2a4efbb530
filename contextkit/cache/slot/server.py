"""llama.cpp's server: a prompt gets a slot, the slot keeps what it can and holds what was computed.

Takes packed prompts, gives what was kept; knows nothing of bills.

Read in the source of llama.cpp's server: among idle slots with something in them the one that shares the largest part
of the prompt is chosen, if that is more than the threshold; else the one not used for longest, among equals the last;
in the second case, and where less than half of a slot would be kept, its state is saved to the host cache first and a
better one looked for there. A request that names its slot (`id_slot`, counted round where there are fewer) gets that
one or waits; below the threshold that one counts as keeping nothing (releases of 2025 never saved for such a request).
A change of adapter empties a slot. Assumed: `--cache-idle-slots` is off. Upstream computes the shares in 32-bit floats,
here they are exact; a share equal to a threshold is above it in neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from contextkit.cache.packed import N_BYTES
from contextkit.cache.slot.content import EMPTY, Content, Kept, Model, computed, keep
from contextkit.cache.slot.host import HostCache
from contextkit.cache.slot.window import Window, grown
from contextkit.errors import UsageError

_HALF = 0.5
"""A slot that would keep less than this part of itself is saved first."""


@dataclass(frozen=True, slots=True)
class SlotShape:
    """One llama.cpp server."""

    n_slots: int = 1
    """Requests served at a time (`--parallel`)."""
    similarity: float = 0.1
    """A slot is chosen for what it holds if it serves more than this part of the prompt (`--slot-prompt-similarity`); 0
    for never."""
    n_host_tokens: int | None = 65_536
    """Size of the host prompt cache (`--cache-ram`) in tokens, None for unlimited, 0 for none; the 8192 MiB of the
    default are 65,536 tokens at 131,072 bytes each, which is Llama-3.1-8B in 16 bits."""
    n_cache_reuse: int = 0
    """Shortest chunk that is kept at another position (`--cache-reuse`); 0 for none."""
    model: Model = field(default_factory=Model)
    """How the model's memory can be cut."""
    window: Window = field(default_factory=Window)
    """Where a slot ends, and what then."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt and how it is to be served."""

    tokens: bytes
    """Its tokens' memory."""
    adapter: str | None = None
    """The LoRA adapter it runs under."""
    is_caching: bool = True
    """`cache_prompt`: whether anything may be kept for it."""
    n_reuse: int | None = None
    """`n_cache_reuse` of this request; None for the server's."""
    user_starts: tuple[int, ...] = ()
    """Where user messages begin: checkpoints are made there."""
    id_slot: int | None = None
    """The slot it wants, None or -1 for any."""


@dataclass(slots=True)
class Slot:
    """One sequence."""

    content: Content = EMPTY
    """What it holds; while it is busy, what it held is kept only as far as it serves."""
    is_busy: bool = False
    """Whether a request is under way in it."""
    used: int = -1
    """When it was last released, counted in releases; -1 for never."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What would happen to a prompt now."""

    slot: int
    """Index of the slot it gets."""
    is_saving: bool
    """Whether that slot's state goes through the host cache first."""
    kept: Kept
    """What is not computed again."""
    state: Content | None = None
    """The saved state that takes its place, None where none is better."""


class SlotServer:
    """Slots and saved states.

    >>> from contextkit.cache.packed import pack
    >>> server = SlotServer(SlotShape())
    >>> plan = server.start(Asked(pack(range(21))))
    >>> server.finish(plan.slot, generated=b"")
    >>> server.plan(Asked(pack([*range(15), 900]))).kept.n_tokens
    15
    """

    def __init__(self, shape: SlotShape) -> None:
        """Empty slots; raises `UsageError` where there is none."""
        if shape.n_slots < 1:
            raise UsageError(f"a server with {shape.n_slots} slots serves nobody: pass 1 or more")
        self.shape = shape
        self.slots = [Slot() for _ in range(shape.n_slots)]
        self.host = HostCache(shape.n_host_tokens)
        self.n_released = 0
        self.n_started = 0

    def plan(self, prompt: Asked) -> Plan | None:
        """Which slot this prompt would get and what it would keep.

        None where that is busy or too small. Changes nothing.
        """
        chosen = self._choose(prompt) if self.shape.window.takes(prompt.tokens) else None
        if chosen is None:
            return None
        number, is_saving = chosen
        content = self.slots[number].content
        state = self.host.best(content, prompt.tokens) if is_saving else None
        content = state or content
        if not prompt.is_caching or content.adapter != prompt.adapter:
            return Plan(number, is_saving, Kept(0, 0), state)
        n_reuse = self.shape.n_cache_reuse if prompt.n_reuse is None else prompt.n_reuse
        return Plan(number, is_saving, keep(content, prompt.tokens, n_reuse, self.shape.model), state)

    def start(self, prompt: Asked, plan: Plan | None = None) -> Plan | None:
        """Give the prompt a slot and compute it there, as planned for it just now.

        None, and nothing changed, where it gets none.
        """
        plan = plan or self.plan(prompt)
        if plan is None:
            return None
        slot = self.slots[plan.slot]
        if plan.is_saving:
            self._swap(slot, plan.state)
        self.n_started += 1
        content = computed(plan.kept, prompt.tokens, prompt.user_starts, self.n_started, self.shape.model)
        slot.content, slot.is_busy = replace(content, adapter=prompt.adapter), True
        return plan

    def finish(self, number: int, generated: bytes, window: Window | None = None) -> None:
        """Release a slot with what was generated in it; `window` is the request's own, None for the server's."""
        slot = self.slots[number]
        slot.content = grown(slot.content, generated, window or self.shape.window, self.shape.model)
        slot.is_busy, slot.used = False, self.n_released
        self.n_released += 1

    def _choose(self, prompt: Asked) -> tuple[int, bool] | None:
        """Index of the slot, and whether its state is to be saved."""
        named = None if prompt.id_slot is None or prompt.id_slot < 0 else prompt.id_slot % len(self.slots)
        idle = [number for number, slot in enumerate(self.slots) if not slot.is_busy and named in (None, number)]
        alike = {number: n for number in idle if (n := self._alike(number, prompt.tokens))}
        best = max(alike, key=lambda number: alike[number], default=None)  # of equals the first
        if named is not None and idle:
            best = named
        if best is not None:
            is_saving = self.shape.similarity > 0 and alike.get(best, 0) < _HALF * len(self.slots[best].content)
            return best, self.host.is_on and is_saving
        oldest = min(idle, key=lambda number: (self.slots[number].used, -number), default=None)
        return None if oldest is None else (oldest, self.host.is_on)

    def _alike(self, number: int, tokens: bytes) -> int:
        """Tokens of the prompt a slot has, 0 where they are too few to choose it for."""
        n = self.slots[number].content.common(tokens) if self.shape.similarity else 0
        return n if n * N_BYTES / max(1, len(tokens)) > self.shape.similarity else 0

    def _swap(self, slot: Slot, state: Content | None) -> None:
        """Save the state the slot is about to lose, and take a better one: saving changes nothing about which that is."""
        self.host.save(slot.content)
        if state is not None:
            self.host.take(state)
            slot.content = state
        self.host.trim()
