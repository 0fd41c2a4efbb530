"""Prompts as differences, and back: what a ledger keeps of a prompt, and the prompt it stands for.

Takes prompts or exchanges, gives outlines or prompts; O(turn) both ways. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from contextkit.cache.prompt import Prompt
from contextkit.errors import LogCorrupt
from contextkit.ledger.exchange import Exchange, Outline

_BASE_DIGITS = 8
"""Of `Outline.base`."""


class Growing:
    """Follows the lanes of a recording and rebuilds each call's prompt as it comes."""

    __slots__ = ("_broken", "_lanes")

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._broken: set[tuple[str, str]] = set()
        """Lanes that miss an exchange: what continues them by length alone may continue something else."""

    def prompt(self, exchange: Exchange) -> Prompt | None:
        """The prompt a cache saw, None where no outline was recorded, or the exchange that it continues is missing from
        the recording.

        It borrows the arrays of its lane: good until the next call of that lane. Copy what must stay. Costs what the
        exchange added.
        """
        outline, lane = exchange.prompt, (exchange.session, exchange.lane)
        if not isinstance(outline, Outline) or (lane in self._broken and outline.keep and not outline.base):
            return None
        try:
            prompt = self.whole_prompt(exchange)
        except LogCorrupt:
            self._broken.add(lane)
            return None
        self._broken.discard(lane)
        return prompt

    def whole_prompt(self, exchange: Exchange) -> Prompt | None:
        """`prompt`, but raises `LogCorrupt` where an outline keeps segments that its lane does not have."""
        if not isinstance(exchange.prompt, Outline):
            return None
        return self._lanes.setdefault((exchange.session, exchange.lane), Lane()).grow(exchange.prompt, exchange.id)


def prompts_of(exchanges: Iterable[Exchange]) -> Iterator[tuple[Exchange, Prompt | None]]:
    """Each exchange with its prompt, as `Growing.whole_prompt` gives it."""
    growing = Growing()
    return ((exchange, growing.whole_prompt(exchange)) for exchange in exchanges)


class Lane:
    """What one lane has grown to: the arrays that differences are applied to."""

    __slots__ = ("digests", "ends_tokens", "positions", "prompt")

    def __init__(self) -> None:
        self.digests: list[bytes] = []
        self.ends_tokens: list[int] = []
        self.positions: list[int] = []
        self.prompt: Prompt | None = None
        """The last prompt, on these arrays."""

    def grow(self, outline: Outline, exchange_id: str) -> Prompt:
        """The prompt `outline` stands for; the one before it is no longer good where fewer segments were kept.

        Raises `LogCorrupt` where it does not fit what the lane holds, which then stays as it was.
        """
        self._check(outline, exchange_id)
        try:
            digests = [bytes.fromhex(digest) for digest in outline.digests]
            tools, system, messages = map(bytes.fromhex, outline.namespaces)
        except (TypeError, ValueError) as error:
            raise LogCorrupt(
                f"exchange {exchange_id!r} has an outline that cannot be read ({type(error).__name__}: {error})"
            ) from None
        del self.digests[outline.keep :], self.ends_tokens[outline.keep :], self.positions[outline.keep :]
        self.digests.extend(digests)
        self.ends_tokens.extend(outline.ends_tokens)
        self.positions.extend(outline.positions)
        self.prompt = Prompt(
            (tools, system, messages),
            outline.level_ends,
            self.digests,
            self.ends_tokens,
            self.positions,
            outline.breakpoints,
            len(self.digests),
        )
        return self.prompt

    def _check(self, outline: Outline, exchange_id: str) -> None:
        if not isinstance(outline.keep, int) or not 0 <= outline.keep <= len(self.digests):
            raise LogCorrupt(
                f"exchange {exchange_id!r} keeps {outline.keep} segments of a lane that has {len(self.digests)}: "
                "an exchange before it is missing, or lanes were mixed"
            )
        if outline.keep and not self.digests[outline.keep - 1].hex().startswith(outline.base):
            raise LogCorrupt(
                f"exchange {exchange_id!r} keeps other segments than its lane has: an exchange before it is missing, or lanes were mixed"
            )
        if not len(outline.digests) == len(outline.ends_tokens) == len(outline.positions):
            raise LogCorrupt(f"exchange {exchange_id!r} has an outline whose columns differ in length")


def outline(previous: Prompt | None, prompt: Prompt, entries: Sequence[int], epoch: int) -> Outline:
    """`prompt` as a difference to `previous`, the prompt recorded before it in its lane.

    `entries` has one log sequence a segment.

    Kept is what both say in the same words: a changed namespace stands beside it and does not shorten it. O(log n +
    what is new).
    """
    keep = _same_words(previous, prompt) if previous else 0
    new = range(keep, prompt.n)
    tools, system, messages = (namespace.hex() for namespace in prompt.namespaces)
    return Outline(
        keep=keep,
        namespaces=(tools, system, messages),
        level_ends=prompt.level_ends,
        digests=tuple(prompt.digests[i].hex() for i in new),
        ends_tokens=tuple(prompt.ends_tokens[i] for i in new),
        positions=tuple(prompt.positions[i] for i in new),
        entries=tuple(entries[i] for i in new),
        breakpoints=prompt.breakpoints,
        epoch=epoch,
        base=prompt.digests[keep - 1].hex()[:_BASE_DIGITS] if keep else "",
    )


def _same_words(one: Prompt, other: Prompt) -> int:
    """Equal leading digests, a binary search because digests run."""
    low, high = 0, min(one.n, other.n)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one.digests[middle - 1] == other.digests[middle - 1] else (low, middle - 1)
    return low
