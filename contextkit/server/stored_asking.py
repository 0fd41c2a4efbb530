"""A call that asks for what is kept, from its parts to the bytes that answer it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contextkit.canonical import Json, parse
from contextkit.errors import NotSerialisable
from contextkit.providers.codec import Codec
from contextkit.providers.validation import MOST_LEVELS, ReceivedRequest, Refusal, first, is_nested_deeper
from contextkit.server.answer import Outcome, answered, refused
from contextkit.server.state import State
from contextkit.server.stored_endpoints import Wanted


def ask(
    state: State,
    codec: Codec,
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
        return refused(state, codec, codec.scripted_error(400, None, f"The request body is not valid JSON: {fault}"))
    if not isinstance(body, dict):
        return refused(state, codec, codec.scripted_error(400, None, "The request body must be a JSON object."))
    if is_nested_deeper(body, MOST_LEVELS):
        return refused(
            state,
            codec,
            codec.scripted_error(400, None, f"The request body is nested deeper than {MOST_LEVELS} levels."),
        )
    with state.lock:
        stored, now = state.stored(headers.get(codec.workspace_header, "")), int(state.clock.now())
        wanted = Wanted(stored, now, state.number, method, names.get("name", ""), names.get("item", ""), query, body)
        found = first(check(ReceivedRequest(headers, body)) for check in codec.request_checks[:1]) or act(wanted)
        return refused(state, codec, found) if isinstance(found, Refusal) else answered(state, codec, found)
