"""Requests for stored state: `/responses/{id}`, its input items, `/conversations` and theirs.

A handler takes a `StoredRequest` and gives the value that answers it, or its refusal. Field names are those of
`openai.types.conversations` and `openai.types.responses.response_item_list` (3.52).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.server.answer import Outcome, answered, missing_key, read_body, refused
from contextkit.server.endpoints.openai_stored import Conversation, Stored, listed_item, missing
from contextkit.server.endpoints.openai_validation import invalid, items_shape
from contextkit.server.endpoints.table import RESPONSES
from contextkit.server.endpoints.validation import Refusal, first
from contextkit.server.state import State

_DEFAULT_LIMIT, _MAX_LIMIT = 20, 100
"""Items of a page (conversations/item_list_params.py)."""
_MAX_ADDED = 20
"""Items that can be added at a time (conversations/item_create_params.py)."""
StoredAnswer = Json | Refusal
"""The value of a response, or why there is none."""


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request for stored state."""

    stored: Stored
    now: int
    """Whole seconds since 1970."""
    number: Callable[[str], int]
    """1, 2, 3, … for each kind."""
    method: str
    name: str
    """Of the response or the conversation; empty where one is created."""
    item: str
    """Of the item; empty where none is named."""
    query: Mapping[str, str]
    body: Mapping[str, Json]


def response(request: StoredRequest) -> StoredAnswer:
    """`GET` and `DELETE /responses/{id}`."""
    stored_value = request.stored.responses.get(request.name)
    if stored_value is None:
        return missing("Response", request.name)
    if request.method == "GET":
        return stored_value
    del request.stored.responses[request.name]
    request.stored.histories.forget(request.name)
    return {"id": request.name, "object": "response", "deleted": True}


def input_items(request: StoredRequest) -> StoredAnswer:
    """`GET /responses/{id}/input_items`: everything that stood before its output."""
    stored_value, stored_items = (
        request.stored.responses.get(request.name),
        request.stored.histories.items(request.name),
    )
    if stored_value is None or stored_items is None:
        return missing("Response", request.name)
    return _page(stored_items[: len(stored_items) - len(stored_value["output"])], request.query)


def conversations(request: StoredRequest) -> StoredAnswer:
    """`POST /conversations`."""
    items = request.body.get("items") or []
    if refusal := _refuse_items(items):
        return refusal
    name = f"conv_{request.number('conversation'):024d}"
    request.stored.create(name, Conversation(request.now, request.body.get("metadata") or {}), items)
    return _conversation_json(request.stored, name)


def conversation(request: StoredRequest) -> StoredAnswer:
    """`GET`, `POST` and `DELETE /conversations/{id}`."""
    stored_value = request.stored.conversations.get(request.name)
    if stored_value is None:
        return missing("Conversation", request.name)
    if request.method == "DELETE":
        del request.stored.conversations[request.name]
        request.stored.histories.forget(request.name)
        return {"id": request.name, "object": "conversation.deleted", "deleted": True}
    if request.method == "POST":
        stored_value.metadata = request.body.get("metadata") or {}
    return _conversation_json(request.stored, request.name)


def items(request: StoredRequest) -> StoredAnswer:
    """`GET` and `POST /conversations/{id}/items`."""
    stored, stored_items = request.stored, _items_of(request)
    if isinstance(stored_items, Refusal):
        return stored_items
    if request.method == "GET":
        return _page(stored_items, request.query)
    new_items: list[Json] = request.body.get("items") or []
    if refusal := _refuse_items(new_items):
        return refusal
    added = stored.identified(new_items)
    stored.histories.keep(request.name, added, request.name)
    return _page(added, {"order": "asc", "limit": str(_MAX_ADDED)})


