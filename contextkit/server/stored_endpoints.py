"""The endpoints of what is kept: `/responses/{id}`, its input items, `/conversations` and theirs.

Takes what a client asks for, gives JSON or a refusal. Field names are those of `openai.types.conversations` and
`openai.types.responses.response_item_list` (3.52).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from contextkit.canonical import Json
from contextkit.providers.openai.stored import Conversation, Stored, missing
from contextkit.providers.openai.validation import invalid, items_shape
from contextkit.providers.validation import Refusal, first

_DEFAULT, _MOST = 20, 100
"""Items of a page (conversations/item_list_params.py)."""
_AT_ONCE = 20
"""Items that can be added at a time (conversations/item_create_params.py)."""
_Answered = Json | Refusal


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a client asks of the kept."""

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


def response(wanted: Wanted) -> _Answered:
    """`GET` and `DELETE /responses/{id}`."""
    found = wanted.stored.responses.get(wanted.name)
    if found is None:
        return missing("Response", wanted.name)
    if wanted.method == "GET":
        return found
    del wanted.stored.responses[wanted.name]
    wanted.stored.histories.forget(wanted.name)
    return {"id": wanted.name, "object": "response", "deleted": True}


def input_items(wanted: Wanted) -> _Answered:
    """`GET /responses/{id}/input_items`: everything that stood before its output."""
    found, held = wanted.stored.responses.get(wanted.name), wanted.stored.histories.items(wanted.name)
    if found is None or held is None:
        return missing("Response", wanted.name)
    return _page(held[: len(held) - len(found["output"])], wanted.query)


def conversations(wanted: Wanted) -> _Answered:
    """`POST /conversations`."""
    items = wanted.body.get("items") or []
    refusal = _addable(items)
    if refusal:
        return refusal
    name = f"conv_{wanted.number('conversation'):024d}"
    wanted.stored.create(name, Conversation(wanted.now, wanted.body.get("metadata") or {}), items)
    return _shown(wanted.stored, name)


def conversation(wanted: Wanted) -> _Answered:
    """`GET`, `POST` and `DELETE /conversations/{id}`."""
    found = wanted.stored.conversations.get(wanted.name)
    if found is None:
        return missing("Conversation", wanted.name)
    if wanted.method == "DELETE":
        del wanted.stored.conversations[wanted.name]
        wanted.stored.histories.forget(wanted.name)
        return {"id": wanted.name, "object": "conversation.deleted", "deleted": True}
    if wanted.method == "POST":
        found.metadata = wanted.body.get("metadata") or {}
    return _shown(wanted.stored, wanted.name)


def items(wanted: Wanted) -> _Answered:
    """`GET` and `POST /conversations/{id}/items`."""
    stored, held = wanted.stored, _held(wanted)
    if isinstance(held, Refusal) or wanted.method == "GET":
        return held if isinstance(held, Refusal) else _page(held, wanted.query)
    given: list[Json] = wanted.body.get("items") or []
    refusal = _addable(given)
    if refusal:
        return refusal
    added = stored.identified(given)
    stored.histories.keep(wanted.name, added, wanted.name)
    return _page(added, {"order": "asc", "limit": str(_AT_ONCE)})


def item(wanted: Wanted) -> _Answered:
    """`GET` and `DELETE /conversations/{id}/items/{id}`."""
    held = _held(wanted)
    if isinstance(held, Refusal):
        return held
    found = next((item for item in held if item.get("id") == wanted.item), None)
    if found is None:
        return missing("Item", wanted.item)
    if wanted.method == "GET":
        return found
    wanted.stored.histories.keep(wanted.name, [item for item in held if item is not found])
    return _shown(wanted.stored, wanted.name)


ROUTES: tuple[tuple[str, tuple[str, ...], Callable[[Wanted], _Answered]], ...] = (
    ("/v1/responses/{name}", ("GET", "DELETE"), response),
    ("/v1/responses/{name}/input_items", ("GET",), input_items),
    ("/v1/conversations", ("POST",), conversations),
    ("/v1/conversations/{name}", ("GET", "POST", "DELETE"), conversation),
    ("/v1/conversations/{name}/items", ("GET", "POST"), items),
    ("/v1/conversations/{name}/items/{item}", ("GET", "DELETE"), item),
)
"""Path, methods, who answers."""


def _held(wanted: Wanted) -> list[Json] | Refusal:
    held = wanted.stored.histories.items(wanted.name) if wanted.name in wanted.stored.conversations else None
    return missing("Conversation", wanted.name) if held is None else held


def _addable(given: Json) -> Refusal | None:
    """What is wrong with items to be added, None where nothing is."""
    if not isinstance(given, list):
        return invalid("Missing required parameter: 'items'.", "items", "missing_required_parameter")
    if len(given) > _AT_ONCE:
        text = f"Invalid 'items': array too long. Expected an array with maximum length {_AT_ONCE}, but got {len(given)} instead."
        return invalid(text, "items", "array_above_max_length")
    return first([items_shape(given)])


def _shown(stored: Stored, name: str) -> Json:
    found = stored.conversations[name]
    return {"id": name, "object": "conversation", "created_at": found.created_at, "metadata": found.metadata}


def _page(items: list[Json], query: Mapping[str, str]) -> _Answered:
    """A page of items, the latest first unless `order=asc`; `after` names the last one of the page before."""
    limit = query.get("limit", str(_DEFAULT))
    if not limit.isdecimal() or not 1 <= int(limit) <= _MOST:
        return invalid(f"Invalid 'limit': expected a number from 1 to {_MOST}.", "limit", "invalid_value")
    listed = [{"id": f"item_{place:020d}", **item} for place, item in enumerate(items)]
    listed = listed if query.get("order", "desc") == "asc" else listed[::-1]
    start = next((place + 1 for place, item in enumerate(listed) if item["id"] == query.get("after")), 0)
    page = listed[start : start + int(limit)]
    ids = [item["id"] for item in page] or [""]
    return {
        "object": "list",
        "data": page,
        "first_id": ids[0],
        "last_id": ids[-1],
        "has_more": start + len(page) < len(listed),
    }
