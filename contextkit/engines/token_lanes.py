"""Prompts as engines read them, written into a ledger and read back.

Takes token ids and what was generated, gives rows that grow by the turn; and the same the other way. Knows nothing of
caches or text.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property

from contextkit.engines.token_ids import N_BYTES, Adapter, Item, TokenIds, shared
from contextkit.engines.token_ids import BlockIds as Blocks
from contextkit.errors import LogCorrupt
from contextkit.ledger.calls import BlockIds, Exchange, Tokens

Lane = tuple[str, str]
"""Session and lane of an exchange: where it looks for what came before."""


def token_prompt(model: str, ids: Sequence[int], space: str = "", *, is_read_skipped: bool = False) -> TokenIds:
    """The prompt an engine's cache takes; `space` stands for the salt, empty for none.

    Assumed: names of models share an engine as adapters do, its memory and nothing in it.
    """
    return TokenIds(ids, Adapter(model, ""), (), space or None, is_read_skipped)


class BlockPrompt(Blocks):
    """Blocks somebody else hashed, for caches over blocks and, each id standing for `size` equal tokens, for caches
    over tokens.

    >>> BlockPrompt(2, (7, 9)).tokens
    array('i', [7, 7, 9, 9])
    """

    adapter: Adapter | None = None
    items: tuple[Item, ...] = ()
    salt: str | None = None
    is_read_skipped = False

    @cached_property
    def tokens(self) -> array[int]:
        """As many equal tokens for each id as there are in a block."""
        return array("i", b"".join(array("i", (name,)).tobytes() * self.size for name in self.ids))


class TokenLanes:
    """What each lane's last exchange left: the difference to it is what a ledger keeps of the next.

    >>> lanes = TokenLanes()
    >>> first = lanes.write(("s", "main"), token_prompt("m", [1, 2]), generated=[3])
    >>> lanes.write(("s", "main"), token_prompt("m", [1, 2, 3, 4]), generated=[])
    Tokens(keep=3, ids=(4,), generated=(), space='', is_read_skipped=False)
    """

    def __init__(self) -> None:
        self._left: dict[Lane, array[int]] = {}
        self._names: dict[int, int] = {}

    def write(self, lane: Lane, prompt: TokenIds, generated: Sequence[int]) -> Tokens:
        """What to record of this exchange, which is the lane's last from now on."""
        before, ids = self._left.get(lane, array("i")), array("i", prompt.tokens)
        limit = min(len(before), len(ids)) * N_BYTES
        keep = shared(before.tobytes(), 0, ids.tobytes(), 0, limit, N_BYTES) // N_BYTES
        self._left[lane] = ids + array("i", generated)
        return Tokens(keep, tuple(ids[keep:]), tuple(generated), prompt.salt or "", prompt.is_read_skipped)

    def read(self, exchange: Exchange, tokens: Tokens) -> TokenIds:
        """The prompt of an exchange, read in the order of recording.

        Raises `LogCorrupt` where one before it is missing.
        """
        lane = exchange.session, exchange.lane
        before = self._left.get(lane, array("i"))
        if not 0 <= tokens.keep <= len(before):
            raise LogCorrupt(
                f"exchange {exchange.id!r} keeps {tokens.keep} tokens of a lane that has {len(before)}: "
                "an exchange before it is missing, or lanes were mixed"
            )
        ids = before[: tokens.keep] + array("i", tokens.ids)
        self._left[lane] = ids + array("i", tokens.generated)
        return token_prompt(exchange.model, ids, tokens.space, is_read_skipped=tokens.is_read_skipped)

    def read_blocks(self, exchange: Exchange, blocks: BlockIds) -> BlockPrompt:
        """The prompt of an exchange that names blocks, their ids replaced by small ones in order of appearance."""
        names = self._names
        return BlockPrompt(blocks.size, tuple(names.setdefault(block, len(names)) for block in blocks.ids))
