"""The endpoints by which tests in any language steer the server; bad input gets `{"error": …}` and changes nothing.

POST /_contextkit/clock      {"advance_seconds": 300} or {"now": 1790000000}   {"now": …}
POST /_contextkit/script     {"replies": [script, …]}                          {"waiting": n}
POST /_contextkit/reset                                                        {"now": …}
GET  /_contextkit/findings                    {"findings": [{"kind", "endpoint", "name", "text"}, …]}
GET  /_contextkit/ledger                      a ledger file: its first line, then one line a call
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from contextkit.canonical import Json, parse
from contextkit.errors import UnreadableRequest
from contextkit.ledger.calls import HEADER, Chain, encode
from contextkit.server.state import State


def move_clock(state: State, raw: bytes) -> Json:
    """Move the clock forward."""
    moves: dict[str, Callable[[float], None]] = {"advance_seconds": state.clock.advance, "now": state.clock.set}
    name, value = _only_field(raw, moves)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise UnreadableRequest(name, "Input should be a valid number")
    moves[name](_seconds(name, value))
    return {"now": state.clock.now()}


def add_script(state: State, raw: bytes) -> Json:
    """Put replies behind those that wait."""
    name, replies = _only_field(raw, ("replies",))
    if not isinstance(replies, list):
        raise UnreadableRequest(name, "Input should be a valid array")
    state.replies.extend(replies)
    return {"waiting": len(state.replies)}


def reset(state: State, raw: bytes) -> Json:
    """Forget everything."""
    state.reset()
    return {"now": state.clock.now()}


def ledger_lines(state: State) -> bytes:
    """The ledger as the file it would be."""
    return HEADER + Chain().add(*map(encode, list(state.ledger)))[0]


ROUTES: Mapping[str, Callable[[State, bytes], Json]] = {"clock": move_clock, "script": add_script, "reset": reset}
"""Last step of the path → what a POST does."""


def _only_field(raw: bytes, names: Collection[str]) -> tuple[str, Json]:
    """The one field of a JSON object, which must be among `names`."""
    body = parse(raw)
    if not isinstance(body, dict) or len(body) != 1 or next(iter(body)) not in names:
        raise UnreadableRequest("body", f"expected an object with one field: {' or '.join(names)}")
    ((name, value),) = body.items()
    return name, value


def _seconds(name: str, value: Json) -> float:
    try:
        return float(value)
    except OverflowError:
        raise UnreadableRequest(name, "Input should be a number of seconds") from None
