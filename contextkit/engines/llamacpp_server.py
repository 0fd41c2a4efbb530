"""llama.cpp's server: slots and what they hold, checkpoints, context shift, and the host cache of whole states.

Read in the source of llama.cpp's server, except what is named as assumed.

*Slots.* Among idle slots with something in them the one that shares the largest part of the prompt is chosen, if that
is more than the threshold; else the one not used for longest, among equals the last; in the second case, and where less
than half of a slot would be kept, its state is saved to the host cache first and a better one looked for there. A
request that names its slot (`id_slot`, counted round where there are fewer) gets that one or waits; below the threshold
that one counts as keeping nothing (releases of 2025 never saved for such a request). A change of adapter empties a
slot. Assumed: `--cache-idle-slots` is off. Upstream computes the shares in 32-bit floats, here they are exact; a share
equal to a threshold is above it in neither.

*Contents.* The common prefix counts token by token, without blocks; the last token of a prompt is computed in any case;
a chunk of at least `n_reuse` tokens is kept behind a deletion, its keys turned to their new positions, the cursor in
the prompt never skipping; where the memory cannot be rolled back (recurrent state, sliding window) the newest
checkpoint not behind the difference is taken, or everything is computed again. Checkpoints are made at the starts of
user messages and near the end of a prompt. Assumed: a sliding window keeps window + ubatch tokens; what was computed
behind turned keys is as approximate as they are.

*End of a slot* (`Window`). A prompt as long as the slot, or longer, is refused; before each generated token is computed
the slot must have room for two more, else generation stops there or, with `--context-shift`, half of what stands behind
the first `n_keep` tokens is dropped and the rest turned to its new positions; the last sampled token is never computed.
Models whose memory cannot be cut do not shift.

*Host cache* (`--cache-ram`). Whole states of slots, oldest dropped first: a state that begins a saved one is not saved
again; saving one drops those that begin it; a state is taken only if it is better than the slot in both ways, in the
part of itself that is kept (at least a quarter) and in the part of the prompt that is served; taking it moves it out;
at least one is kept, however large. An empty slot keeps nothing of itself, so any state serves it better. Assumed:
sizes are counted in tokens, checkpoints left out; an empty slot is not saved.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from contextkit.engines.token_ids import N_BYTES, shared
from contextkit.errors import UsageError

Memory = Literal["full", "window", "recurrent"]
"""What a model keeps: every token, the last ones, or one state."""


@dataclass(frozen=True, slots=True)
class Model:
    """How a model's memory can be cut, and how the server treats it."""

    memory: Memory = "full"
    """Only `full` can be cut anywhere, or turned to other positions."""
    n_window: int = 0
    """Tokens of the sliding window, for `window`."""
    n_batch: int = 2048
    """Tokens computed at a time (`--batch-size`)."""
    n_ubatch: int = 512
    """Tokens of one pass (`--ubatch-size`)."""
    max_checkpoints: int = 32
    """Checkpoints a slot may hold (`--ctx-checkpoints`)."""
    min_step: int = 8192
    """Tokens between two checkpoints in the middle of a prompt."""

    def first_in_memory(self, n_tokens: int) -> int:
        """The first position whose memory is still there after so many tokens; -1 for none.

        >>> Model().first_in_memory(9), Model("recurrent").first_in_memory(9), Model("window", 4, n_ubatch=2).first_in_memory(9)
        (0, 8, 3)
        """
        reach = {"full": n_tokens, "window": self.n_window + self.n_ubatch, "recurrent": 1}[self.memory]
        return max(0, n_tokens - reach) if n_tokens else -1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A saved state of a memory that cannot be rolled back."""

    n_tokens: int
    """Tokens before it."""
    first: int
    """First position it has memory of."""
    last: int
    """Last position it has memory of."""
    task: int
    """The request that made it."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a slot, or a saved state, has in its memory."""

    tokens: bytes = b""
    """Its tokens' memory."""
    n_exact: int | None = None
    """So many tokens from the front are as a fresh computation would leave them; None for all."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Oldest first."""
    adapter: str | None = None
    """The LoRA adapter it was computed under."""

    def __len__(self) -> int:
        return len(self.tokens) // N_BYTES

    def common(self, tokens: bytes) -> int:
        """Tokens it shares with a prompt from the front."""
        return shared(self.tokens, 0, tokens, 0, min(len(self.tokens), len(tokens)), N_BYTES) // N_BYTES


EMPTY = Content()
"""What a slot holds at first."""


@dataclass(frozen=True, slots=True)
class SlotReuse:
    """How much of a slot a prompt goes on with."""

    n_tokens: int
    """Tokens that are not computed again."""
    n_exact: int
    """Of these, from the front, those no turning has touched."""
    moved: tuple[tuple[int, int, int], ...] = ()
    """Chunks that were turned: from, to, length."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Those that are still of use."""


