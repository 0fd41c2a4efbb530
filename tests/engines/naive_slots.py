"""llama.cpp's server written as its loops go, token by token, on lists: nothing is packed, searched or skipped."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_float
from dataclasses import dataclass, field
from math import inf


@dataclass
class Point:
    n_tokens: int
    first: int
    last: int
    task: int
    window: list[int]


@dataclass
class State:
    tokens: list[int] = field(default_factory=list)
    exact: list[bool] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    window: list[int] = field(default_factory=list)
    position: int = -1

    def copy(self) -> State:
        return State(list(self.tokens), list(self.exact), list(self.points), list(self.window), self.position)


@dataclass
class NaiveSlot:
    state: State = field(default_factory=State)
    is_busy: bool = False
    used: int = -1


def common(one: list[int], other: list[int]) -> int:
    n = 0
    while n < len(one) and n < len(other) and one[n] == other[n]:
        n += 1
    return n


def single(value: float) -> float:
    """In 32 bits."""
    return c_float(value).value


@dataclass
class NaiveServer:
    """The options of `SlotShape`, `Model` and `SlotEnd`, under the same names."""

    n_slots: int
    is_unified: bool
    is_saving_idle: bool
    n_host_tokens: int | None
    n_cache_reuse: int
    memory: str
    n_window: int
    n_batch: int
    n_ubatch: int
    max_checkpoints: int
    min_step: int
    n_ctx: int | None = None
    is_shifting: bool = False
    n_keep: int = 0
    n_discard: int = 0

    def __post_init__(self) -> None:
        self.slots = [NaiveSlot() for _ in range(self.n_slots)]
        self.host: list[State] = []
        self.tasks = self.clock = 0
        n_cells = self.n_window * (self.n_slots if self.is_unified else 1) + min(self.n_batch, self.n_ubatch)
        n_cells = n_cells if self.n_ctx is None else min(n_cells, self.n_ctx)
        while n_cells % 256:
            n_cells += 1
        self.n_ubatch = min(self.n_batch, self.n_ubatch)
        self.can_turn = self.memory != "window" or (self.n_ctx is not None and n_cells >= self.n_ctx)
        self.heads = [0] * self.n_slots
        self.cells: list[list[tuple[int, int] | None]] = [[None] * n_cells for _ in range(self.n_slots)]

    # The cells of a sliding window: (slot, position), or nothing

    def row(self, number: int) -> int:
        return 0 if self.is_unified else number

    def positions(self, number: int) -> list[int]:
        """In the order of their cells."""
        return [cell[1] for cell in self.cells[self.row(number)] if cell is not None and cell[0] == number]

    def usable(self, number: int) -> list[int]:
        """Cells that are free, or whose token has left its slot's window."""
        cells = self.cells[self.row(number)]
        slots = {cell[0] for cell in cells if cell is not None}
        last = {slot: max(self.positions(slot)) for slot in slots}
        return [
            index for index, cell in enumerate(cells) if cell is None or last[cell[0]] + 1 - cell[1] >= self.n_window
        ]

    def drop(self, number: int, is_gone: Callable[[int], bool]) -> None:
        cells = self.cells[self.row(number)]
        for index, cell in enumerate(cells):
            if cell is not None and cell[0] == number and is_gone(cell[1]):
                cells[index] = None
                self.heads[self.row(number)] = min(self.heads[self.row(number)], index)

    def turn(self, number: int, start: int, end: int, by: int) -> None:
        """Forget what stands between, and move the positions from `start` to `end`."""
        if self.memory == "window":
            self.drop(number, lambda position: start + by <= position < start)
            cells = self.cells[self.row(number)]
            for index, cell in enumerate(cells):
                if cell is not None and cell[0] == number and start <= cell[1] < end:
                    cells[index] = (number, cell[1] + by)
            self.heads[self.row(number)] = 0

    def place(self, number: int, positions: list[int]) -> None:
        row = self.row(number)
        cells, usable = self.cells[row], self.usable(number)
        n_used = sum(cell is not None for cell in cells)
        head = 0 if self.heads[row] > n_used + 2 * len(positions) else self.heads[row]
        found = [*(index for index in usable if index >= head), *(index for index in usable if index < head)]
        found = found[: len(positions)]
        gone: dict[int, int] = {}
        for index, position in zip(found, positions, strict=True):
            cell = cells[index]
            if cell is not None:
                gone[cell[0]] = max(gone.get(cell[0], -1), cell[1])
            cells[index] = (number, position)
        for other, last in gone.items():
            self.drop(other, lambda position, last=last: position <= last)
        self.heads[row] = found[-1] + 1

    def grow(self, number: int, start: int, end: int) -> None:
        if self.memory == "window":
            while start < end:
                self.place(number, list(range(start, min(start + self.n_ubatch, end))))
                start = min(start + self.n_ubatch, end)

    def saved_window(self, number: int) -> list[int]:
        if self.memory != "window":
            return []
        positions = self.positions(number)
        return [position for position in positions if position > max(positions) - self.n_window]

    def restore_window(self, number: int, positions: list[int]) -> None:
        if self.memory == "window":
            self.drop(number, lambda _: True)
            if positions:
                self.place(number, positions)

    def room(self, number: int) -> float:
        """Tokens for which a slot has room beside the others."""
        if not self.is_unified or self.n_ctx is None or self.memory == "recurrent":
            return inf
        return self.n_ctx - sum(len(slot.state.tokens) for slot in self.slots if slot is not self.slots[number])

    def empty(self, number: int) -> None:
        self.slots[number].state = State()
        if self.memory == "window":
            self.drop(number, lambda _: True)

    def make_room(self, number: int, n_tokens: int) -> None:
        for other, slot in enumerate(self.slots):
            if n_tokens > self.room(number) and not slot.is_busy:
                self.empty(other)

    def choose(self, tokens: list[int], id_slot: int = -1) -> tuple[int, bool] | None:
        best, best_similar = (None if id_slot < 0 else id_slot % self.n_slots), 0.0
        if best is not None and self.slots[best].is_busy:
            return None
        for number, slot in enumerate(self.slots):
            if slot.is_busy or not slot.state.tokens or id_slot not in (-1, number):
                continue
            similar = single(common(slot.state.tokens, tokens) / len(tokens))
            if similar > best_similar and similar > single(0.1):
                best, best_similar = number, similar
        if best is not None:
            held = self.slots[best].state.tokens
            return best, bool(held) and single(single(best_similar * len(tokens)) / len(held)) < 0.5
        oldest, last = None, -1
        for number, slot in enumerate(self.slots):
            if not slot.is_busy and (oldest is None or slot.used <= last):
                oldest, last = number, slot.used
        return None if oldest is None else (oldest, True)

    def save(self, number: int) -> None:
        state = self.slots[number].state
        if not state.tokens:
            return
        for saved in self.host:
            if saved.tokens[: len(state.tokens)] == state.tokens:
                return
        if self.n_host_tokens is not None and len(state.tokens) > self.n_host_tokens:
            return
        self.host = [saved for saved in self.host if state.tokens[: len(saved.tokens)] != saved.tokens]
        if self.n_host_tokens is not None:
            while sum(len(s.tokens) for s in self.host) + len(state.tokens) > self.n_host_tokens:
                self.host.pop(0)
        state.window = self.saved_window(number)
        self.host.append(state.copy())

    def load(self, number: int, tokens: list[int]) -> None:
        slot = self.slots[number]
        here = common(slot.state.tokens, tokens)
        kept, similar, best = (here / len(slot.state.tokens) if slot.state.tokens else -1.0), here / len(tokens), None
        for saved in self.host:
            n = common(saved.tokens, tokens)
            if n / len(saved.tokens) < 0.25:
                continue
            if kept < n / len(saved.tokens) and similar < n / len(tokens):
                kept, similar, best = n / len(saved.tokens), n / len(tokens), saved
        if best is None:
            return
        n_cells = len(self.usable(number)) + len([1 for _ in self.positions(number)])
        if len(best.tokens) > self.room(number) or len(best.window) > n_cells:
            self.empty(number)
            return
        self.host = [saved for saved in self.host if saved is not best]
        slot.state = best
        self.restore_window(number, best.window)

    def trim(self) -> None:
        if self.n_host_tokens is None and self.n_ctx is not None:
            n_tokens = self.n_ctx * (1 if self.is_unified else self.n_slots)
            while sum(len(s.tokens) for s in self.host) > n_tokens:
                self.host.pop(0)

    def swap(self, number: int, tokens: list[int]) -> None:
        if self.n_host_tokens != 0:
            self.save(number)
            self.load(number, tokens)
            self.trim()

    def save_idle(self) -> None:
        if self.is_saving_idle and self.n_host_tokens != 0:
            for number, slot in enumerate(self.slots):
                if not slot.is_busy:
                    self.save(number)
                    if self.is_unified:
                        self.empty(number)
                    self.trim()

    def first_position(self, number: int) -> int:
        if self.memory == "window":
            return min(self.positions(number), default=-1)
        return self.slots[number].state.position if self.memory == "recurrent" else 0

    def shift(self, number: int, tokens: list[int], n_past: int) -> int:
        state = self.slots[number].state
        old = new = n_past
        while old < len(state.tokens) and new < len(tokens):
            n = 0
            while old + n < len(state.tokens) and new + n < len(tokens) and state.tokens[old + n] == tokens[new + n]:
                n += 1
            if n >= self.n_cache_reuse:
                for i in range(n):
                    state.tokens[new + i], state.exact[new + i] = state.tokens[old + i], False
                self.turn(number, old, old + n, new - old)
                if old <= state.position < old + n:
                    state.position += new - old
                n_past, old, new = n_past + n, old + n, new + n
            else:
                old += 1
        return n_past

    def roll_back(self, number: int, n_past: int, n_prompt: int) -> int:
        state = self.slots[number].state
        window = self.n_window if self.memory == "window" else 0
        position = n_past
        needed = max(0, position - window - (0 if n_past < n_prompt else 1))
        if self.memory != "full" and 0 < n_past <= len(state.tokens) and self.first_position(number) >= needed:
            found = None
            for point in reversed(state.points):
                if point.last <= position and (point.first < needed or point.first == 0):
                    found = point
                    break
            if found:
                position = min(position, max(found.first + 1, found.last))
                n_past = min(position, found.n_tokens)
                self.restore_window(number, found.window)
            else:
                position = n_past = 0
        state.points = [point for point in state.points if point.last <= position]
        return n_past

    def start(
        self, tokens: list[int], is_caching: bool, user_starts: list[int], id_slot: int = -1
    ) -> tuple[int, int, int] | None:
        """Slot, tokens kept, and of these, from the front, the exact ones."""
        chosen = self.choose(tokens, id_slot)
        if chosen is None:
            return None
        number, is_saving = chosen
        slot = self.slots[number]
        if is_saving:
            self.swap(number, tokens)
        slot.is_busy = True
        self.save_idle()
        if self.n_ctx is not None and len(tokens) >= self.n_ctx:
            self.release(slot)
            return None
        state, n_past = slot.state, 0
        if is_caching:
            n_past = common(state.tokens, tokens)
            if self.can_turn and self.n_cache_reuse > 0:
                n_past = self.shift(number, tokens, n_past)
            n_past = self.roll_back(number, n_past, len(tokens))
        else:
            state.points = []
        if n_past == len(tokens) and n_past > 0:
            n_past -= 1
        if self.memory == "window":
            self.drop(number, lambda position: position >= n_past)
        self.tasks += 1
        exact = common([int(flag) for flag in state.exact[:n_past]], [1] * n_past)
        self.process(number, tokens, n_past, exact == n_past, user_starts)
        return number, n_past, exact

    def process(self, number: int, tokens: list[int], n_past: int, is_exact: bool, user_starts: list[int]) -> None:
        state = self.slots[number].state
        state.tokens, state.exact = state.tokens[:n_past], state.exact[:n_past]
        has_points = self.memory != "full" and self.max_checkpoints > 0
        last_user = max(user_starts, default=-1)
        while len(state.tokens) < len(tokens):
            start = len(state.tokens)
            while len(state.tokens) < len(tokens) and len(state.tokens) - start < self.n_batch:
                state.tokens.append(tokens[len(state.tokens)])
                state.exact.append(is_exact)
                n = len(state.tokens)
                is_far = not state.points or n > state.points[-1].n_tokens + self.min_step
                if has_points and n in user_starts and (n == last_user or is_far):
                    break
                if has_points and any(len(tokens) == n + min(self.n_batch, rest) for rest in (4 + self.n_ubatch, 4)):
                    break
            n = len(state.tokens)
            is_near_end = len(tokens) < n + self.n_ubatch
            is_wanted = has_points and start > 0 and (self.memory != "window" or bool(self.positions(number)))
            if n < len(tokens) and start not in user_starts and not is_near_end:
                is_wanted = False
            is_far = not state.points or start > state.points[-1].n_tokens + self.min_step
            if is_wanted and (is_far or start == last_user or is_near_end):
                first = start - 1 if self.memory == "recurrent" else self.first_position(number)
                self.checkpoint(state, Point(start, first, start - 1, self.tasks, self.saved_window(number)))
            self.make_room(number, n)
            self.grow(number, start, n)
        state.position = len(state.tokens) - 1

    def checkpoint(self, state: State, new: Point) -> None:
        kept: list[Point] = []
        last = -1
        points = state.points
        for index, point in enumerate(points):
            is_full = len(kept) + len(points) - index + 1 >= self.max_checkpoints
            if is_full and point.task != self.tasks and last >= 0 and point.n_tokens <= last + self.min_step:
                continue
            if is_full:
                last = point.n_tokens
            kept.append(point)
        while len(kept) >= self.max_checkpoints:
            kept.pop(0)
        kept = [point for point in kept if point.n_tokens != new.n_tokens]
        state.points = [*kept, new]

    def finish(self, number: int, generated: list[int]) -> None:
        """The loop of decoding: room for two is seen to before each token is computed."""
        slot = self.slots[number]
        state, n_prompt = slot.state, len(slot.state.tokens)
        for token in generated[:-1]:
            if self.n_ctx is not None and len(state.tokens) + 1 >= self.n_ctx:
                if not self.is_shifting or not self.can_turn:
                    break
                n_keep = min(self.n_ctx - 4, n_prompt if self.n_keep < 0 else self.n_keep)
                n_left = len(state.tokens) - n_keep
                n_gone = max(0, min(self.n_discard or n_left // 2, n_left - 1))
                self.turn(number, n_keep + n_gone, len(state.tokens), -n_gone)
                state.points = []
                for row in (state.tokens, state.exact):
                    del row[n_keep : n_keep + n_gone]
                state.exact[n_keep:] = [False] * (len(state.exact) - n_keep)
                if len(state.tokens) + 1 >= self.n_ctx:
                    break
            state.tokens.append(token)
            state.exact.append(all(state.exact))
            self.make_room(number, len(state.tokens))
            self.grow(number, len(state.tokens) - 1, len(state.tokens))
        state.position = len(state.tokens) - 1
        self.release(slot)

    def release(self, slot: NaiveSlot) -> None:
        slot.is_busy, slot.used = False, self.clock
        self.clock += 1
