"""Responses and conversations the local provider stores, as OpenAI does where `store` is not false.

Takes requests that refer to them, gives the same with their whole input; stores responses. Memory is bounded: the oldest
are evicted, and are then unknown, as they are with OpenAI after 30 days. Knows no sockets; requests for them are in
`server/stored_requests.py`.

Compaction as OpenAI does it: a call of its own, an item that requests it, or a threshold that triggers it. The scripted
reply to the first two is the summary, unencrypted: its text in base64. Field names are those of `openai.types.responses`
3.52 (compacted_response.py, response_compaction_item.py).
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from contextkit.canonical import Json, canonical
from contextkit.providers.histories import CONVERSATION, PREVIOUS, Histories, Unknown, named_in
from contextkit.providers.openai.responses import OUTPUTS
from contextkit.server.endpoints.openai_validation import invalid
from contextkit.server.endpoints.validation import ReceivedRequest, Refusal

MAX_STORED = 4096
"""Responses, and conversations, that are stored; the oldest are evicted first."""
_PREFIXES: Mapping[str, str] = {"message": "msg", "function_call_output": "fco", "custom_tool_call_output": "ctco"}
"""Type of an item of users and tools → prefix of its id."""
_OURS = "_said_"
"""Part of the ids that items of users and tools are given."""
_BOTH = "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Ensure you are only providing one of them."


@dataclass(slots=True)
class Conversation:
    """One conversation."""

    created_at: int
    """When it was created, whole seconds since 1970."""
    metadata: Json
    """Metadata of its creator."""


class Stored:
    """Everything one server stores between requests."""

    def __init__(self) -> None:
        self.histories = Histories()
        """Items by the name of a response or a conversation."""
        self.responses: OrderedDict[str, Json] = OrderedDict()
        """Responses by their id."""
        self.conversations: OrderedDict[str, Conversation] = OrderedDict()
        """Conversations by their id."""
        self._n_items = 0

    def resolved(
        self, received: ReceivedRequest, held: Mapping[str, list[Json]] = MappingProxyType({})
    ) -> ReceivedRequest | Refusal:
        """A request with its whole input, `body_as_sent` being its own; a refusal where it names something not stored.

        `held` are items by the name of a response that is not stored: a WebSocket's own.
        """
        if received.body.get(PREVIOUS) is not None and received.body.get(CONVERSATION) is not None:
            return invalid(_BOTH, None, "mutually_exclusive_parameters")
        before = named_in(received.body)
        if before is None and received.body.get(CONVERSATION) is not None:
            return invalid(
                "Invalid type for 'conversation': expected an id, or an object with one.", CONVERSATION, "invalid_type"
            )
        if before is not None and before.field == CONVERSATION and before.name not in self.conversations:
            return unknown(before)
        body = self.histories.whole(received.body, held)
        if isinstance(body, Unknown):
            return unknown(body)
        if body.get("input") is not received.body.get("input"):
            body["input"] = [_as_sent(item) for item in body["input"]]
        return replace(received, body=body, body_as_sent=received.body)

    def keep(self, received: ReceivedRequest, response: Mapping[str, Json]) -> None:
        """Store the input of a request and its response, unless the request opts out."""
        body = received.body if received.body_as_sent is None else received.body_as_sent
        before = named_in(body)
        conversation = before.name if before is not None and before.field == CONVERSATION else None
        if body.get("store") is False and conversation is None:
            return
        if before is not None and before.name not in self.histories:  # it goes on from a response that is not stored
            body, before = received.body, None
        new = self.histories.new_input(body)
        listed = [{"role": "user", "content": new}] if isinstance(new, str) else [] if isinstance(new, Unknown) else new
        items = [*self.identified(listed), *response["output"]]
        if body.get("store") is not False:
            self.histories.keep(response["id"], items, before.name if before else None)
            _put(self.responses, response["id"], response)
        if conversation is not None:
            self.histories.keep(conversation, items, conversation)

    def create(self, name: str, made: Conversation, items: Iterable[Json]) -> None:
        """Store a new conversation."""
        _put(self.conversations, name, made)
        self.histories.keep(name, self.identified(items))

    def identified(self, items: Iterable[Json]) -> list[Json]:
        """Items with an id each; one that is given to an item of users and tools is no part of a prompt."""
        return [self._identified(item) for item in items]

    def _identified(self, item: Mapping[str, Json]) -> Json:
        if not _is_callers(item):
            return dict(item)
        self._n_items += 1
        return {"id": f"{_PREFIXES[item.get('type') or 'message']}{_OURS}{self._n_items:020d}", **item}


def listed_item(item: Mapping[str, Json]) -> dict[str, Json]:
    """An item as it is listed: one of users and tools has a type, a status and its text as a part."""
    if not _is_callers(item):
        return dict(item)
    text = item.get("content")
    parts = {"content": [{"type": "input_text", "text": text}]} if isinstance(text, str) else {}
    return {"type": item.get("type") or "message", "status": "completed", **item, **parts}


def _is_callers(item: Mapping[str, Json]) -> bool:
    kind = item.get("type") or "message"
    return kind in OUTPUTS or (kind == "message" and item.get("role") != "assistant")


def _as_sent(item: Json) -> Json:
    """An item without the id it was given: a conversation is recognised by what its client sends."""
    if isinstance(item, dict) and _OURS in str(item.get("id")):
        return {name: value for name, value in item.items() if name != "id"}
    return item


def unknown(named: Unknown) -> Refusal:
    """The refusal of a name that is not stored."""
    if named.field == PREVIOUS:
        return invalid(f"Previous response with id '{named.name}' not found.", PREVIOUS, "previous_response_not_found")
    if named.field == CONVERSATION:
        return missing("Conversation", named.name)
    advice = (
        "Items are not persisted when `store` is set to false. "
        "Try again with `store` set to true, or remove this item from your input."
    )
    return Refusal(404, "invalid_request_error", f"Item with id '{named.name}' not found. {advice}", "input")


def missing(what: str, name: str) -> Refusal:
    """The 404 of a response, a conversation or an item that does not exist."""
    return Refusal(404, "invalid_request_error", f"{what} with id '{name}' not found.", None, None)


def _put(stored: OrderedDict[str, Json], name: str, value: object) -> None:
    stored[name] = value
    if len(stored) > MAX_STORED:
        stored.popitem(last=False)


TRIGGER = "compaction_trigger"


def compaction(output: Iterable[Json], name: str) -> dict[str, Json]:
    """The item that stands for everything before it; `output` is its content."""
    return {
        "id": f"cmp_{name}",
        "type": "compaction",
        "encrypted_content": base64.b64encode(canonical(list(output))).decode(),
    }


def compacted(
    body: Mapping[str, Json], output: list[dict[str, Json]], n_tokens: int, name: str
) -> list[dict[str, Json]]:
    """The output items for `body`, a prompt of `n_tokens`, with the summary it requests."""
    items = body.get("input")
    if isinstance(items, list) and items and items[-1].get("type") == TRIGGER:
        return [compaction(output, name)]
    rules = [rule for rule in body.get("context_management") or () if rule.get("type") == "compaction"]
    is_due = any(n_tokens >= (rule.get("compact_threshold") or n_tokens + 1) for rule in rules)
    return [compaction((), name), *output] if is_due else output