def keep(content: Content, tokens: bytes, n_reuse: int, model: Model) -> SlotReuse:
    """Find the part of `content` that serves this prompt; `n_reuse` 0 turns no chunks.

    >>> from contextkit.engines.token_ids import pack
    >>> keep(Content(pack(range(40))), pack([*range(10), *range(20, 40)]), 8, Model())
    SlotReuse(n_tokens=29, n_exact=10, moved=((20, 10, 20),), checkpoints=())
    """
    n_prompt, n_prefix = len(tokens) // N_BYTES, content.common(tokens)
    moved = _moved(content, tokens, n_prefix, n_reuse) if n_reuse > 0 and model.memory == "full" else ()
    n_past, checkpoints = _roll_back(content, n_prefix + sum(length for _, _, length in moved), n_prompt, model)
    n_tokens = min(n_past, max(0, n_prompt - 1))
    n_exact = min(n_tokens, n_prefix, n_tokens if content.n_exact is None else content.n_exact)
    return SlotReuse(n_tokens, n_exact, moved, checkpoints)


def _moved(content: Content, tokens: bytes, n_prefix: int, n_reuse: int) -> tuple[tuple[int, int, int], ...]:
    """Runs behind the prefix, each found where the last one ended or later."""
    moved: list[tuple[int, int, int]] = []
    old = new = n_prefix * N_BYTES
    needle = n_reuse * N_BYTES
    while len(tokens) - new >= needle:
        run = tokens[new : new + needle]
        old = content.tokens.find(run, old)
        while old % N_BYTES and old >= 0:  # inside a token
            old = content.tokens.find(run, old + 1)
        if old < 0:
            break
        length = shared(content.tokens, old, tokens, new, min(len(content.tokens) - old, len(tokens) - new), N_BYTES)
        moved.append((old // N_BYTES, new // N_BYTES, length // N_BYTES))
        old, new = old + length, new + length
    return tuple(moved)


def _roll_back(content: Content, n_past: int, n_prompt: int, model: Model) -> tuple[int, tuple[Checkpoint, ...]]:
    """Compute how far the memory can be taken back to `n_past`, and the checkpoints that outlive it."""
    window = model.n_window if model.memory == "window" else 0
    needed = max(0, n_past - window - (n_past == n_prompt))
    reached = n_past
    if model.memory != "full" and 0 < n_past <= len(content) and model.first_in_memory(len(content)) >= needed:
        usable = (
            point
            for point in reversed(content.checkpoints)
            if point.last <= n_past and (point.first < needed or not point.first)
        )
        found = next(usable, None)
        n_past = min(n_past, max(found.first + 1, found.last)) if found else 0
        reached = min(n_past, found.n_tokens) if found else 0
    return reached, tuple(point for point in content.checkpoints if point.last <= n_past)


def computed(kept: SlotReuse, tokens: bytes, user_starts: Sequence[int], task: int, model: Model) -> Content:
    """The slot once the prompt has been computed behind what was kept."""
    n_exact = kept.n_exact if kept.n_exact < kept.n_tokens else None
    if model.memory == "full" or model.max_checkpoints < 1:
        return Content(tokens, n_exact, kept.checkpoints)
    points = list(kept.checkpoints)
    n_prompt, starts, at = len(tokens) // N_BYTES, frozenset(user_starts), kept.n_tokens
    while at < n_prompt:
        start, at = at, _next_stop(at, n_prompt, starts, points, model)
        if start and _is_worth_it(start, at, n_prompt, starts, points, model):
            _add(points, Checkpoint(start, model.first_in_memory(start), start - 1, task), model)
    return Content(tokens, n_exact, tuple(points))


def _is_far(position: int, points: list[Checkpoint], model: Model) -> bool:
    return not points or position > points[-1].n_tokens + model.min_step


def _next_stop(at: int, n_prompt: int, starts: frozenset[int], points: list[Checkpoint], model: Model) -> int:
    """Return where the batch that begins at `at` ends: full, at a user message, or a little before the end of the
    prompt.
    """
    ends = {min(at + model.n_batch, n_prompt)}
    ends |= {n_prompt - min(model.n_batch, rest) for rest in (4 + model.n_ubatch, 4)}
    ends |= {start for start in starts if start == max(starts) or _is_far(start, points, model)}
    return min(end for end in ends if at < end <= n_prompt)


def _is_worth_it(
    start: int, end: int, n_prompt: int, starts: frozenset[int], points: list[Checkpoint], model: Model
) -> bool:
    """Return whether a checkpoint is made before the batch from `start` to `end`."""
    is_near_end = n_prompt < end + model.n_ubatch
    if end < n_prompt and start not in starts and not is_near_end:
        return False
    return is_near_end or start == max(starts, default=-1) or _is_far(start, points, model)


def _add(points: list[Checkpoint], new: Checkpoint, model: Model) -> None:
    """Append one, making room: first what stands close behind an earlier one of another request, then the oldest."""
    last, index = -1, 0
    while len(points) + 1 >= model.max_checkpoints and index < len(points):
        point = points[index]
        if point.task != new.task and last >= 0 and point.n_tokens <= last + model.min_step:
            del points[index]
        else:
            last, index = point.n_tokens, index + 1
    del points[: max(0, len(points) - model.max_checkpoints + 1)]
    points[:] = [*(point for point in points if point.n_tokens != new.n_tokens), new]


_ROOM = 4
"""Tokens at the end of a slot that `n_keep` never covers."""


@dataclass(frozen=True, slots=True)
class Window:
    """The end of a slot."""

    n_tokens: int | None = None
    """Tokens one slot holds (`--ctx-size` over `--parallel`), None for no end."""
    is_shifting: bool = False
    """`--context-shift`: whether generation goes on beyond it."""
    n_keep: int = 0
    """Tokens at the front that no shift drops (`--keep`); -1 for all of the prompt."""
    n_discard: int = 0
    """Tokens one shift drops; 0 for half of those that may be dropped."""
    has_bos: bool = False
    """Whether the vocabulary puts a token before every prompt, which is kept beside `n_keep`."""

    def takes(self, tokens: bytes) -> bool:
        """Return whether a prompt is let in."""
        return self.n_tokens is None or len(tokens) < self.n_tokens * N_BYTES


def grown(content: Content, generated: bytes, window: Window, model: Model) -> Content:
    """Return the content of a slot that held a prompt, once these tokens have been sampled.

    >>> from array import array
    >>> from contextkit.engines.token_ids import pack
    >>> held = grown(Content(pack(range(6))), pack([10, 11, 12, 13]), Window(8, is_shifting=True, n_keep=2), Model())
    >>> array("i", held.tokens).tolist(), held.n_exact
    ([0, 1, 4, 5, 10, 11, 12], 2)
    """
    rest = generated[:-N_BYTES]
    if window.n_tokens is None:
        return replace(content, tokens=content.tokens + rest)
    n_prompt, last = len(content), (window.n_tokens - 1) * N_BYTES
    while len(content.tokens) + len(rest) > last:
        n_fitting = max(0, last - len(content.tokens))
        content = replace(content, tokens=content.tokens + rest[:n_fitting])
        if not window.is_shifting or model.memory != "full":
            return content
        before = len(content)
        content, rest = _shifted(content, n_prompt, window), rest[n_fitting:]
        if len(content) == before:
            return content
    return replace(content, tokens=content.tokens + rest)


def _shifted(content: Content, n_prompt: int, window: Window) -> Content:
    n_keep = (n_prompt if window.n_keep < 0 else window.n_keep) + window.has_bos
    n_keep = max(0, min((window.n_tokens or 0) - _ROOM, n_keep))
    n_left = len(content) - n_keep
    n_gone = max(0, min(window.n_discard or n_left // 2, n_left - 1))
    tokens = content.tokens[: n_keep * N_BYTES] + content.tokens[(n_keep + n_gone) * N_BYTES :]
    n_exact = n_keep if content.n_exact is None else min(n_keep, content.n_exact)
    return replace(content, tokens=tokens, n_exact=n_exact)


_MIN_KEPT = 0.25
"""A state of which less would be kept is left where it is."""


class HostCache:
    """Saved states.

    None of them begins another, so their tokens in sorted order have those that share most with a prompt around it.

    >>> from contextkit.engines.token_ids import pack
    >>> host = HostCache(100)
    >>> host.save(Content(pack(range(60))))
    >>> state = host.best(Content(), pack(range(50)))
    >>> len(state), host.states == (state,)
    (60, True)
    """

    def __init__(self, max_tokens: int | None) -> None:
        """`max_tokens`: as many are kept, None for all, 0 for none."""
        self._max_tokens = max_tokens
        self._states: OrderedDict[bytes, tuple[int, Content]] = OrderedDict()
        self._sorted: list[bytes] = []
        self._n_saved = self._n_tokens = 0

    @property
    def is_on(self) -> bool:
        """Return whether states are saved at all."""
        return self._max_tokens != 0

    @property
    def states(self) -> tuple[Content, ...]:
        """All of them, in the order they were saved."""
        return tuple(state for _, state in self._states.values())

    def save(self, content: Content) -> None:
        """Keep what a slot is about to lose."""
        tokens = content.tokens
        at = bisect_left(self._sorted, tokens)
        if not tokens or (at < len(self._sorted) and self._sorted[at].startswith(tokens)):
            return
        if at and tokens.startswith(self._sorted[at - 1]):
            self._drop(self._sorted[at - 1])
        insort(self._sorted, tokens)
        self._states[tokens] = self._n_saved, content
        self._n_saved += 1
        self._n_tokens += len(content)

    def best(self, content: Content, tokens: bytes) -> Content | None:
        """The state that serves this prompt better than `content` does."""
        similar = content.common(tokens)
        best, kept = None, similar / len(content) if content else -1.0
        for _, state, common in sorted(self._above(similar, tokens), key=lambda row: row[0]):
            of_state = common / len(state)
            if of_state >= _MIN_KEPT and of_state > kept and common > similar:
                best, kept, similar = state, of_state, common
        return best

    def take(self, state: Content) -> None:
        """Move a state out."""
        self._drop(state.tokens)

    def trim(self) -> None:
        """Drop the oldest until the rest fits, or one is left."""
        while self._max_tokens is not None and len(self._states) > 1 and self._n_tokens > self._max_tokens:
            self._drop(next(iter(self._states)))

    def _drop(self, tokens: bytes) -> None:
        del self._states[tokens]
        del self._sorted[bisect_left(self._sorted, tokens)]
        self._n_tokens -= len(tokens) // N_BYTES

    def _above(self, common: int, tokens: bytes) -> list[tuple[int, Content, int]]:
        """The states that share more than `common` tokens with a prompt: when each was saved, what it is, how much it
        shares.
        """
        at, view = bisect_left(self._sorted, tokens), memoryview(tokens)
        found: list[tuple[int, Content, int]] = []
        for others in (range(at, len(self._sorted)), range(at - 1, -1, -1)):
            limit = len(tokens)  # what is farther off in the row shares no more than what is nearer
            for index in others:
                key = self._sorted[index]
                if not key.startswith(view[:limit]):
                    limit = shared(key, 0, tokens, 0, min(len(key), limit), N_BYTES)
                if limit <= common * N_BYTES:
                    break
                found.append((*self._states[key], limit // N_BYTES))
        return found


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
class SlotRequest:
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
    kept: SlotReuse
    """What is not computed again."""
    state: Content | None = None
    """The saved state that takes its place, None where none is better."""


class SlotServer:
    """Slots and saved states.

    >>> from contextkit.engines.token_ids import pack
    >>> server = SlotServer(SlotShape())
    >>> plan = server.start(SlotRequest(pack(range(21))))
    >>> server.finish(plan.slot, generated=b"")
    >>> server.plan(SlotRequest(pack([*range(15), 900]))).kept.n_tokens
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

    def plan(self, prompt: SlotRequest) -> Plan | None:
        """Return the slot this prompt would get and what it would keep.

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
            return Plan(number, is_saving, SlotReuse(0, 0), state)
        n_reuse = self.shape.n_cache_reuse if prompt.n_reuse is None else prompt.n_reuse
        return Plan(number, is_saving, keep(content, prompt.tokens, n_reuse, self.shape.model), state)

    def start(self, prompt: SlotRequest, plan: Plan | None = None) -> Plan | None:
        """Give the prompt a slot and compute it there, as planned for it just now.

        None, and nothing changed, where it gets none.
        """
        plan = plan or self.plan(prompt)
        if plan is None:
            return None
        slot = self.slots[plan.slot]
        if plan.is_saving:  # saving changes nothing about which state is better
            self.host.save(slot.content)
            if plan.state is not None:
                self.host.take(plan.state)
            self.host.trim()
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

    def _choose(self, prompt: SlotRequest) -> tuple[int, bool] | None:
        """Index of the slot, and whether its state is to be saved."""
        named = None if prompt.id_slot is None or prompt.id_slot < 0 else prompt.id_slot % len(self.slots)
        idle = [number for number, slot in enumerate(self.slots) if not slot.is_busy and named in (None, number)]
        least, alike = self.shape.similarity, dict[int, int]()
        for number in idle if least else ():
            n = self.slots[number].content.common(prompt.tokens)
            if n * N_BYTES / max(1, len(prompt.tokens)) > least:
                alike[number] = n
        best = max(alike, key=lambda number: alike[number], default=None)  # of equals the first
        if named is not None and idle:
            best = named
        if best is not None:
            is_saving = self.shape.similarity > 0 and alike.get(best, 0) < _HALF * len(self.slots[best].content)
            return best, self.host.is_on and is_saving
        oldest = min(idle, key=lambda number: (self.slots[number].used, -number), default=None)
        return None if oldest is None else (oldest, self.host.is_on)
