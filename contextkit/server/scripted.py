"""What the local provider says: scripts in words no provider owns, and where they come from.

Takes JSON or Python values, gives `ReplyScript`s; knows nothing of wires or caches.

    {"parts": [{"type": "thinking", "thinking": "…"}, {"type": "text", "text": "…"}, {"type": "call", "name": "f",
    "arguments": {}}],
     "stop": "calls", "output_tokens": 12, "seconds": 3, "fault": {"kind": "cut", "after_parts": 1}}

Every field may be left out. A script with a `status` fault is used up by the attempt it refuses, so that an SDK's retry
meets the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from contextkit.canonical import Json
from contextkit.errors import UnreadableRequest
from contextkit.providers.provider import Parsed

Stop = Literal["done", "calls", "truncated", "paused", "refused", "overflow"]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Text(_Value):
    """Something said."""

    type: Literal["text"] = "text"
    text: str


class Thinking(_Value):
    """Something thought; the signature is made up where none is given."""

    type: Literal["thinking"] = "thinking"
    thinking: str
    signature: str | None = None


class Call(_Value):
    """A tool call; the id is counted where none is given. Its arguments are a text where it calls a custom tool."""

    type: Literal["call"] = "call"
    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    id: str | None = None


Part = Annotated[Text | Thinking | Call, Field(discriminator="type")]


class StatusFault(_Value):
    """An HTTP error instead of a response."""

    kind: Literal["status"]
    status: int = Field(ge=400, le=599)
    type: str | None = None
    message: str | None = None
    retry_after: float | None = Field(default=None, ge=0)


class Cut(_Value):
    """The connection closes after some parts; without streaming, before the body is complete."""

    kind: Literal["cut"]
    after_parts: int = Field(ge=0)


class ErrorEvent(_Value):
    """An error in mid-stream; without streaming, as an HTTP error."""

    kind: Literal["error_event"]
    after_parts: int = Field(default=0, ge=0)
    type: str = "overloaded_error"
    message: str = "Overloaded"


class Never(_Value):
    """The connection closes before the response begins: billed, and nothing becomes readable."""

    kind: Literal["never"]


Fault = Annotated[StatusFault | Cut | ErrorEvent | Never, Field(discriminator="kind")]


class ReplyScript(_Value):
    """One response to come."""

    parts: Annotated[tuple[Part, ...], Field(strict=False)] = ()
    stop: Stop | None = None
    """None: `calls` where a call is among the parts, else `done`."""
    output_tokens: int | None = Field(default=None, ge=0)
    """None: counted."""
    seconds: float = Field(default=0.0, ge=0)
    """How far the clock moves between the beginning of the response and its end."""
    wait_seconds: float = Field(default=0.0, ge=0, le=600)
    """Real seconds between the request and the beginning of its response: calls made meanwhile find nothing of it in
    the cache."""
    fault: Fault | None = None

    @property
    def ending(self) -> Stop:
        """Why it stops."""
        return self.stop or ("calls" if any(isinstance(part, Call) for part in self.parts) else "done")


ReplySource = Callable[[Parsed, Json], "ReplyScript | Mapping[str, Json]"]
"""(request as the cache sees it, request body) → what to answer."""


_FORM = 'a script is {"parts": [{"type": "text", "text": "…"}]}, its fields are ' + ", ".join(ReplyScript.model_fields)
"""What is told of a script that is none."""


def script(value: Any, path: str) -> ReplyScript:
    """`value` as a script; raises `UnreadableRequest` naming the field of the item that is wrong.

    >>> script({"parts": [{"type": "text", "text": "hi"}]}, "replies.0").ending
    'done'
    """
    if isinstance(value, ReplyScript):
        return value
    try:
        return ReplyScript.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_input=False, include_url=False)[0]
        where = ".".join([path, *map(str, fault["loc"])])
        raise UnreadableRequest(where, f"{fault['msg']}; {_FORM}") from None


def echo(parsed: Parsed, body: Json) -> ReplyScript:
    """The answer where nobody wrote one: what the last message said, shortened."""
    items = body.get("messages") or body.get("input") or body.get("contents") or [""]
    words = _words(items[-1] if isinstance(items, list) else items)
    return ReplyScript(parts=(Text(text=f"You said: {words[:80]}" if words else "You said nothing in words."),))


def _words(value: Json) -> str:
    """The text somewhere in a message, a part or a list of them."""
    if isinstance(value, Mapping):
        return _words(next((value[key] for key in ("content", "parts", "text", "output") if value.get(key)), ""))
    return " ".join(map(_words, value)) if isinstance(value, list) else value if isinstance(value, str) else ""


class Replies:
    """Scripts in order; when they are used up, a callable."""

    def __init__(self, source: ReplySource | Iterable[Any] | None = None) -> None:
        """`source` is a list of scripts (or their JSON), a callable, or None for the echo."""
        self._otherwise: ReplySource = source if callable(source) else echo
        self._queue: deque[ReplyScript] = deque()
        self.extend(() if source is None or callable(source) else source)

    def extend(self, values: Iterable[Any]) -> None:
        """Put scripts behind those that wait: all of them, or none where one is wrong."""
        self._queue.extend([script(value, f"replies.{index}") for index, value in enumerate(values)])

    def clear(self) -> None:
        """Forget the scripts that wait."""
        self._queue.clear()

    def __len__(self) -> int:
        return len(self._queue)

    def next(self, parsed: Parsed, body: Json) -> ReplyScript:
        """Return the script of the next reply."""
        return self._queue.popleft() if self._queue else script(self._otherwise(parsed, body), "reply")
