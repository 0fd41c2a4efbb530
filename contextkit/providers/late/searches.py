"""The items of a search for tools that the program runs, on Responses.

Takes items and bodies of results, gives the item that answers a search, and what an item is. A search that ran at the
API is the model's own business: its output stands beside it, and nobody answers it
(responses/response_tool_search_call.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from contextkit.canonical import Json
from contextkit.tools.late.search import SEARCH as NAME

SEARCH = "tool_search_call-"
"""Stands before the neutral id of a search that we are to run, whose answer is an item of its own kind."""
TOOL = NAME
"""The tool its call is one of."""


def is_ours(item: Mapping[str, Json]) -> bool:
    """Whether an item that calls is ours to answer: a search where it says so, and every other call."""
    return item.get("type") != "tool_search_call" or (
        item.get("execution") == "client" and item.get("call_id") is not None
    )


def answers_search(item: Mapping[str, Json]) -> bool:
    """Whether an item is what we found.

    >>> answers_search({"type": "tool_search_output", "execution": "client", "call_id": "c", "tools": []})
    True
    """
    return (item.get("type"), item.get("execution")) == ("tool_search_output", "client") and item.get(
        "call_id"
    ) is not None


def found(body: Mapping[str, Json], blocks: Iterable[Mapping[str, Json]]) -> Json:
    """What a search found.

    Words beside the definitions have no place (responses/response_tool_search_output_item_param_param.py).
    """
    tools = [block for block in blocks if not str(block.get("type")).startswith("input_")]
    status = "incomplete" if body["is_error"] else "completed"
    call = body["call_id"].removeprefix(SEARCH)
    return {"type": "tool_search_output", "call_id": call, "execution": "client", "status": status, "tools": tools}
