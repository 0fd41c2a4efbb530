"""What one slot holds, how much of it a prompt can go on with, and where a model that cannot roll back leaves
checkpoints.

Takes packed tokens, gives lengths; knows nothing of slots' choice.

Read in the source of llama.cpp's server: the common prefix counts token by token, without blocks; the last token of a
prompt is computed in any case; a chunk of at least `n_reuse` tokens is kept behind a deletion, its keys turned to their
new positions, the cursor in the prompt never skipping; where the memory cannot be rolled back (recurrent state, sliding
window) the newest checkpoint not behind the difference is taken, or everything is computed again. Checkpoints are made
at the starts of user messages and near the end of a prompt. Assumed: a sliding window keeps window + ubatch tokens;
what was computed behind turned keys is as approximate as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from contextkit.cache.packed import N_BYTES, shared

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

    def first_kept(self, n_tokens: int) -> int:
        """The first position whose memory is still there after so many tokens; -1 for none.

        >>> Model().first_kept(9), Model("recurrent").first_kept(9), Model("window", 4, n_ubatch=2).first_kept(9)
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
class Kept:
    """How much of a slot a prompt goes on with."""

    n_tokens: int
    """Tokens that are not computed again."""
    n_exact: int
    """Of these, from the front, those no turning has touched."""
    moved: tuple[tuple[int, int, int], ...] = ()
    """Chunks that were turned: from, to, length."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Those that are still of use."""


def keep(content: Content, tokens: bytes, n_reuse: int, model: Model) -> Kept:
    """What of `content` serves this prompt; `n_reuse` 0 turns no chunks.

    >>> from contextkit.cache.packed import pack
    >>> keep(Content(pack(range(40))), pack([*range(10), *range(20, 40)]), 8, Model())
    Kept(n_tokens=29, n_exact=10, moved=((20, 10, 20),), checkpoints=())
    """
    n_prompt, n_prefix = len(tokens) // N_BYTES, content.common(tokens)
    moved = _moved(content, tokens, n_prefix, n_reuse) if n_reuse > 0 and model.memory == "full" else ()
    n_past, checkpoints = _roll_back(content, n_prefix + sum(length for _, _, length in moved), n_prompt, model)
    n_tokens = min(n_past, max(0, n_prompt - 1))
    n_exact = min(n_tokens, n_prefix, n_tokens if content.n_exact is None else content.n_exact)
    return Kept(n_tokens, n_exact, moved, checkpoints)


def _moved(content: Content, tokens: bytes, n_prefix: int, n_reuse: int) -> tuple[tuple[int, int, int], ...]:
    """Runs behind the prefix, each found where the last one ended or later."""
    moved: list[tuple[int, int, int]] = []
    old = new = n_prefix * N_BYTES
    needle = n_reuse * N_BYTES
    while len(tokens) - new >= needle and (old := _find(content.tokens, tokens[new : new + needle], old)) >= 0:
        length = shared(content.tokens, old, tokens, new, min(len(content.tokens) - old, len(tokens) - new), N_BYTES)
        moved.append((old // N_BYTES, new // N_BYTES, length // N_BYTES))
        old, new = old + length, new + length
    return tuple(moved)


def _find(tokens: bytes, run: bytes, start: int) -> int:
    """Where the run stands at a token's boundary, -1 for nowhere."""
    at = tokens.find(run, start)
    while at % N_BYTES and at >= 0:
        at = tokens.find(run, at + 1)
    return at


def _roll_back(content: Content, n_past: int, n_prompt: int, model: Model) -> tuple[int, tuple[Checkpoint, ...]]:
    """How far the memory can be taken back to `n_past`, and the checkpoints that outlive it."""
    window = model.n_window if model.memory == "window" else 0
    needed = max(0, n_past - window - (n_past == n_prompt))
    reached = n_past
    if model.memory != "full" and 0 < n_past <= len(content) and model.first_kept(len(content)) >= needed:
        usable = (
            point
            for point in reversed(content.checkpoints)
            if point.last <= n_past and (point.first < needed or not point.first)
        )
        found = next(usable, None)
        n_past = min(n_past, max(found.first + 1, found.last)) if found else 0
        reached = min(n_past, found.n_tokens) if found else 0
    return reached, tuple(point for point in content.checkpoints if point.last <= n_past)


def computed(kept: Kept, tokens: bytes, user_starts: Sequence[int], task: int, model: Model) -> Content:
    """The slot once the prompt has been computed behind what was kept."""
    n_exact = kept.n_exact if kept.n_exact < kept.n_tokens else None
    if model.memory == "full" or model.max_checkpoints < 1:
        return Content(tokens, n_exact, kept.checkpoints)
    points = list(kept.checkpoints)
    n_prompt, starts, at = len(tokens) // N_BYTES, frozenset(user_starts), kept.n_tokens
    while at < n_prompt:
        start, at = at, _next_stop(at, n_prompt, starts, points, model)
        if start and _is_worth_it(start, at, n_prompt, starts, points, model):
            _add(points, Checkpoint(start, model.first_kept(start), start - 1, task), model)
    return Content(tokens, n_exact, tuple(points))


def _is_far(position: int, points: list[Checkpoint], model: Model) -> bool:
    return not points or position > points[-1].n_tokens + model.min_step


def _next_stop(at: int, n_prompt: int, starts: frozenset[int], points: list[Checkpoint], model: Model) -> int:
    """Where the batch that begins at `at` ends: full, at a user message, or a little before the end of the prompt."""
    ends = {min(at + model.n_batch, n_prompt)}
    ends |= {n_prompt - min(model.n_batch, rest) for rest in (4 + model.n_ubatch, 4)}
    ends |= {start for start in starts if start == max(starts) or _is_far(start, points, model)}
    return min(end for end in ends if at < end <= n_prompt)


def _is_worth_it(
    start: int, end: int, n_prompt: int, starts: frozenset[int], points: list[Checkpoint], model: Model
) -> bool:
    """Whether a checkpoint is made before the batch from `start` to `end`."""
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
