"""The prefix tree of a recording: all prompts as runs of blocks that calls share, and the places where they part.

`PrefixTree` takes judged calls one by one. A `Run` is what some calls share from where they left the others to where
they part themselves; a call stands on the run on which its prompt ends. A call costs what it added, as the search for
what it shares begins where the last call of its conversation ended. What a call lost is the judge's figure, and lies on
the run on which the call left the earlier one that the judge compared it with. Knows nothing of what is shown.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import sub

from contextkit.cache.prompt import Prompt
from contextkit.ledger.judge import Sent, agent_of
from contextkit.ledger.misses import AnalyzedCall
from contextkit.ledger.verdict import Gap
from contextkit.prompt.diff import path_of

MOST_QUOTED = 10_000
"""Losses of which the texts around a change are kept."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What one call lost, or paid for a start that nobody could avoid."""

    call: int
    """Number of the call in the tree."""
    earlier: int | None
    """Number of the earlier call that the judge compared it with; None where that is not in the tree."""
    place: int
    """Index of the first block that it does not share with the earlier call."""
    gap: Gap
    """The judge's main gap."""
    tokens: int
    """Tokens it lost; 0 for a cost that was not avoidable."""
    usd: float | None
    """What they cost, or what the start did; None where no price or no bill is known."""

    @property
    def kind(self) -> tuple[str, str]:
        """Return its cause and the kind of change, or the level of its place where that is unknown."""
        return self.gap.cause, self.gap.kind or self.gap.place.partition("[")[0]


@dataclass(slots=True)
class Sums:
    """Figures of several calls."""

    calls: int = 0
    sent: int = 0
    """Tokens of their prompts, billed or estimated."""
    input: int = 0
    """Input tokens of the calls with a bill."""
    read: int = 0
    """Tokens they read."""
    written: int = 0
    """Tokens they wrote."""
    unread: int = 0
    """Written tokens that no call could have read since, as none begins with them."""
    lost: int = 0
    """Tokens lost."""
    lost_usd: float = 0.0
    """What those with a price cost."""
    n_unpriced: int = 0
    """Losses without a price."""
    n_unbilled: int = 0
    """Calls that do not say what they read."""
    first: int = sys.maxsize
    """Position of the first call in the recording, from 0."""

    def add(self, other: Sums) -> None:
        """Add other sums."""
        self.calls += other.calls
        self.sent += other.sent
        self.input += other.input
        self.read += other.read
        self.written += other.written
        self.unread += other.unread
        self.lost += other.lost
        self.lost_usd += other.lost_usd
        self.n_unpriced += other.n_unpriced
        self.n_unbilled += other.n_unbilled
        self.first = min(self.first, other.first)

    def lose(self, loss: Loss) -> None:
        """Add a loss."""
        if loss.tokens:
            self.lost += loss.tokens
            self.lost_usd += loss.usd or 0.0
            self.n_unpriced += loss.usd is None

    @property
    def has_read_nothing(self) -> bool:
        """Return whether every call says what it read, and none read anything."""
        return not self.read and not self.n_unbilled


class Run:
    """Blocks that follow each other in every prompt that reaches the end of them."""

    __slots__ = ("ends", "keys", "losses", "path", "runs", "sizes", "start", "sums", "up")

    def __init__(self, up: Run | None, start: int, keys: list[bytes], sizes: array[int], path: str) -> None:
        self.up = up
        """The run before; None for the start of all prompts of a model at a host, which has no blocks."""
        self.start, self.keys, self.sizes, self.path = start, keys, sizes, path
        """Index of its first block; a key and a size in tokens for each; path of the first, empty where it is unknown."""
        self.runs: dict[bytes, Run] = {}
        """First key → run that follows."""
        self.ends: list[int] = []
        """Calls whose prompt ends on it, the shortest prompt first."""
        self.losses: list[Loss] = []
        self.sums: Sums | None = None
        """Of all calls that reach it, once the tree is summed up."""

    @property
    def end(self) -> int:
        """Return the index behind its last block."""
        return self.start + len(self.keys)

    @property
    def tokens(self) -> int:
        """Return its size."""
        return sum(self.sizes)

    def levels(self) -> tuple[int, int, int]:
        """Count its blocks of tools, system and messages."""
        found = [key[0] for key in self.keys]
        return found.count(0), found.count(1), found.count(2)

    def is_setting(self) -> bool:
        """Return whether its first block has the text of another run's, under other settings of the request."""
        digest = self.keys[0][_DIGEST:]
        return self.up is not None and any(key[_DIGEST:] == digest for key in self.up.runs if key != self.keys[0])


