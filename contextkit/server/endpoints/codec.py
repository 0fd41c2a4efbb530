"""The codec of one endpoint: how the local provider checks its requests and renders its responses.

`Codec` is a table of functions, one instance per endpoint (`table.py`). The code that serves a request calls these
functions and knows no field name of a request or response body. What reads and parses bodies is in `providers/`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contextkit.canonical import Json, canonical
from contextkit.providers.endpoints import BODIES
from contextkit.server.endpoints.validation import Refusal

if TYPE_CHECKING:
    from contextkit.cache.usage import Usage
    from contextkit.errors import UnreadableRequest
    from contextkit.server.endpoints.diagnostics import Fingerprint, Fingerprints
    from contextkit.server.endpoints.notices import Notice
    from contextkit.server.endpoints.openai_stored import Stored
    from contextkit.server.endpoints.validation import (
        ParsedRequest,
        PromptCheck,
        ReceivedRequest,
        RequestCheck,
    )
    from contextkit.server.scripted import Part

CHUNK = 48
"""Characters in one delta of a stream."""


@dataclass(frozen=True, slots=True)
class ResponseData:
    """Everything a response of the local provider is rendered from."""

    id: str
    """Its id."""
    number: int
    """How many responses came before, for ids inside it."""
    created_at: int
    """When it began, whole seconds since 1970."""
    request: Mapping[str, Json]
    """The body of the request."""
    parts: tuple[Part, ...]
    """Its content, ids and signatures filled in."""
    ending: str
    """done, calls, truncated, paused, refused or overflow."""
    usage: Usage
    """All counters."""
    thinking_tokens: int
    """How much of the output is thinking."""
    diagnosis: Json
    """Why the cache missed, in the endpoint's form; None where the request did not ask."""
    render_usage: Callable[[Json], dict[str, Json]]
    """OpenAI's counters → the fields of a response that hold them, in the form of the engine that answers."""
    extras: Mapping[str, Json]
    """Fields that report what was done to the request (`applied_edits`)."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A response as events, in the pieces a scripted fault may fall between."""

    head: bytes
    """What comes before the first part."""
    parts: tuple[bytes, ...]
    """The events of each part."""
    tail: bytes
    """What ends it."""


@dataclass(frozen=True, slots=True)
class Codec:
    """One endpoint."""

    name: str
    """The endpoint: `anthropic_messages`."""
    provider: str
    """`anthropic`, `openai`, `aws` or `google`: whose caches, models and prices."""
    response_id_prefix: str
    """What ids of responses begin with."""
    workspace_header: str
    """Header that separates caches."""
    request_checks: tuple[RequestCheck, ...]
    """Refusals before the body is parsed; the first asks for a key."""
    prompt_checks: tuple[PromptCheck, ...]
    """Refusals after it is parsed."""
    refuse_unreadable: Callable[[UnreadableRequest], Refusal]
    """A body that `parse` cannot read → its refusal."""
    refuse_unknown_model: Callable[[str], Refusal]
    """A model that this endpoint does not serve → its refusal."""
    error_types: Mapping[int, str]
    """HTTP status → type of the error."""
    other_error_type: str
    """Type of an error with any other status."""
    render_error: Callable[[Refusal], Json]
    """The body of an error."""
    render_error_event: Callable[[Refusal], bytes]
    """An error in mid-stream."""
    status_by_error_type: Mapping[str, int]
    """Type of error → HTTP status, where an error event meets a request that is not streamed."""
    render_content: Callable[[tuple[Part, ...]], list[Json]]
    """Parts as blocks of this endpoint."""
    render_response: Callable[[ResponseData], Json]
    """A whole response."""
    render_stream: Callable[[ResponseData], Stream]
    """A response as events."""
    endings_as_errors: Mapping[str, Refusal] = field(default_factory=dict)
    """Scripted endings that are an error here."""
    prewarm_ending: Callable[[Mapping[str, Json]], str | None] = lambda body: None
    """Ending of a request that only fills the cache and gets an empty answer; None for every other."""
    diagnose: Callable[[Fingerprints, Fingerprint, int], Json] = lambda previous, now, read_tokens: None
    """Its diagnosis of a cache miss."""
    is_comparable: Callable[[Mapping[str, Json]], bool] = lambda body: False
    """Whether a later request may be diagnosed against this one."""
    declared_fields: Container[str] | None = None
    """Top-level fields of the endpoint; another one is accepted with a notice. None where every field is accepted without."""
    header_notices: Callable[[Mapping[str, str]], tuple[Notice, ...]] = lambda headers: ()
    """What is accepted of the headers on an assumption."""
    error_codes: Mapping[int, str] = field(default_factory=dict)
    """HTTP status → code of the error, where the endpoint has one beside the type."""
    call_id_prefix: str = "call"
    """What ids of tool calls begin with."""
    render_count: Callable[[ParsedRequest], Json] = lambda request: {"input_tokens": request.parsed.prompt.n_tokens}
    """The response of an endpoint that counts a prompt's tokens."""
    opted_in: Callable[[Mapping[str, str], Mapping[str, Json]], Mapping[str, str]] = lambda headers, body: headers
    """(headers, body) → the headers, with beta features that the body names."""
    stream_media_type: str = "text/event-stream; charset=utf-8"
    """Media type of a stream."""
    request_id_header: str = "x-request-id"
    """Header that names a response."""
    refuse_moved_thinking: Callable[[Mapping[str, Json], int], Refusal] | None = None
    """(body, number of a thinking block whose past has changed) → its refusal; None where thinking is not bound."""
    drop_moved_thinking: Callable[[ParsedRequest, tuple[int, ...]], ParsedRequest | None] = lambda request, ordinals: (
        None
    )
    """(request, numbers of such blocks) → the request without them, where it asks for that."""
    response_extras: Callable[[ParsedRequest], dict[str, Json]] = lambda request: {}
    """Fields of the response that report what was done to the request."""
    resolve_stored: Callable[[Stored, ReceivedRequest], ReceivedRequest | Refusal] | None = None
    """A request → the same with what the server stores of its conversation; None where requests are self-contained."""
    store_response: Callable[[Stored, ParsedRequest, ResponseData], None] = lambda stored, request, response: None
    """Store what a later request may refer to."""

    @property
    def model_field(self) -> str:
        """Field that names the model."""
        return BODIES[self.name].model_field

    def error(self, status: int, message: str | None, kind: str | None = None) -> Refusal:
        """An error with this status; its type and message are the endpoint's own where none is given."""
        kind = kind or self.error_types.get(status, self.other_error_type)
        return Refusal(status, kind, message or f"Scripted {kind}", code=self.error_codes.get(status))

    def is_streamed(self, fields: Mapping[str, Json]) -> bool:
        """Return whether a body asks for a stream; where the path says so, `addressed` has put it into the body."""
        return bool(fields.get("stream"))

    def addressed(self, fields: Mapping[str, Json], model: str, *, is_stream: bool) -> dict[str, Json]:
        """A body with the model and the stream that its path names."""
        return {**fields, self.model_field: model, **({"stream": True} if is_stream else {})}


def event(data: Mapping[str, Json], name: str | None = None) -> bytes:
    """One server-sent event."""
    return (b"event: %b\n" % name.encode() if name else b"") + b"data: %b\n\n" % canonical(data)


def pieces(text: str) -> list[str]:
    """`text` as deltas."""
    return [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
