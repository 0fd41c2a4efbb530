"""Two recorded bodies side by side, only where a call missed: what exactly is not what it was.

Takes the calls of a recording as they come, keeps the body of each lane's last billed call, within a bound; gives a
`Pair` whose calls know their segments and marks, and the place of the first difference. A call that read what it could
costs nothing here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace

from contextkit.cache.prompt import Prompt
from contextkit.layout.divergence import divergence
from contextkit.ledger.bodies.reading import Read, read_body
from contextkit.ledger.causes import Call, Pair, call_of
from contextkit.ledger.exchange import Bodies, Exchange
from contextkit.ledger.outlines import outline

MOST_BYTES = 64 << 20
"""Bodies kept, all lanes together; of a lane whose body had to go only times and bills are compared."""


class KeptBodies:
    """The body of the last billed call of each lane, the lanes used last at the end."""

    __slots__ = ("_kept", "_n_bytes")

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._n_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, exchange: Exchange) -> None:
        """`exchange` is its lane's last billed call from now on."""
        place = exchange.session, exchange.lane
        self._n_bytes -= len(self._kept.pop(place, b""))
        if isinstance(exchange.prompt, Bodies):
            self._kept[place] = exchange.prompt.request
            self._n_bytes += len(exchange.prompt.request)
            while self._n_bytes > MOST_BYTES and len(self._kept) > 1:
                self._n_bytes -= len(self._kept.popitem(last=False)[1])

    def compared(self, pair: Pair, raw: bytes) -> Pair:
        """`pair` with what both bodies say; as it was where either cannot be read. `raw` is the body of `pair.now`."""
        older, newer = self._read(pair.before), _read(pair.now, raw)
        if older is None or newer is None:
            return pair
        found = divergence(older.layout, newer.layout)
        place = f"{found.path} byte {found.offset:,}" if found else ""
        lane = replace(pair.lane, kept=found.segment if found else older.prompt.n, entries=[])
        before, now = _told(pair.before, older), _told(pair.now, newer)
        return replace(pair, lane=lane, before=before, now=now, prompt=newer.prompt, place=place, is_whole=True)

    def beside(self, now: Call, raw: bytes, siblings: Iterable[Call]) -> tuple[Call, Prompt | None, list[Call]]:
        """A lane's first call and those of other lanes that had not begun to answer when it started, each with its
        segments.
        """
        late = [call for call in siblings if call.began_at is not None and call.began_at > now.exchange.at]
        newer = _read(now, raw) if late else None
        if newer is None:
            return now, None, late
        return _told(now, newer), newer.prompt, [_told(call, read) for call in late if (read := self._read(call))]

    def _read(self, call: Call) -> Read | None:
        raw = self._kept.get((call.exchange.session, call.exchange.lane))
        return _read(call, raw) if raw else None


def _read(call: Call, raw: bytes) -> Read | None:
    return read_body(raw, call.exchange.provider, call.exchange.model)


def _told(call: Call, read: Read) -> Call:
    """`call` with the facts of its prompt."""
    said = outline(None, read.prompt, [-1] * read.prompt.n, 0)
    return call_of(replace(call.exchange, prompt=said), call.usage, read.prompt)
