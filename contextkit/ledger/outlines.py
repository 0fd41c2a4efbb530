"""Prompts as differences, and back: what a ledger keeps of a prompt, and the prompt it stands for.

Takes prompts or exchanges, gives outlines or prompts; O(turn) both ways. Knows nothing of files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from contextkit.cache.prompt import Prompt
from contextkit.errors import LogCorrupt
from contextkit.ledger.exchange import Exchange, Outline


class Growing:
    """Follows the lanes of a recording and rebuilds each call's prompt as it comes."""

    __slots__ = ("_lanes",)

    def __init__(self) -> None:
        self._lanes: dict[tuple[str, str], Lane] = {}

    def prompt(self, exchange: Exchange) -> Prompt | None:
        """The prompt a cache saw, None where no outline was recorded.

        It borrows the arrays of its lane: good until the next call of that lane. Copy what must stay. Costs what the exchange added.
        Raises `LogCorrupt` where an outline keeps segments that its lane does not have.
        """
        if not isinstance(exchange.prompt, Outline):
            return None
        return self._lanes.setdefault((exchange.session, exchange.lane), Lane()).grow(exchange.prompt, exchange.id)


def prompts_of(exchanges: Iterable[Exchange]) -> Iterator[tuple[Exchange, Prompt | None]]:
    """Each exchange with its prompt, as `Growing.prompt` gives it."""
    growing = Growing()
    return ((exchange, growing.prompt(exchange)) for exchange in exchanges)


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
        """The prompt `outline` stands for; the one before it is no longer good where fewer segments were kept."""
        if not 0 <= outline.keep <= len(self.digests):
            raise LogCorrupt(
                f"exchange {exchange_id!r} keeps {outline.keep} segments of a lane that has {len(self.digests)}: "
                "an exchange before it is missing, or lanes were mixed"
            )
        del self.digests[outline.keep :], self.ends_tokens[outline.keep :], self.positions[outline.keep :]
        self.digests.extend(map(bytes.fromhex, outline.digests))
        self.ends_tokens.extend(outline.ends_tokens)
        self.positions.extend(outline.positions)
        tools, system, messages = map(bytes.fromhex, outline.namespaces)
        self.prompt = Prompt(
            (tools, system, messages), outline.level_ends, self.digests, self.ends_tokens, self.positions,
            outline.breakpoints, len(self.digests),
        )  # fmt: skip
        return self.prompt


def outline(previous: Prompt | None, prompt: Prompt, entries: Sequence[int], epoch: int) -> Outline:
    """`prompt` as a difference to `previous`, the prompt recorded before it in its lane; `entries` has one log sequence a segment.

    Kept is what both say in the same words: a changed namespace stands beside it and does not shorten it. O(log n + what is new).
    """
    keep = _same_words(previous, prompt) if previous else 0
    new = range(keep, prompt.n)
    tools, system, messages = (namespace.hex() for namespace in prompt.namespaces)
    return Outline(
        keep=keep, namespaces=(tools, system, messages), level_ends=prompt.level_ends,
        digests=tuple(prompt.digests[i].hex() for i in new), ends_tokens=tuple(prompt.ends_tokens[i] for i in new),
        positions=tuple(prompt.positions[i] for i in new), entries=tuple(entries[i] for i in new),
        breakpoints=prompt.breakpoints, epoch=epoch,
    )  # fmt: skip


def _same_words(one: Prompt, other: Prompt) -> int:
    """Equal leading digests, a binary search because digests run."""
    low, high = 0, min(one.n, other.n)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one.digests[middle - 1] == other.digests[middle - 1] else (low, middle - 1)
    return low
