"""Session and lane of each call in the local provider's ledger, by `prompt/conversations.py`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b

from contextkit.canonical import Json
from contextkit.ledger.calls import ModelCall, lane_name
from contextkit.ledger.parsed_call import BodyParser, ParsedCall
from contextkit.prompt.conversations import Conversations
from contextkit.providers.client_names import names_in_headers
from contextkit.providers.provider import Parsed

MOST, MOST_BYTES = 1024, 1 << 26
"""Conversations whose latest call is stored, and bytes of them together."""


class LedgerConversations:
    """The conversations of one server."""

    def __init__(self) -> None:
        self._conversations: Conversations[ParsedCall] = Conversations(MOST, most_bytes=MOST_BYTES)
        self._parser = BodyParser()
        self._n_lanes: Counter[tuple[str, str]] = Counter()

    def place(self, body: Mapping[str, Json], parsed: Parsed, name: str, headers: Mapping[str, str]) -> tuple[str, str]:
        """Session and lane of a request; `name` is the id of its response.

        Of its headers the names of session and agent are read, and no others.
        """
        in_headers = names_in_headers(headers.items())
        sent = ModelCall(id=name, lane="", model=parsed.model)
        call, n_bytes = self._parser.parse(sent, body, parsed.model.lower(), in_headers=in_headers)
        conversation = self._conversations.place(call, n_bytes=n_bytes).conversation
        if conversation.name is None:
            session = call.session or _digest_of_first_message(parsed)
            is_begun = (
                parsed.layout.n > 0
            )  # a WebSocket is warmed up with an empty prompt, which begins no conversation
            self._n_lanes[session, call.agent] += is_begun
            conversation.name = session, lane_name(call.agent, self._n_lanes[session, call.agent] if is_begun else 0)
        return conversation.name


def _digest_of_first_message(parsed: Parsed) -> str:
    layout, start = parsed.layout, parsed.prompt.level_ends[1]
    if start >= layout.n:
        return "empty"
    return blake2b(layout.columns.body(start), digest_size=8).hexdigest()
