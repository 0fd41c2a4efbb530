"""Session and lane of each call in the local provider's ledger, by `prompt/conversations.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b

from contextkit.canonical import Json
from contextkit.ledger.calls import INFERRED_LANE
from contextkit.prompt.conversations import Conversations
from contextkit.providers.calls import BlockReader, BodyCall
from contextkit.providers.provider import Parsed

MOST, MOST_BYTES = 1024, 1 << 26
"""Conversations whose latest call is stored, and bytes of them together."""


class LedgerConversations:
    """The conversations of one server."""

    def __init__(self) -> None:
        self._conversations: Conversations[BodyCall] = Conversations(MOST, most_bytes=MOST_BYTES)
        self._reader = BlockReader()
        self._n_lanes: Counter[str] = Counter()

    def place(self, body: Mapping[str, Json], parsed: Parsed, name: str) -> tuple[str, str]:
        """Session and lane of a request; `name` is the id of its response."""
        call = self._reader.call(body, parsed.model.lower(), parsed.model, name=name)
        conversation = self._conversations.place(call, n_bytes=call.n_bytes).conversation
        if conversation.name is None:
            session = call.session or _digest_of_first_message(parsed)
            self._n_lanes[session] += 1
            number = self._n_lanes[session]
            conversation.name = session, "main" if number == 1 else f"{INFERRED_LANE}{number}"
        return conversation.name


def _digest_of_first_message(parsed: Parsed) -> str:
    layout, start = parsed.layout, parsed.prompt.level_ends[1]
    if start >= layout.n:
        return "empty"
    return blake2b(layout.columns.body(start), digest_size=8).hexdigest()
