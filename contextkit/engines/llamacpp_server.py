"""llama.cpp's server: slots and what they hold, checkpoints, context shift, and the host cache of whole states.

Measured with the server of llama.cpp b11549 on a CPU, call by call and slot by slot, except what is named as read in
its source or assumed; `docs/reference/engine-agreement.md` has the figures.

*Slots.* Among idle slots with something in them the one that shares the largest part of the prompt is chosen, if that
is more than the threshold; else the one not used for longest, among equals the last; in the second case, and where less
than half of a slot would be kept, its state is saved to the host cache first and a better one looked for there. Then
every other idle slot is saved too, and emptied where all share one memory (`--cache-idle-slots`, on by default, as four
slots with one memory are). In such a memory idle slots are emptied, the first one first, where a request does not fit
beside them. A request that names its slot (`id_slot`) gets that one, which below the threshold counts as keeping
nothing, as does one whose number is counted round since there are fewer; read in the source: it waits where that is
busy. A request under another adapter than the slot's last one empties it; one that names none goes on with what is there.
Shares of slots are computed in 32-bit floats, as upstream does; those of saved states are exact here.

*Contents.*The common prefix counts token by token, without blocks; the last token of a prompt is computed in any case;
a chunk of at least `n_reuse` tokens is kept behind a deletion, its keys turned to their new positions (a recurrent
state as it is), the cursor in the prompt never skipping; where the memory cannot be rolled back (recurrent state,
sliding window) the newest checkpoint not behind the difference is taken, or everything is computed again. Checkpoints
are made near the end of a prompt and, read in the source, at the starts of user messages. What a sliding window still
has is counted in cells (`llamacpp_cells`). Assumed: what was computed behind turned keys is as approximate as they are;
a hybrid of window and state is as either.

*End of a slot* (`SlotEnd`). A prompt as long as the slot, or longer, is refused, but leaves its traces: it takes a slot,
which goes through the host cache, and releases it as the most recently used. Before each generated token is computed
the slot must have room for two more, else generation stops there or, with `--context-shift`, half of what stands behind
the first `n_keep` tokens is dropped and the rest turned to its new positions, which ends the slot's checkpoints; the
last sampled token is never computed.
Nothing is turned, there or behind a deletion, where a sliding window has fewer cells than the slot has tokens.

*Host cache* (`--cache-ram`). Whole states of slots, with their checkpoints. Saving one drops those that begin it, then
the oldest until it fits; one that begins a saved one, or is larger than all the room, is not saved. Only then is a
better state looked for: better than the slot in both ways, in the part of itself that is kept (at least a quarter) and
in the part of the prompt that is served; an empty slot keeps nothing of itself, so any state serves it better. Taking
it moves it out; where the memory all slots share has no room for it, it stays and the slot is emptied.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from struct import pack as pack_bytes
from struct import unpack
from typing import Any, Literal

from contextkit.engines.llamacpp_cells import WindowCells
from contextkit.engines.token_ids import N_BYTES, shared
from contextkit.errors import UsageError

Memory = Literal["full", "window", "recurrent"]
"""What a model keeps: every token, the last ones, or one state."""


@dataclass(frozen=True, slots=True)
class Model:
    """How a model's memory can be cut, and how the server treats it."""

    memory: Memory = "full"
    """Only `full` can be cut anywhere."""
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
    window: tuple[int, ...] = ()
    """Positions of a sliding window that it holds, in the order of their cells."""


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
    window: tuple[int, ...] = ()
    """Of a saved state: positions of a sliding window that it holds, in the order of their cells."""

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
    restored: Checkpoint | None = None
    """The one the memory is taken back to, None where it need not be."""


def keep(content: Content, tokens: bytes, n_reuse: int, model: Model, first: int = 0) -> SlotReuse:
    """Find the part of `content` that serves this prompt; `n_reuse` 0 turns no chunks, `first` is the first position of
    which the memory has something.

    >>> from contextkit.engines.token_ids import pack
    >>> keep(Content(pack(range(40))), pack([*range(10), *range(20, 40)]), 8, Model())
    SlotReuse(n_tokens=29, n_exact=10, moved=((20, 10, 20),), checkpoints=(), restored=None)
    """
    n_prompt, n_prefix = len(tokens) // N_BYTES, content.common(tokens)
    moved = _moved(content, tokens, n_prefix, n_reuse) if n_reuse > 0 else ()
    n_past = n_prefix + sum(length for _, _, length in moved)
    n_past, restored = _roll_back(content, n_past, n_prompt, model, _first_behind(moved, first, len(content)))
    checkpoints = tuple(point for point in content.checkpoints if point.last <= n_past)
    n_tokens = min(n_past, restored.n_tokens if restored else n_past, max(0, n_prompt - 1))
    n_exact = min(n_tokens, n_prefix, n_tokens if content.n_exact is None else content.n_exact)
    return SlotReuse(n_tokens, n_exact, moved, checkpoints, restored)


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


