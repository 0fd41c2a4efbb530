"""Responses and conversations the local provider keeps, as OpenAI does where `store` is not false.

Takes requests that lean on them, gives the same with their whole input; takes responses, keeps them. Memory is bounded:
the oldest go, and are then unknown, as they are with OpenAI after 30 days. Knows no sockets; endpoints are in
`endpoints.py`.

Compaction as OpenAI does it: a call of its own, an item that asks for it, a threshold that brings it about.

Takes request bodies and what the script says, gives output items. What is said in answer to the first two is the
summary, encrypted to nobody: its text in base64. Field names are those of `openai.types.responses` 3.52
(compacted_response.py, response_compaction_item.py).
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from contextkit.canonical import Json, canonical
from contextkit.providers.openai.responses import OUTPUTS
from contextkit.providers.openai.validation import invalid
from contextkit.providers.server_state import CONVERSATION, PREVIOUS, Histories, Unknown, named_in
from contextkit.providers.validation import ReceivedRequest, Refusal

KEPT = 4096
"""Responses, and conversations, that can be asked for by name; the oldest go first."""
_PREFIXES: Mapping[str, str] = {"message": "msg", "function_call_output": "fco", "custom_tool_call_output": "ctco"}
"""Type of an item that users and tools say → how its id begins."""
_BOTH = "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Ensure you are only providing one of them."


@dataclass(slots=True)
class Conversation:
    """One conversation."""

    created_at: int
    """When it was created, whole seconds since 1970."""
    metadata: Json
    """What its creator wrote on it."""


class Stored:
    """Everything one server keeps between requests."""

    def __init__(self) -> None:
        self.histories = Histories()
        """Items by the name of a response or a conversation."""
        self.responses: OrderedDict[str, Json] = OrderedDict()
        """Responses by their id."""
        self.conversations: OrderedDict[str, Conversation] = OrderedDict()
        """Conversations by their id."""
        self._n_items = 0

    def resolved(self, received: ReceivedRequest) -> ReceivedRequest | Refusal:
        """A request with its whole input, `received.body_as_sent` what it said itself; a refusal where it names what is not kept."""
        if received.body.get(PREVIOUS) is not None and received.body.get(CONVERSATION) is not None:
            return invalid(_BOTH, None, "mutually_exclusive_parameters")
        before = named_in(received.body)
        if before is None and received.body.get(CONVERSATION) is not None:
            return invalid(
                "Invalid type for 'conversation': expected an id, or an object with one.", CONVERSATION, "invalid_type"
            )
        if before is not None and before.field == CONVERSATION and before.name not in self.conversations:
            return unknown(before)
        body = self.histories.whole(received.body)
        return unknown(body) if isinstance(body, Unknown) else replace(received, body=body, body_as_sent=received.body)

    def keep(self, received: ReceivedRequest, response: Mapping[str, Json]) -> None:
        """A request was answered: keep what it said and what came, unless it asked not to."""
        body = received.body if received.body_as_sent is None else received.body_as_sent
        before = named_in(body)
        conversation = before.name if before is not None and before.field == CONVERSATION else None
        if body.get("store") is False and conversation is None:
            return
        said = self.histories.said(body)
        listed = (
            [{"role": "user", "content": said}] if isinstance(said, str) else [] if isinstance(said, Unknown) else said
        )
        items = [*self.identified(listed), *response["output"]]
        if body.get("store") is not False:
            self.histories.keep(response["id"], items, before.name if before else None)
            _put(self.responses, response["id"], response)
        if conversation is not None:
            self.histories.keep(conversation, items, conversation)

    def create(self, name: str, made: Conversation, items: Iterable[Json]) -> None:
        """A new conversation."""
        _put(self.conversations, name, made)
        self.histories.keep(name, self.identified(items))

    def identified(self, items: Iterable[Json]) -> list[Json]:
        """Items as they are listed: what users and tools say has an id and a status; neither is part of a prompt."""
        return [self._identified(item) for item in items]

    def _identified(self, item: Mapping[str, Json]) -> Json:
        kind = item.get("type") or "message"
        if not (kind in OUTPUTS or (kind == "message" and item.get("role") != "assistant")):
            return dict(item)
        self._n_items += 1
        text = item.get("content")
        parts = {"content": [{"type": "input_text", "text": text}]} if isinstance(text, str) else {}
        return {
            "type": kind,
            "id": f"{_PREFIXES[kind]}_said_{self._n_items:020d}",
            "status": "completed",
            **item,
            **parts,
        }


def unknown(named: Unknown) -> Refusal:
    """What is said of a name nothing is kept under."""
    if named.field == PREVIOUS:
        return invalid(f"Previous response with id '{named.name}' not found.", PREVIOUS, "previous_response_not_found")
    if named.field == CONVERSATION:
        return missing("Conversation", named.name)
    kept = "Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input."
    return Refusal(404, "invalid_request_error", f"Item with id '{named.name}' not found. {kept}", "input")


def missing(what: str, name: str) -> Refusal:
    """A response, a conversation or an item that is not there."""
    return Refusal(404, "invalid_request_error", f"{what} with id '{name}' not found.", None, None)


def _put(kept: OrderedDict[str, Json], name: str, value: object) -> None:
    kept[name] = value
    if len(kept) > KEPT:
        kept.popitem(last=False)


TRIGGER = "compaction_trigger"


def compaction(said: Iterable[Json], name: str) -> dict[str, Json]:
    """The item that stands for everything before it; `said` is what it holds."""
    return {
        "id": f"cmp_{name}",
        "type": "compaction",
        "encrypted_content": base64.b64encode(canonical(list(said))).decode(),
    }


def compacted(body: Mapping[str, Json], said: list[dict[str, Json]], n_tokens: int, name: str) -> list[dict[str, Json]]:
    """What is said in answer to `body`, a prompt of `n_tokens`, with the summary it asks for."""
    given = body.get("input")
    if isinstance(given, list) and given and given[-1].get("type") == TRIGGER:
        return [compaction(said, name)]
    rules = [rule for rule in body.get("context_management") or () if rule.get("type") == "compaction"]
    is_due = any(n_tokens >= (rule.get("compact_threshold") or n_tokens + 1) for rule in rules)
    return [compaction((), name), *said] if is_due else said
