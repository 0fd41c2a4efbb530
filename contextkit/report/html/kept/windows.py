"""What stood and what stands where a miss broke its prefix, quoted for the page.

Takes judged calls as they come, keeps the body of each lane's last billed call within a bound; gives the words around
the first difference of two bodies, secrets covered. Nothing where either body was not recorded.
"""

from __future__ import annotations

from collections import OrderedDict

from contextkit.ledger.calls import Bodies
from contextkit.ledger.misses import Judged, measured
from contextkit.ledger.prompts import read_body
from contextkit.prompt.diff import Divergence, divergence
from contextkit.prompt.prompt import PromptLayout
from contextkit.redact import redact

MOST_BYTES = 64 << 20
"""Bodies kept, all lanes together."""
BEFORE, BEHIND = 24, 56
"""Bytes quoted on either side of the first difference."""
Sides = tuple[str, str]
"""What stood there, what stands there; empty where a side has ended."""
_TEXTS = frozenset({"tools_changed", "system_changed", "messages_changed"})
"""Causes that are a change of what is said."""


class Windows:
    """The last bodies of all lanes."""

    __slots__ = ("_kept", "_n_bytes")

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._n_bytes = 0

    def see(self, call: Judged) -> Sides | None:
        """The next call; gives both sides of what it broke."""
        exchange = call.exchange
        if not isinstance(exchange.prompt, Bodies) or measured(exchange) is None:
            return None
        place, raw = (exchange.session, exchange.lane), exchange.prompt.request
        before = self._kept.pop(place, b"")
        self._keep(place, raw, len(before))
        is_asked = before and call.miss and call.miss.lost_tokens and call.miss.cause in _TEXTS
        return _sides(before, raw, exchange.provider, exchange.model) if is_asked else None

    def _keep(self, place: tuple[str, str], raw: bytes, n_gone: int) -> None:
        self._kept[place] = raw
        self._n_bytes += len(raw) - n_gone
        while self._n_bytes > MOST_BYTES and len(self._kept) > 1:
            self._n_bytes -= len(self._kept.popitem(last=False)[1])


def _sides(before: bytes, now: bytes, provider: str, model: str) -> Sides | None:
    older, newer = read_body(before, provider, model), read_body(now, provider, model)
    found = divergence(older.layout, newer.layout) if older and newer else None
    return (_quoted(older.layout, found), _quoted(newer.layout, found)) if older and newer and found else None


def _quoted(layout: PromptLayout, found: Divergence) -> str:
    """The block around the place; secrets go before it is cut, as half of one looks like none."""
    body = redact(layout.columns.body(found.segment)) if found.segment < layout.n else b""
    first, last = max(0, found.offset - BEFORE), found.offset + BEHIND
    text = body[first:last].decode("utf-8", "replace").strip("\ufffd")
    return ("…" if first else "") + text + ("…" if last < len(body) else "") if text else ""
