"""The Responses API over a WebSocket, message by message; knows no sockets.

A client sends `response.create` with the body of a request and receives the events of its stream, one message each. What
is answered and billed is decided in `answer.py`, as for a body that is posted. A connection holds what POST cannot
continue: the latest response of each of its lanes, also one with `store: false`.

Rules: https://developers.openai.com/api/docs/guides/websocket-mode. Names: `openai.types.responses` 3.57
(responses_client_event.py, responses_server_event.py, response_steer_failed_event.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count

from contextkit.canonical import Json, canonical, parse
from contextkit.providers.histories import PREVIOUS
from contextkit.server.answer import Call, Outcome, admit, read_body, refused
from contextkit.server.endpoints.codec import ResponseData
from contextkit.server.endpoints.openai_responses_rendering import render_error_message
from contextkit.server.endpoints.openai_stored import Stored
from contextkit.server.endpoints.openai_validation import invalid
from contextkit.server.endpoints.table import MESSAGE
from contextkit.server.endpoints.validation import ParsedRequest, ReceivedRequest, Refusal
from contextkit.server.state import State

MOST_LANES = 32
"""Named lanes that a connection may have."""
MOST_UNDER_WAY = 16
"""Responses of a connection that are under way at a time; further requests wait."""
_LIFETIME_SECONDS = 3600
_STREAM_ID = re.compile(r"[\w.-]{1,256}", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Response:
    """A response that a lane holds."""

    id: str
    items: list[Json]
    """Its whole input and its output."""
    stored: Stored
    """What the server stored when it came: a reset begins another."""


class MessageLane:
    """Requests that are answered one after another, and the latest response to them."""

    def __init__(self, connection: Connection, stream_id: str | None) -> None:
        """`stream_id` is the lane's name, None for the default lane."""
        self.stream_id = stream_id
        self.latest: _Response | None = None
        self.codec = replace(MESSAGE, resolve_stored=connection.resolved, store_response=self._store)

    def _store(self, stored: Stored, request: ParsedRequest, answer: ResponseData) -> None:
        MESSAGE.store_response(stored, request, answer)
        sent = request.received.body["input"]
        items = [{"role": "user", "content": sent}] if isinstance(sent, str) else sent
        self.latest = _Response(answer.id, [*items, *MESSAGE.render_response(answer)["output"]], stored)


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a lane."""

    lane: MessageLane
    state: State
    headers: Mapping[str, str]
    body: Mapping[str, Json]

    def begin(self) -> Outcome | Call:
        """Refuse the request, or let it in."""
        return admit(self.state, self.lane.codec, self.headers, canonical(self.body))

    def end(self, outcome: Outcome) -> list[str]:
        """The messages of its response; a turn that failed leaves nothing of the lane's response that it continued."""
        continued = self.lane.latest
        if continued is not None and continued.id == self.body.get(PREVIOUS):
            self.lane.latest = None
        return list(_messages(outcome, self.lane.stream_id))


class Connection:
    """The lanes of one WebSocket."""

    def __init__(self, state: State, headers: Mapping[str, str]) -> None:
        """`headers` are those of the handshake: they count for every request."""
        self._state, self._headers = state, headers
        self._opened_at = state.clock.now()
        self._lanes: dict[str | None, MessageLane] = {None: MessageLane(self, None)}
        self._steer_numbers = count()

    def read(self, text: str | None) -> Turn | list[str]:
        """The request in a message, or the messages that answer it at once; None is a binary message."""
        if text is None:
            return self._refused(invalid("Send events as text messages; a binary message is not read."))
        body = read_body(MESSAGE, text.encode())
        if isinstance(body, Refusal):
            return self._refused(body)
        if body.get("type") == "response.steer":
            return [_encode(self._steer_failed(body))]
        if body.get("type") != "response.create":
            message = "Invalid value for 'type'. Supported values are: 'response.create', 'response.steer'."
            return self._refused(invalid(message, "type", "invalid_value"))
        name = body.get("stream_id")
        if name is not None and not (isinstance(name, str) and _STREAM_ID.fullmatch(name)):
            message = (
                "The 'stream_id' field must be a non-empty string with at most 256 characters and may only contain letters, "
                "numbers, underscores, hyphens, and periods."
            )
            return self._refused(invalid(message, "stream_id", "invalid_stream_id"))
        if name not in self._lanes and len(self._lanes) > MOST_LANES:
            message = (
                f"This WebSocket connection has reached its maximum number of distinct stream IDs ({MOST_LANES}). "
                "Reuse an existing stream_id or open a new WebSocket connection."
            )
            return self._refused(invalid(message, "stream_id", "websocket_stream_limit_reached"), name)
        lane = self._lanes.setdefault(name, MessageLane(self, name))
        fields = {name: value for name, value in body.items() if name not in ("type", "stream_id")}
        if fields.get("generate") is False and fields.get("input") is None:
            fields["input"] = []
        return Turn(lane, self._state, self._headers, {**fields, "stream": True})

    def expired(self) -> list[str]:
        """The messages that end a connection which is too old; none before."""
        if self._state.clock.now() - self._opened_at < _LIFETIME_SECONDS:
            return []
        message = (
            f"Responses websocket connection limit reached ({_LIFETIME_SECONDS // 60} minutes). "
            "Create a new websocket connection to continue."
        )
        return self._refused(invalid(message, None, "websocket_connection_limit_reached"))

    def resolved(self, stored: Stored, received: ReceivedRequest) -> ReceivedRequest | Refusal:
        """A request with its whole input, which a lane or the server holds."""
        return stored.resolved(received, {held.id: held.items for _, held in self._held() if held.stored is stored})

    def _held(self) -> Iterator[tuple[MessageLane, _Response]]:
        return ((lane, lane.latest) for lane in self._lanes.values() if lane.latest is not None)

    def _refused(self, refusal: Refusal, stream_id: str | None = None) -> list[str]:
        return list(_messages(refused(self._state, MESSAGE, refusal), stream_id))

    def _steer_failed(self, body: Mapping[str, Json]) -> Json:
        """Input that comes too late: a response is complete as soon as its client learns its id."""
        name, sent = body.get(PREVIOUS), body.get("input")
        lane = next((lane for lane, held in self._held() if held.id == name), None)
        code, message = "response_not_found", f"Response with id '{name}' not found on this connection."
        if not isinstance(name, str) or not isinstance(sent, str | list) or not sent:
            code, message = "invalid_input", "Expected 'previous_response_id' and 'input', a text or user messages."
        elif lane is not None:
            code, message = "response_already_completed", "The response completed. Send the input in response.create."
        return {
            "type": "response.steer.failed",
            "sequence_number": next(self._steer_numbers),
            "error": {"type": "invalid_request_error", "code": code, "message": message},
            "steer": {PREVIOUS: name, "input": sent},
            **({"stream_id": lane.stream_id} if lane is not None and lane.stream_id else {}),
        }


def _messages(outcome: Outcome, stream_id: str | None) -> Iterator[str]:
    """The events of a stream, or its refusal, as messages of a lane."""
    lane = {} if stream_id is None else {"stream_id": stream_id}
    if outcome.status >= 400:
        headers = {name: value for name, value in outcome.headers if name != "content-type"}
        error = {**parse(outcome.chunks[0])["error"], "headers": headers}
        yield _encode({**render_error_message(outcome.status, error), **lane})
        return
    for event in b"".join(outcome.chunks).split(b"\n\n")[:-1]:
        data = event.partition(b"data: ")[2].decode()
        yield f"{data[:-1]},{_encode(lane)[1:]}" if lane else data


def _encode(value: Json) -> str:
    return canonical(value).decode()