def _first_behind(moved: tuple[tuple[int, int, int], ...], first: int, n_tokens: int) -> int:
    """The first position of which a memory has something once chunks have been turned; `first` of it before."""
    held = [(first, n_tokens)]
    for old, new, length in moved:
        inside = [(max(start, old), min(end, old + length)) for start, end in held]
        outside = [part for start, end in held for part in ((start, min(end, new)), (max(start, old + length), end))]
        held = [(start + new - old, end + new - old) for start, end in inside if start < end]
        held += [(start, end) for start, end in outside if start < end]
    return min((start for start, _ in held), default=-1)


def _roll_back(content: Content, n_past: int, n_prompt: int, model: Model, first: int) -> tuple[int, Checkpoint | None]:
    """Compute how far the memory can be taken back to `n_past`, and from which checkpoint."""
    window = model.n_window if model.memory == "window" else 0
    needed = max(0, n_past - window - (n_past == n_prompt))
    if model.memory == "full" or not 0 < n_past <= len(content) or first < needed:
        return n_past, None
    usable = (
        point
        for point in reversed(content.checkpoints)
        if point.last <= n_past and (point.first < needed or not point.first)
    )
    found = next(usable, None)
    return (min(n_past, max(found.first + 1, found.last)) if found else 0), found


def _next_stop(at: int, n_prompt: int, starts: Sequence[int], points: list[Checkpoint], model: Model) -> int:
    """Return where the batch that begins at `at` ends: full, at a user message, or a little before the end of the
    prompt.
    """
    ends = {min(at + model.n_batch, n_prompt)}
    if not model.max_checkpoints:
        return min(ends)
    ends |= {n_prompt - min(model.n_batch, rest) for rest in (4 + model.n_ubatch, 4)}
    far = points[-1].n_tokens + model.min_step if points else at
    ends |= {*starts[-1:], *starts[bisect_right(starts, max(at, far)) :][:1]}
    return min(end for end in ends if at < end <= n_prompt)


def _is_worth_it(
    start: int, end: int, n_prompt: int, starts: Sequence[int], points: list[Checkpoint], model: Model
) -> bool:
    """Return whether a checkpoint is made before the batch from `start` to `end`."""
    is_near_end = n_prompt < end + model.n_ubatch
    at = bisect_left(starts, start)
    is_user_start = starts[at : at + 1] == (start,)
    if end < n_prompt and not is_user_start and not is_near_end:
        return False
    is_far = not points or start > points[-1].n_tokens + model.min_step
    return is_near_end or starts[-1:] == (start,) or is_far


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
class SlotEnd:
    """The end of a slot."""

    n_tokens: int | None = None
    """Tokens one slot holds (`--ctx-size`, divided by `--parallel` unless the slots share one memory), None for no
    end."""
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


