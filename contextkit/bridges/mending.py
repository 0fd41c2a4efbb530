"""What a bridge changes in a request: the proxy's repairs, and plain texts spelled alike in every request.

Takes a body, gives the one to send. A marker makes a block of the plain text it stands on; where the next request says
that text plainly again, its bytes have moved. So where markers are placed, every text is a block from the first request
on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock

from contextkit.errors import ContextKitError
from contextkit.proxy.repairs.repairs import Repairs
from contextkit.proxy.repairs.spans import Span, elements, members

_OPENING, _CLOSING = b'[{"type":"text","text":', b"}]"
_MARKER = b'"cache_control"'


class Mending:
    """Some repairs, for the conversations of one bridge; call it with a wire and a body."""

    __slots__ = ("_lock", "_places", "_repairs")

    def __init__(self, names: Sequence[str]) -> None:
        """Raises `UsageError` for a repair there is not."""
        self._repairs, self._places, self._lock = Repairs(names), "place-breakpoints" in names, Lock()

    def __call__(self, wire: str, body: bytes) -> tuple[bytes, tuple[str, ...]]:
        """The body to send, and the names of the repairs that changed it; `body` itself where none did."""
        spelled = in_blocks(wire, body) if self._places else body
        with self._lock:
            repaired = self._repairs(wire, spelled)
        return (spelled, ()) if repaired is None else (repaired.body, repaired.names)


def in_blocks(wire: str, body: bytes) -> bytes:
    """`body` with each text of its system and messages as a block.

    As it is where its client sets markers, or on another wire.

    >>> in_blocks("anthropic_messages", b'{"messages":[{"role":"user","content":"hi"}]}')
    b'{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}'
    """
    if wire != "anthropic_messages" or _MARKER in body:
        return body
    try:
        spans = sorted(_texts(body))
    except (ContextKitError, IndexError, KeyError, ValueError):
        return body  # spelled as no SDK does: its provider will say what it thinks of it
    parts, at = list[bytes](), 0
    for start, end in spans:
        parts += [body[at:start], _OPENING, body[start:end], _CLOSING]
        at = end
    return b"".join([*parts, body[at:]])


def _texts(body: bytes) -> Iterator[Span]:
    """Where the texts stand; an empty one is no block."""
    fields = members(body)
    contents = [members(body, start)[b"content"] for start, _ in elements(body, fields[b"messages"][0])]
    yield from (
        span for span in [*contents, *([fields[b"system"]] if b"system" in fields else [])] if _is_text(body, span)
    )


def _is_text(body: bytes, span: Span) -> bool:
    return body[span[0] : span[0] + 1] == b'"' and span[1] - span[0] > 2
