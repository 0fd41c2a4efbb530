"""Prompts as engines read them, written into a ledger and read back.

A row holds what one call adds to the lane's last.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from contextkit.engines.token_ids import N_BYTES, Adapter, TokenIds, shared
from contextkit.errors import LogCorrupt
from contextkit.ledger.calls import ModelCall, Tokens

Lane = tuple[str, str]
"""Session and lane of a call: where it looks for what came before."""


def token_prompt(model: str, ids: Sequence[int], space: str = "", *, is_read_skipped: bool = False) -> TokenIds:
    """The prompt an engine's cache takes; `space` stands for the salt, empty for none.

    Assumed: names of models share an engine as adapters do, its memory and nothing in it.
    """
    return TokenIds(ids, Adapter(model, ""), (), space or None, is_read_skipped)


class TokenLanes:
    """What each lane's last call left: the difference to it is what a ledger keeps of the next.

    >>> lanes = TokenLanes()
    >>> first = lanes.write(("s", "main"), token_prompt("m", [1, 2]), generated=[3])
    >>> lanes.write(("s", "main"), token_prompt("m", [1, 2, 3, 4]), generated=[])
    Tokens(keep=3, ids=(4,), generated=(), space='', is_read_skipped=False)
    """

    def __init__(self) -> None:
        self._left: dict[Lane, array[int]] = {}

    def write(self, lane: Lane, prompt: TokenIds, generated: Sequence[int]) -> Tokens:
        """Return what to record of this call, which becomes the lane's last."""
        before, ids = self._left.get(lane, array("i")), array("i", prompt.tokens)
        limit = min(len(before), len(ids)) * N_BYTES
        keep = shared(before.tobytes(), 0, ids.tobytes(), 0, limit, N_BYTES) // N_BYTES
        self._left[lane] = ids + array("i", generated)
        return Tokens(keep, tuple(ids[keep:]), tuple(generated), prompt.salt or "", prompt.is_read_skipped)

    def read(self, call: ModelCall, tokens: Tokens) -> TokenIds:
        """The prompt of a call, read in the order of recording.

        Raises `LogCorrupt` where one before it is missing.
        """
        lane = call.session, call.lane
        before = self._left.get(lane, array("i"))
        if not 0 <= tokens.keep <= len(before):
            raise LogCorrupt(
                f"call {call.id!r} keeps {tokens.keep} tokens of a lane that has {len(before)}: "
                "a call before it is missing, or lanes were mixed"
            )
        ids = before[: tokens.keep] + array("i", tokens.ids)
        self._left[lane] = ids + array("i", tokens.generated)
        return token_prompt(call.model, ids, tokens.space, is_read_skipped=tokens.is_read_skipped)
