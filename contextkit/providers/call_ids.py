"""The ids of the calls in a response of any endpoint, made unique: some hosts give several calls of one reply one id.

A call is answered by its id, and providers refuse a history in which one id stands twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from hashlib import blake2b

from contextkit.canonical import Json

_ANSWERS = ("content", "choices", "output", "candidates")
"""Where the endpoints' responses hold what the model said."""


def with_unique_calls(answer: Mapping[str, Json]) -> Json:
    """The response (as `plain` gives it) in which each call has an id of its own: the first one with an id keeps it.

    The ids given are the same each time, and of the same length and letters, which some hosts check.

    >>> calls = [{"type": "tool_use", "id": "toolu_0123", "name": name} for name in "fg"]
    >>> [call["id"] for call in with_unique_calls({"content": calls})["content"]]
    ['toolu_0123', 'toolu_bb31']
    """
    copy = deepcopy(dict(answer))
    calls = [(call, field) for name in _ANSWERS for call, field in _call_ids(copy.get(name)) if call.get(field)]
    used = {str(call[field]) for call, field in calls}
    before: set[str] = set()
    for call, field in calls:
        name = new = str(call[field])
        n = 1
        while name in before and new in used:
            n += 1
            digest = blake2b(f"{name} {n}".encode()).hexdigest()
            new = f"{name[:-4]}{digest[:4]}" if len(name) >= 8 else f"{name}_{n}"
        if new != name:
            call[field] = new
        before.add(name)
        used.add(new)
    return copy


def _call_ids(value: Json) -> Iterator[tuple[dict[str, Json], str]]:
    """The calls of what a model said, with the field that holds their id, in order."""
    if isinstance(value, list):
        for item in value:
            yield from _call_ids(item)
    elif isinstance(value, dict):
        kind = value.get("type")
        if kind == "tool_use":
            yield value, "id"
        elif "call_id" in value:
            if not str(kind).endswith("_output"):
                yield value, "call_id"
        else:
            for name, item in value.items():
                if name == "tool_calls" and isinstance(item, list):
                    yield from ((call, "id") for call in item if isinstance(call, dict))
                elif name in _KEYED_CALLS and isinstance(item, dict):
                    yield item, _KEYED_CALLS[name]
                else:
                    yield from _call_ids(item)


_KEYED_CALLS = {"toolUse": "toolUseId", "functionCall": "id"}
"""Key of a call, of Converse and Gemini → the field of its id."""