_DIGEST = 9
"""Bytes of a key in front of the digest: level and settings."""


@dataclass(frozen=True, slots=True)
class Top:
    """The prompts of one model at one host and account: those that may share a cache."""

    model: str
    run: Run
    """A run without blocks, before the first blocks."""
    scope: object
    """The host and account, as the judge tells them apart."""


class PrefixTree:
    """All prompts of a recording; called with each call."""

    def __init__(self) -> None:
        self.n_without_prompt = 0
        """Calls whose prompt is not recorded."""
        self.agents: list[str] = []
        """Program and agent of each call."""
        self._tops: dict[tuple[int, str], Top] = {}
        self._runs: list[Run] = []
        self._lengths = array("q")
        self._bills: list[Sums] = []
        self._last: dict[tuple[int, str, str], int] = {}
        self._by_id: dict[str, int] = {}
        self._losses: list[Loss] = []

    @property
    def n_calls(self) -> int:
        """Return the calls in the tree."""
        return len(self._runs)

    def run_of(self, number: int) -> Run:
        """Return the run on which the prompt of a call ends."""
        return self._runs[number]

    def first_run(self, number: int) -> Run:
        """Return the run on which the prompt of a call begins."""
        run = self._runs[number]
        while run.up is not None and run.up.up is not None:
            run = run.up
        return run

    def bill(self, number: int) -> Sums:
        """Return the figures of one call."""
        return self._bills[number]

    def __call__(self, analyzed: AnalyzedCall) -> None:
        """Add the next call."""
        call, sent = analyzed.call, analyzed.sent
        if sent is None:
            self.n_without_prompt += not call.is_refused
            return
        key = id(sent.scope), sent.row.name
        top = self._tops.get(key)
        if top is None:
            top = self._tops[key] = Top(sent.row.name, Run(None, 0, [], array("q"), ""), sent.scope)
        conversation = id(top), call.session, call.lane
        last = self._last.get(conversation)
        number, n_before = len(self._runs), self._insert(sent, top.run if last is None else self._runs[last])
        self._last[conversation] = number
        agent = analyzed.agent if analyzed.agent != call.lane else agent_of(call.lane) if call.lane != "main" else ""
        self.agents.append(f"{analyzed.program} {agent}".strip() if analyzed.program or agent else "")
        self._bills.append(_bill(analyzed, sent.prompt))
        loss = self._loss(analyzed, number, n_before)
        if loss is not None:
            self._losses.append(loss)
        if call.id:
            self._by_id[call.id] = number

    # Growing

    def _insert(self, sent: Sent, run: Run) -> int:
        """Put a prompt into the tree, beginning the search at a run; return how many leading blocks were there."""
        prompt, key = sent.prompt, _keys(sent.prompt)
        while run.up is not None and not (run.start < prompt.n and key(run.start) == run.keys[0]):
            run = run.up
        at = run.start + _common(run, key, prompt.n)
        while run.end == at < prompt.n and (below := run.runs.get(key(at))) is not None:
            run = below
            at = run.start + _common(run, key, prompt.n)
        if at < prompt.n:
            path = path_of(sent.layout.columns, at) if sent.layout is not None else ""
            if at < run.end:
                self._split(run, at, path)
            keys = [key(i) for i in range(at, prompt.n)]
            ends = [prompt.ends_tokens[at - 1] if at else 0, *prompt.ends_tokens[at : prompt.n]]
            sizes = array("q", map(sub, ends[1:], ends))
            if run.up is None or run.runs:
                run.runs[keys[0]] = run = Run(run, at, keys, sizes, path)
            else:
                run.keys += keys
                run.sizes += sizes
        self._runs.append(run)
        self._lengths.append(prompt.n)
        if not run.ends or self._lengths[run.ends[-1]] <= prompt.n:
            run.ends.append(len(self._runs) - 1)
        else:
            insort(run.ends, len(self._runs) - 1, key=self._lengths.__getitem__)
        return at

    def _split(self, run: Run, at: int, path: str) -> None:
        """Cut a run in two; what stands behind is a run of its own."""
        n = at - run.start
        rest = Run(run, at, run.keys[n:], run.sizes[n:], path)
        rest.runs = run.runs
        for one in rest.runs.values():
            one.up = rest
        del run.keys[n:], run.sizes[n:]
        run.runs = {rest.keys[0]: rest}
        cut = bisect_right(run.ends, at, key=self._lengths.__getitem__)
        rest.ends = run.ends[cut:]
        del run.ends[cut:]
        for number in rest.ends:
            self._runs[number] = rest

    # What was lost

    def _loss(self, analyzed: AnalyzedCall, number: int, n_before: int) -> Loss | None:
        verdict, miss = analyzed.verdict, analyzed.miss
        gap = verdict.main if verdict else None
        if verdict is None or gap is None:
            return None
        if miss is not None and (miss.is_loss or gap.is_costly):
            tokens, usd = miss.lost_tokens, miss.cost_usd
        elif verdict.read is None and verdict.is_miss:  # without a bill, what the cache would have billed
            tokens, usd = verdict.lost_tokens, None
        else:
            return None
        earlier = self._by_id.get(verdict.earlier_id)
        place = n_before if earlier is None else self._parting(earlier, number)
        if len(self._losses) >= MOST_QUOTED and (gap.was or gap.now):
            gap = replace(gap, was="", now="")
        return Loss(number, earlier, min(place, self._lengths[number] - 1), gap, tokens, usd)

    def _parting(self, one: int, other: int) -> int:
        """Count the leading blocks that the prompts of two calls share."""
        a, b, n_a, n_b = self._runs[one], self._runs[other], self._lengths[one], self._lengths[other]
        while a is not b:
            if a.up is not None and (b.up is None or a.start >= b.start):
                a, n_a = a.up, a.start
            elif b.up is not None:
                b, n_b = b.up, b.start
            else:
                return 0
        return min(n_a, n_b)

    # Summing up

    def summed(self) -> Sequence[Top]:
        """Give each run the losses on it and the sums of the calls that reach it; return the starts of all prompts."""
        tops = list(self._tops.values())
        runs = [run for top in tops for run in _top_down(top.run)]
        for run in runs:
            run.losses, run.sums = [], Sums()
        for loss in self._losses:
            run = self._runs[loss.call]
            while run.start > loss.place and run.up is not None:
                run = run.up
            run.losses.append(loss)
        for run in reversed(runs):
            self._sum_up(run)
        return tops

    def _sum_up(self, run: Run) -> None:
        """Add up the calls of a run and of the runs behind it, which are summed up."""
        sums = run.sums = Sums()
        for number in run.ends:
            sums.add(self._bills[number])
        for loss in run.losses:
            sums.lose(loss)
        for below in run.runs.values():
            if below.sums is not None:
                sums.add(below.sums)
        if sums.has_read_nothing:
            sums.unread = sums.written
        elif sums.calls == 1:
            sums.unread = min(sums.written, run.tokens)