def item(request: StoredRequest) -> StoredAnswer:
    """`GET` and `DELETE /conversations/{id}/items/{id}`."""
    stored_items = _items_of(request)
    if isinstance(stored_items, Refusal):
        return stored_items
    stored_value = next((item for item in stored_items if item.get("id") == request.item), None)
    if stored_value is None:
        return missing("Item", request.item)
    if request.method == "GET":
        return listed_item(stored_value)
    request.stored.histories.keep(request.name, [item for item in stored_items if item is not stored_value])
    return _conversation_json(request.stored, request.name)


ROUTES: tuple[tuple[str, tuple[str, ...], Callable[[StoredRequest], StoredAnswer]], ...] = (
    ("/v1/responses/{name}", ("GET", "DELETE"), response),
    ("/v1/responses/{name}/input_items", ("GET",), input_items),
    ("/v1/conversations", ("POST",), conversations),
    ("/v1/conversations/{name}", ("GET", "POST", "DELETE"), conversation),
    ("/v1/conversations/{name}/items", ("GET", "POST"), items),
    ("/v1/conversations/{name}/items/{item}", ("GET", "DELETE"), item),
)
"""Path, methods, handler."""


def _items_of(request: StoredRequest) -> list[Json] | Refusal:
    items = request.stored.histories.items(request.name) if request.name in request.stored.conversations else None
    return missing("Conversation", request.name) if items is None else items


def _refuse_items(items: Json) -> Refusal | None:
    """The refusal of items to be added, None where they are valid."""
    if not isinstance(items, list):
        return invalid("Missing required parameter: 'items'.", "items", "missing_required_parameter")
    if len(items) > _MAX_ADDED:
        text = f"Invalid 'items': array too long. Expected an array with maximum length {_MAX_ADDED}, but got {len(items)} instead."
        return invalid(text, "items", "array_above_max_length")
    return first([items_shape(items)])


def _conversation_json(stored: Stored, name: str) -> Json:
    stored_value = stored.conversations[name]
    return {
        "id": name,
        "object": "conversation",
        "created_at": stored_value.created_at,
        "metadata": stored_value.metadata,
    }


def _page(items: list[Json], query: Mapping[str, str]) -> StoredAnswer:
    """A page of items, the latest first unless `order=asc`; `after` names the last one of the page before."""
    limit = query.get("limit", str(_DEFAULT_LIMIT))
    if not limit.isdecimal() or not 1 <= int(limit) <= _MAX_LIMIT:
        return invalid(f"Invalid 'limit': expected a number from 1 to {_MAX_LIMIT}.", "limit", "invalid_value")
    ordered = [{"id": f"item_{place:020d}", **listed_item(item)} for place, item in enumerate(items)]
    ordered = ordered if query.get("order", "desc") == "asc" else ordered[::-1]
    start = next((place + 1 for place, item in enumerate(ordered) if item["id"] == query.get("after")), 0)
    page = ordered[start : start + int(limit)]
    ids = [item["id"] for item in page] or [""]
    return {
        "object": "list",
        "data": page,
        "first_id": ids[0],
        "last_id": ids[-1],
        "has_more": start + len(page) < len(ordered),
    }


def handle(
    state: State,
    headers: Mapping[str, str],
    act: Callable[[StoredRequest], StoredAnswer],
    method: str,
    names: Mapping[str, str],
    query: Mapping[str, str],
    raw: bytes,
) -> Outcome:
    """Answer a request for stored state by one of the handlers in `ROUTES`; `names` are those of its path."""
    body = read_body(RESPONSES, raw or b"{}")
    if isinstance(body, Refusal):
        return refused(state, RESPONSES, missing_key(RESPONSES, headers) or body)
    with state.lock:
        stored, now = state.stored(headers.get(RESPONSES.workspace_header, "")), int(state.clock.now())
        name, item_name = names.get("name", ""), names.get("item", "")
        request = StoredRequest(stored, now, state.number, method, name, item_name, query, body)
        value = missing_key(RESPONSES, headers) or act(request)
        return refused(state, RESPONSES, value) if isinstance(value, Refusal) else answered(state, RESPONSES, value)
