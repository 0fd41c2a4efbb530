"""What one endpoint needs to be spoken: its checks, its errors, its answers.

A wire is a table of functions; the flow of a request is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from contextkit.cache.usage import Usage
from contextkit.canonical import Json, canonical
from contextkit.errors import UnknownModel, UnreadableRequest
from contextkit.providers.diagnostics import Fingerprint, Fingerprints
from contextkit.providers.openai.stored import Stored
from contextkit.providers.scripted import Part
from contextkit.providers.validation import Asked, Early, Late, Refusal, Sent

CHUNK = 48
"""Characters in one delta of a stream."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Everything a response is written from."""

    id: str
    """Its id."""
    number: int
    """How many responses came before, for ids inside it."""
    at: int
    """When it began, whole seconds since 1970."""
    body: Mapping[str, Json]
    """The request."""
    parts: tuple[Part, ...]
    """What is said, ids and signatures filled in."""
    stop: str
    """done, calls, truncated, paused, refused or overflow."""
    usage: Usage
    """The whole bill."""
    thinking_tokens: int
    """How much of the output is thinking."""
    diagnosis: Json
    """Why the cache missed, in the wire's words; None where nobody asked."""
    billed: Callable[[Json], dict[str, Json]]
    """OpenAI's counters → the fields of a response that tell the bill, as whoever answers spells them."""
    told: Mapping[str, Json]
    """What it says of what was done to the request."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer as events, in the pieces a fault may fall between."""

    head: bytes
    """What comes before the first part."""
    parts: tuple[bytes, ...]
    """The events of each part."""
    tail: bytes
    """What ends it."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One endpoint."""

    name: str
    """Key in `contextkit.providers.PARSERS`."""
    family: str
    """`anthropic`, `openai`, `aws` or `google`: whose caches and prices."""
    id_prefix: str
    """What ids of responses begin with."""
    workspace: str
    """Header that separates caches."""
    early: tuple[Early, ...]
    """Checks before the body is understood."""
    late: tuple[Late, ...]
    """Checks after it."""
    unreadable: Callable[[UnreadableRequest], Refusal]
    """What an unreadable body is answered with."""
    unknown_model: Callable[[str, UnknownModel], Refusal]
    """What a model without a row is answered with."""
    fault: Callable[[int, str | None, str | None], Refusal]
    """A scripted (status, type, message) as an error."""
    impossible: Mapping[str, Refusal]
    """Scripted endings that are an error here."""
    error: Callable[[Refusal], Json]
    """The body of an error."""
    error_event: Callable[[Refusal], bytes]
    """An error in mid-stream."""
    statuses: Mapping[str, int]
    """Type of error → HTTP status, where an `error_event` meets a request that is not streamed."""
    content: Callable[[tuple[Part, ...]], list[Json]]
    """Parts as this wire's blocks, for what is remembered of them."""
    whole: Callable[[Answer], Json]
    """The response."""
    stream: Callable[[Answer], Stream]
    """The response as events."""
    silent: Callable[[Mapping[str, Json]], str | None]
    """How a request ends that only fills the cache and is answered with nothing; None for every other."""
    diagnose: Callable[[Fingerprints, Fingerprint, int], Json]
    """Its diagnosis."""
    is_remembered: Callable[[Mapping[str, Json]], bool]
    """Whether a later request may be compared with this one."""
    fields: frozenset[str] | None = None
    """Top-level fields that are known, None where every field is taken without a word."""
    model_field: str = "model"
    """Field that names the model."""
    stream_type: str = "text/event-stream; charset=utf-8"
    """Media type of a stream."""
    id_header: str = "x-request-id"
    """Header that names a response."""
    moved: Callable[[Mapping[str, Json], int], Refusal] | None = None
    """(request, number of a thinking block) → what is said of one whose past has changed; None where nobody looks."""
    dropped: Callable[[Asked, tuple[int, ...]], Asked | None] = lambda asked, ordinals: None
    """(request, numbers of such blocks) → the request without them, where it asks for that."""
    told: Callable[[Asked], dict[str, Json]] = lambda asked: {}
    """What the response says of what was done to the request."""
    resolved: Callable[[Stored, Sent], Sent | Refusal] | None = None
    """A request → the same with what the server keeps of its conversation; None where everything is said each time."""
    kept: Callable[[Stored, Asked, Answer], None] = lambda stored, asked, answer: None
    """What a later request may lean on is kept."""


def event(data: Mapping[str, Json], name: str | None = None) -> bytes:
    """One server-sent event."""
    return (b"event: %b\n" % name.encode() if name else b"") + b"data: %b\n\n" % canonical(data)


def pieces(text: str) -> list[str]:
    """`text` as deltas."""
    return [text[start : start + CHUNK] for start in range(0, len(text), CHUNK)]
