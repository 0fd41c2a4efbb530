"""A call that asks for what is kept, from its parts to the bytes that answer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contextkit.canonical import Json, parse
from contextkit.errors import NotSerialisable
from contextkit.providers.codec import Wire
from contextkit.providers.validation import MOST_LEVELS, Refusal, Sent, first, is_nested_deeper
from contextkit.server.answer import Outcome, answered, refused
from contextkit.server.state import State
from contextkit.server.stored_endpoints import Wanted


def ask(
    state: State,
    wire: Wire,
    headers: Mapping[str, str],
    act: Callable[[Wanted], Json | Refusal],
    method: str,
    names: Mapping[str, str],
    query: Mapping[str, str],
    raw: bytes,
) -> Outcome:
    """What `act` says, in the words of `wire`; `names` are those of the path."""
    try:
        body = parse(raw or b"{}")
    except NotSerialisable as fault:
        return refused(state, wire, wire.fault(400, None, f"The request body is not valid JSON: {fault}"))
    if not isinstance(body, dict):
        return refused(state, wire, wire.fault(400, None, "The request body must be a JSON object."))
    if is_nested_deeper(body, MOST_LEVELS):
        return refused(
            state, wire, wire.fault(400, None, f"The request body is nested deeper than {MOST_LEVELS} levels.")
        )
    with state.lock:
        stored, now = state.stored(headers.get(wire.workspace, "")), int(state.clock.now())
        wanted = Wanted(stored, now, state.number, method, names.get("name", ""), names.get("item", ""), query, body)
        found = first(check(Sent(headers, body)) for check in wire.early[:1]) or act(wanted)
        return refused(state, wire, found) if isinstance(found, Refusal) else answered(state, wire, found)
