"""HTTP requests for stored responses and conversations.

Takes headers, a path and a body, gives the bytes of the response. What is stored, and how it is written, is in
`server/endpoints/openai_stored_requests.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from contextkit.canonical import parse
from contextkit.errors import NotSerialisable
from contextkit.server.answer import Outcome, answered, refused
from contextkit.server.endpoints.codec import Codec
from contextkit.server.endpoints.openai_stored_requests import StoredAnswer, StoredRequest
from contextkit.server.endpoints.validation import MOST_LEVELS, ReceivedRequest, Refusal, first, is_nested_deeper
from contextkit.server.state import State


def handle(
    state: State,
    codec: Codec,
    headers: Mapping[str, str],
    act: Callable[[StoredRequest], StoredAnswer],
    method: str,
    names: Mapping[str, str],
    query: Mapping[str, str],
    raw: bytes,
) -> Outcome:
    """The response to a request for stored state, by one of the handlers in `ROUTES`; `names` are those of the path."""
    message = ""
    try:
        body = parse(raw or b"{}")
    except NotSerialisable as error:
        body, message = {}, f"The request body is not valid JSON: {error}"
    if not isinstance(body, dict):
        message = "The request body must be a JSON object."
    elif is_nested_deeper(body, MOST_LEVELS):
        message = f"The request body is nested deeper than {MOST_LEVELS} levels."
    if message:
        return refused(state, codec, codec.scripted_error(400, None, message))
    with state.lock:
        stored, now = state.stored(headers.get(codec.workspace_header, "")), int(state.clock.now())
        name, item_name = names.get("name", ""), names.get("item", "")
        request = StoredRequest(stored, now, state.number, method, name, item_name, query, body)
        refusal = first(check(ReceivedRequest(headers, body)) for check in codec.request_checks[:1])
        value = refusal or act(request)
        return refused(state, codec, value) if isinstance(value, Refusal) else answered(state, codec, value)