def _top_down(top: Run) -> Iterator[Run]:
    """Yield each run before those behind it; chains of runs are too long for recursion."""
    waiting = [top]
    while waiting:
        run = waiting.pop()
        yield run
        waiting += run.runs.values()


def _keys(prompt: Prompt) -> Callable[[int], bytes]:
    """Return the function that gives the key of a block: equal where all blocks up to there and their settings are."""
    (tools, system), names, digests = prompt.level_ends, prompt.namespaces, prompt.digests
    leads = _leads(names)

    def key(i: int) -> bytes:
        return leads[(i >= tools) + (i >= system)] + digests[i]

    return key


@lru_cache(maxsize=256)
def _leads(names: tuple[bytes, bytes, bytes]) -> tuple[bytes, ...]:
    """Return what stands before the digest in the keys of each level."""
    return tuple(b"%c%b" % (level, (name + bytes(8))[:8]) for level, name in enumerate(names))


def _common(run: Run, key: Callable[[int], bytes], n: int) -> int:
    """Count the leading blocks of a run that a prompt of `n` blocks has too."""
    low, high = 0, min(len(run.keys), n - run.start)
    if high > 0 and run.keys[high - 1] == key(run.start + high - 1):
        return high
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if run.keys[middle - 1] == key(run.start + middle - 1) else (low, middle - 1)
    return low


def _bill(analyzed: AnalyzedCall, prompt: Prompt) -> Sums:
    usage = analyzed.usage
    if usage is None or analyzed.is_silent:
        return Sums(1, (usage and usage.prompt) or prompt.n_tokens, n_unbilled=1, first=analyzed.index)
    size = usage.prompt or 0
    return Sums(1, size, size, usage.read or 0, usage.written or 0, first=analyzed.index)
