"""What requests leave out since the provider keeps it, put back: a recording says what each call was asked with.

Takes request bodies and what was answered, gives bodies with their whole input. No body is read before a request names
its past: whoever says everything in each request pays for keeping the answers only.
"""

from __future__ import annotations

import json
from collections import OrderedDict

from contextkit.canonical import Json, canonical, parse
from contextkit.errors import NotSerialisable
from contextkit.providers.stateful.continuing import CONVERSATION, PREVIOUS
from contextkit.providers.stateful.histories import Histories, Unknown, named_in

MOST_BYTES = 1 << 26
"""Of requests and answers that nobody has gone on from yet; the oldest go first."""
_NAMES = tuple(f'"{name}"'.encode() for name in (PREVIOUS, CONVERSATION))


class Pasts:
    """Of the responses that passed by.

    >>> pasts = Pasts()
    >>> pasts.heard("resp_1", b'{"input":"hi"}', [{"role": "assistant", "content": "Hello."}])
    >>> pasts.whole(b'{"input":"and?","previous_response_id":"resp_1"}').count(b'"role"')
    3
    """

    __slots__ = ("_has_heard", "_histories", "_most", "_n_bytes", "_waiting")

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._n_bytes = most_bytes, 0
        self._waiting: OrderedDict[str, tuple[bytes, bytes]] = OrderedDict()
        self._histories, self._has_heard = Histories(most_bytes), False

    def heard(self, name: str, body: bytes, output: list[Json]) -> None:
        """The response `name` answered `body`, as it was sent, with these items."""
        if name in self._waiting:
            return
        said = canonical(output)
        self._waiting[name], self._has_heard = (body, said), True
        self._n_bytes += len(body) + len(said)
        while self._n_bytes > self._most:
            self._n_bytes -= sum(map(len, self._waiting.popitem(last=False)[1]))

    def whole(self, body: bytes) -> bytes:
        """`body` with what it goes on from in its input; itself where it says everything, or where that is not known."""
        fields = fields_of(body) if self._has_heard and any(name in body for name in _NAMES) else {}
        before = named_in(fields)
        if before is None:
            return body
        self._learn(before.name)
        whole = self._histories.whole(fields)
        if isinstance(whole, Unknown):
            return body
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    def _learn(self, name: str) -> None:
        """A response, and those it went on from, oldest first."""
        chain = []
        while name in self._waiting:
            body, said = self._waiting.pop(name)
            self._n_bytes -= len(body) + len(said)
            fields = fields_of(body)
            chain.append((name, fields, parse(said)))
            before = named_in(fields)
            name = before.name if before else ""
        for name, fields, output in reversed(chain):
            self._histories.follow(name, fields, output)


def fields_of(body: bytes) -> dict[str, Json]:
    """A body as an object, empty where it is none."""
    try:
        fields = parse(body)
    except NotSerialisable:
        return {}
    return fields if isinstance(fields, dict) else {}