def growth(n_prompt: int, n_generated: int, end: SlotEnd) -> Iterator[tuple[int, int, int]]:
    """What generation does to a slot that holds a prompt: yield how many tokens it adds, then how many it drops behind
    how many of the first ones; the last sampled token is never computed.

    >>> list(growth(6, 4, SlotEnd(8, is_shifting=True, n_keep=2)))
    [(1, 2, 2), (2, 0, 0)]
    """
    n_held, n_more = n_prompt, n_generated - 1
    while n_more > 0:
        room = n_more if end.n_tokens is None else max(0, end.n_tokens - 1 - n_held)
        n_added = min(room, n_more)
        n_keep = n_gone = 0
        if n_added < n_more and end.is_shifting and end.n_tokens is not None:
            n_keep = (n_prompt if end.n_keep < 0 else end.n_keep) + end.has_bos
            n_keep = max(0, min(end.n_tokens - _ROOM, n_keep))
            n_left = n_held + n_added - n_keep
            n_gone = max(0, min(end.n_discard or n_left // 2, n_left - 1))
        yield n_added, n_keep, n_gone
        n_held, n_more = n_held + n_added - n_gone, n_more - n_added if n_gone else 0


_MIN_KEPT = 0.25
"""A state of which less would be kept is left where it is."""


@dataclass(frozen=True, slots=True)
class HostShape:
    """The host cache of a server, and what a state takes there."""

    max_bytes: int | None = 8192 << 20
    """Its size (`--cache-ram`, in MiB there); 0 for none, None for no limit in bytes: then as many tokens are held as
    the server has room for in its slots."""
    token_bytes: int = 131_072
    """Bytes of one token in layers that keep every token: Llama-3.1-8B in 16 bits, unless said otherwise."""
    window_token_bytes: int = 0
    """Bytes of one token in sliding-window layers."""
    state_bytes: int = 0
    """Bytes of a state, and of a checkpoint, beside its tokens: all of a recurrent one."""

    def size(self, content: Content) -> int:
        """Bytes of a saved state with its checkpoints."""
        if not (content.window or content.checkpoints):
            return len(content) * self.token_bytes + self.state_bytes
        n_windowed = len(content.window) + sum(len(point.window) for point in content.checkpoints)
        n_states = 1 + len(content.checkpoints)
        return len(content) * self.token_bytes + n_windowed * self.window_token_bytes + n_states * self.state_bytes


class HostCache:
    """Saved states.

    None of them begins another, so their tokens in sorted order have those that share most with a prompt around it.

    >>> from contextkit.engines.token_ids import pack
    >>> host = HostCache(HostShape(100, token_bytes=1))
    >>> host.save(Content(pack(range(60))))
    >>> state = host.best(Content(), pack(range(50)))
    >>> len(state), host.states == (state,)
    (60, True)
    """

    def __init__(self, shape: HostShape) -> None:
        self._shape = shape
        self._states: OrderedDict[bytes, tuple[int, Content]] = OrderedDict()
        self._sorted: list[bytes] = []
        self._n_saved = self._n_bytes = 0

    @property
    def is_on(self) -> bool:
        """Return whether states are saved at all."""
        return self._shape.max_bytes != 0

    @property
    def states(self) -> tuple[Content, ...]:
        """All of them, in the order they were saved."""
        return tuple(state for _, state in self._states.values())

    def save(self, content: Content) -> None:
        """Keep what a slot is about to lose, once there is room."""
        gone = self._making_room(content)
        if gone is None:
            return
        for tokens in gone:
            self._drop(tokens)
        insort(self._sorted, content.tokens)
        self._states[content.tokens] = self._n_saved, content
        self._n_saved += 1
        self._n_bytes += self._shape.size(content)

    def best(self, content: Content, tokens: bytes) -> Content | None:
        """The state that serves this prompt better than `content` does, once `content` has been saved."""
        similar, max_bytes = content.common(tokens), self._shape.max_bytes
        is_full = max_bytes is not None and self._n_bytes + self._shape.size(content) > max_bytes
        gone = (self._making_room(content) if is_full else None) or ()  # one that begins `content` is no better
        best, kept = None, similar / len(content) if content else -1.0
        for _, state, common in sorted(self._above(similar, tokens), key=lambda row: row[0]):
            of_state = common / len(state)
            if of_state >= _MIN_KEPT and of_state > kept and common > similar and state.tokens not in gone:
                best, kept, similar = state, of_state, common
        return best

    def take(self, state: Content) -> None:
        """Move a state out."""
        self._drop(state.tokens)

    def trim(self, n_tokens: int) -> None:
        """Drop the oldest until no more than so many tokens are held."""
        n_held = sum(map(len, self._states)) // N_BYTES
        while n_held > n_tokens:
            oldest = next(iter(self._states))
            n_held -= len(oldest) // N_BYTES
            self._drop(oldest)

    def _making_room(self, content: Content) -> list[bytes] | None:
        """The states that go when this one is saved: what begins it, and the oldest until it fits.

        None where it is not saved: it is empty, begins a saved one, or is larger than all the room.
        """
        tokens, max_bytes = content.tokens, self._shape.max_bytes
        at = bisect_left(self._sorted, tokens)
        if not tokens or (at < len(self._sorted) and self._sorted[at].startswith(tokens)):
            return None
        size = self._shape.size(content)
        if max_bytes is not None and size > max_bytes:
            return None
        gone = [self._sorted[at - 1]] if at and tokens.startswith(self._sorted[at - 1]) else []
        left = self._n_bytes + size - sum(self._shape.size(self._states[one][1]) for one in gone)
        for oldest, (_, state) in self._states.items():
            if max_bytes is None or left <= max_bytes:
                break
            if oldest not in gone:
                gone.append(oldest)
                left -= self._shape.size(state)
        return gone

    def _drop(self, tokens: bytes) -> None:
        self._n_bytes -= self._shape.size(self._states.pop(tokens)[1])
        del self._sorted[bisect_left(self._sorted, tokens)]

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


def _f32(value: float) -> float:
    """Round as the server does, in 32-bit floats: half of a slot may come out as less than a half."""
    return float(unpack("f", pack_bytes("f", value))[0])


@dataclass(frozen=True, slots=True)
class SlotShape:
    """One llama.cpp server; the defaults are those of one that is started without options."""

    n_slots: int = 4
    """Requests served at a time (`--parallel`)."""
    is_unified: bool = True
    """Whether the slots share one memory (`--kv-unified`): so where nobody says how many slots there are."""
    is_saving_idle: bool = True
    """Whether idle slots are saved to the host cache when a request starts, and emptied where they share one memory
    (`--cache-idle-slots`)."""
    similarity: float = 0.1
    """A slot is chosen for what it holds if it serves more than this part of the prompt (`--slot-prompt-similarity`); 0
    for never."""
    n_cache_reuse: int = 0
    """Shortest chunk that is kept at another position (`--cache-reuse`); 0 for none."""
    host: HostShape = field(default_factory=HostShape)
    """The host cache of whole states."""
    model: Model = field(default_factory=Model)
    """How the model's memory can be cut."""
    end: SlotEnd = field(default_factory=SlotEnd)
    """Where a slot ends, and what then."""


def slot_shape(n_slots: int | None = None, is_unified: bool | None = None, **options: Any) -> SlotShape:
    """The server that is started with these options; None stands for one that is left out.

    Without `--parallel` there are four slots that share one memory; with it each has its own, unless `--kv-unified` says
    otherwise.

    >>> slot_shape().is_unified, slot_shape(2).is_unified
    (True, False)
    """
    shared = n_slots is None if is_unified is None else is_unified
    return SlotShape(4 if n_slots is None else n_slots, shared, **options)


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
    adapter: str | None = None
    """The LoRA adapter its last request ran under."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What would happen to a prompt now."""

    slot: int
    """Index of the slot it gets."""
    is_saving: bool
    """Whether that slot's state goes through the host cache first."""
    content: Content
    """What the slot holds then: what it held, a saved state that serves better, or nothing where that one finds no
    room."""
    kept: SlotReuse
    """What of it is not computed again."""


class SlotServer:
    """Slots and saved states.

    >>> from contextkit.engines.token_ids import pack
    >>> server = SlotServer(SlotShape(n_slots=1))
    >>> plan = server.start(SlotRequest(pack(range(21))))
    >>> server.finish(plan.slot, generated=b"")
    >>> server.plan(SlotRequest(pack([*range(15), 900]))).kept.n_tokens
    15
    """

    def __init__(self, shape: SlotShape) -> None:
        """Empty slots; raises `UsageError` where there is none, or a window of nothing."""
        if shape.n_slots < 1:
            raise UsageError(f"a server with {shape.n_slots} slots serves nobody: pass 1 or more")
        if shape.model.memory == "window" and shape.model.n_window < 1:
            raise UsageError("a sliding window of no tokens holds nothing: pass n_window of 1 or more")
        model = replace(shape.model, n_ubatch=min(shape.model.n_ubatch, shape.model.n_batch))
        self.shape = shape = replace(shape, model=model)
        self.slots = [Slot() for _ in range(shape.n_slots)]
        self.host = HostCache(shape.host)
        self.n_released = 0
        self.n_started = 0
        self._cells = (
            WindowCells(
                shape.n_slots,
                is_shared=shape.is_unified,
                n_window=model.n_window,
                n_ubatch=model.n_ubatch,
                n_slot_tokens=shape.end.n_tokens,
            )
            if model.memory == "window"
            else None
        )
        self._can_shift = self._cells is None or self._cells.is_whole

    def plan(self, prompt: SlotRequest) -> Plan | None:
        """Return the slot this prompt would get and what it would keep.

        None where that is busy or too small. Changes nothing.
        """
        chosen = self._choose(prompt) if self.shape.end.takes(prompt.tokens) else None
        if chosen is None:
            return None
        number, is_saving = chosen
        content = self._best(number, prompt) if is_saving else self.slots[number].content
        if not prompt.is_caching or prompt.adapter not in (None, self.slots[number].adapter):
            return Plan(number, is_saving, content, SlotReuse(0, 0))
        first = len(content) - 1 if self.shape.model.memory == "recurrent" else 0
        if self._cells:
            is_own = content is self.slots[number].content
            first = self._cells.first(number) if is_own else min(content.window, default=0)
        n_reuse = self.shape.n_cache_reuse if prompt.n_reuse is None else prompt.n_reuse
        n_reuse = n_reuse if self._can_shift else 0
        kept = keep(content, prompt.tokens, n_reuse, self.shape.model, first)
        if content.adapter != prompt.adapter:
            kept = replace(kept, n_exact=0)
        return Plan(number, is_saving, content, kept)

    def start(self, prompt: SlotRequest, plan: Plan | None = None) -> Plan | None:
        """Give the prompt a slot and compute it there, as planned for it just now.

        None where it gets none. One that is refused, as it is too long, leaves its traces all the same: a slot is
        chosen for it, goes through the host cache, and is released as the most recently used.
        """
        plan = plan or self.plan(prompt)
        if plan is None:
            if not self.shape.end.takes(prompt.tokens):
                self._refuse(prompt)
            return None
        if plan.is_saving:
            self._swap(plan.slot, plan.content)
        self.slots[plan.slot].is_busy = True
        self._save_idle()
        self._compute(plan.slot, plan.kept, prompt)
        return plan

    def _compute(self, number: int, kept: SlotReuse, prompt: SlotRequest) -> None:
        """Compute a prompt behind what was kept of a slot, batch by batch, with checkpoints before some."""
        cells, model, n_prompt = self._cells, self.shape.model, len(prompt.tokens) // N_BYTES
        self.n_started += 1
        if cells:
            for old, new, length in kept.moved:
                cells.remove(number, new, old)
                cells.move(number, old, old + length, new - old)
            if kept.restored:
                cells.restore(number, kept.restored.window)
            cells.cut(number, kept.n_tokens)
        points, starts, at = list(kept.checkpoints), tuple(sorted(prompt.user_starts)), kept.n_tokens
        while at < n_prompt and model.memory != "full":
            start, at = at, _next_stop(at, n_prompt, starts, points, model)
            if start and model.max_checkpoints and _is_worth_it(start, at, n_prompt, starts, points, model):
                first, window = (cells.first(number), cells.saved(number)) if cells else (start - 1, ())
                if first >= 0:  # a window may have been cut down to nothing
                    _add(points, Checkpoint(start, first, start - 1, self.n_started, window), model)
            self._purge(number, at)
            if cells:
                cells.add(number, at - start)
        self._purge(number, n_prompt)
        n_exact = kept.n_exact if kept.n_exact < kept.n_tokens else None
        slot = self.slots[number]
        slot.content, slot.adapter = Content(prompt.tokens, n_exact, tuple(points), prompt.adapter), prompt.adapter

    def finish(self, number: int, generated: bytes, end: SlotEnd | None = None) -> None:
        """Release a slot with what was generated in it; `end` is the request's own, None for the server's."""
        slot, end = self.slots[number], end or self.shape.end
        if not self._can_shift:
            end = replace(end, is_shifting=False)
        content, rest, cells = slot.content, generated, self._cells
        for n_added, n_keep, n_gone in growth(len(content), len(generated) // N_BYTES, end):
            n_held = len(content) + n_added
            if cells:
                for n_tokens in range(len(content) + 1, n_held + 1):
                    self._purge(number, n_tokens)
                    cells.add(number, 1)
            elif n_added:
                self._purge(number, n_held)
            tokens, rest = content.tokens + rest[: n_added * N_BYTES], rest[n_added * N_BYTES :]
            n_exact, checkpoints = content.n_exact, content.checkpoints
            if n_gone:
                if cells:
                    cells.remove(number, n_keep, n_keep + n_gone)
                    cells.move(number, n_keep + n_gone, n_held, -n_gone)
                tokens = tokens[: n_keep * N_BYTES] + tokens[(n_keep + n_gone) * N_BYTES :]
                n_exact, checkpoints = n_keep if n_exact is None else min(n_keep, n_exact), ()
            content = Content(tokens, n_exact, checkpoints, content.adapter)
        slot.content = content
        self._release(slot)

    def _refuse(self, prompt: SlotRequest) -> None:
        chosen = self._choose(prompt)
        if chosen is not None:
            number, is_saving = chosen
            if is_saving:
                self._swap(number, self._best(number, prompt))
            self.slots[number].is_busy = True
            self._save_idle()
            self._release(self.slots[number])

    def _release(self, slot: Slot) -> None:
        slot.is_busy, slot.used = False, self.n_released
        self.n_released += 1

    def _best(self, number: int, prompt: SlotRequest) -> Content:
        """What a slot holds once it has been saved and the host cache has been looked at for this prompt."""
        state = self.host.best(self._saved(number), prompt.tokens)
        if state is None:
            return self.slots[number].content
        n_left = self._n_left(number)
        is_fitting = n_left is None or len(state) <= n_left
        if self._cells:
            is_fitting = is_fitting and self._cells.has_room(number, len(state.window))
        return state if is_fitting else EMPTY

    def _swap(self, number: int, content: Content) -> None:
        """Save a slot to the host cache and put there what `_best` found."""
        slot = self.slots[number]
        self.host.save(self._saved(number))
        if content is EMPTY:
            self._empty(number)
        elif content is not slot.content:
            self.host.take(content)
            slot.content = replace(content, window=())
            if self._cells:
                self._cells.restore(number, content.window)
        self._trim()

    def _trim(self) -> None:
        """Keep no more on a host without a limit than the slots have room for."""
        n_tokens = self.shape.end.n_tokens
        if self.shape.host.max_bytes is None and n_tokens is not None:
            self.host.trim(n_tokens * (1 if self.shape.is_unified else len(self.slots)))

    def _save_idle(self) -> None:
        """Save what idle slots hold when a request starts; where all share one memory, empty them."""
        if not (self.shape.is_saving_idle and self.host.is_on):
            return
        for number, slot in enumerate(self.slots):
            if not slot.is_busy:
                self.host.save(self._saved(number))
                if self.shape.is_unified:
                    self._empty(number)
                self._trim()

    def _n_left(self, number: int) -> int | None:
        """Tokens for which a slot has room beside the other slots' in a memory all share; None for no end."""
        if not self.shape.is_unified or self.shape.end.n_tokens is None or self.shape.model.memory == "recurrent":
            return None
        others = (len(slot.content) for other, slot in enumerate(self.slots) if other != number)
        return self.shape.end.n_tokens - sum(others)

    def _purge(self, number: int, n_tokens: int) -> None:
        """Empty idle slots, the first ones first, until a slot has room for so many tokens."""
        n_left = self._n_left(number)
        for other, slot in enumerate(self.slots):
            if n_left is not None and n_left < n_tokens and not slot.is_busy:
                n_left += len(slot.content)
                self._empty(other)

    def _empty(self, number: int) -> None:
        self.slots[number].content = EMPTY
        if self._cells:
            self._cells.cut(number, 0)

    def _saved(self, number: int) -> Content:
        """What a slot holds, as it is saved."""
        content = self.slots[number].content
        return replace(content, window=self._cells.saved(number)) if self._cells else content

    def _choose(self, prompt: SlotRequest) -> tuple[int, bool] | None:
        """Index of the slot, and whether its state is to be saved."""
        wanted = -1 if prompt.id_slot is None else prompt.id_slot
        named = wanted % len(self.slots) if wanted >= 0 else None
        idle = [number for number, slot in enumerate(self.slots) if not slot.is_busy and named in (None, number)]
        least, n_prompt = _f32(self.shape.similarity), max(1, len(prompt.tokens) // N_BYTES)
        alike = dict[int, float]()
        for number in idle if least and wanted < len(self.slots) else ():  # a number counted round is like no slot
            share = _f32(self.slots[number].content.common(prompt.tokens) / n_prompt)
            if share > least:
                alike[number] = share
        best = max(alike, key=lambda number: alike[number], default=None)  # of equals the first
        if named is not None and idle:
            best = named
        if best is not None:
            n_held = len(self.slots[best].content)
            kept = _f32(_f32(alike.get(best, 0.0) * n_prompt) / n_held) if n_held else 1.0
            return best, self.host.is_on and self.shape.similarity > 0 and kept < _HALF
        oldest = min(idle, key=lambda number: (self.slots[number].used, -number), default=None)
        return None if oldest is None else (oldest, self.host.is_on)
