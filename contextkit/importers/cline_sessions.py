"""Sessions of Cline's SDK, which its command line and its newer extension write (`sessions/<id>/<id>.messages.json`).

Takes a source, gives one call for each message with `metrics`. Prompts are not given: the tools are in no file.

`inputTokens` hold what was read and written, whoever was asked; `cost` is what Cline says it cost.
"""

from __future__ import annotations

from collections.abc import Iterator

from contextkit.importers.field_maps import FieldMap
from contextkit.importers.format import has_names
from contextkit.importers.rows import bare, rows, table
from contextkit.importers.session_calls import SessionCalls
from contextkit.importers.source import Source
from contextkit.importers.transcript import plausible
from contextkit.ledger.calls import Record

FIELDS = FieldMap(
    id="id",
    ended_at="ts",
    provider="modelInfo.provider",
    model="modelInfo.id",
    prompt="metrics.inputTokens",
    read="metrics.cacheReadTokens",
    write="metrics.cacheWriteTokens",
    output="metrics.outputTokens",
    reading="inclusive",
    billed_usd="metrics.cost",
)


def is_cline_session(head: bytes) -> bool:
    """Return whether a file that starts like this is a session.

    >>> is_cline_session(b'{"version":1,"updated_at":"2026-08-01","agent":"lead","sessionId":"s","messages":[]}')
    True
    >>> is_cline_session(b'{"version":1,"sessionId":"s","messages":[]}')
    False
    """
    start = bare(head)[:1024]
    return start.startswith(b"{") and has_names(start, "updated_at agent sessionId")


def read(source: Source) -> Iterator[Record]:
    """The calls of a session in their order."""
    calls = SessionCalls(source, "cline session")
    for number, row in rows(source):
        messages = row.get("messages")
        if not isinstance(messages, list):
            source.fault(number, "no session with a list of messages; passed over")
            continue
        session, agent = str(row.get("sessionId") or source.label), str(row.get("agent") or "lead")
        lane = "main" if agent == "lead" else agent
        for place, message in enumerate(messages):
            if not isinstance(message, dict):
                continue
            name = FIELDS.id_of(message) or f"{session}/{place}"
            if message.get("role") == "user":
                calls.put(plausible(message.get("ts")))
            elif not table(message.get("metrics")):
                calls.n_unbilled += message.get("role") == "assistant"
            elif calls.is_new(f"{name} {message.get('ts')}"):
                call = FIELDS.call(source, number, message, id=name, session=session, lane=lane)
                yield from calls.call(number, call)
    calls.finish()
