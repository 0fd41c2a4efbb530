"""Sessions of Cline's SDK, which its command line and its newer extension write (`sessions/<id>/<id>.messages.json`).

Takes a source, gives one call for each message with `metrics`. Prompts are not given: the tools are in no file.

`inputTokens` hold what was read and written, whoever was asked; `cost` is what Cline says it cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from contextkit.importers.provider_names import provider_and_model
from contextkit.importers.rows import bare, rows, table
from contextkit.importers.session_calls import SessionCalls
from contextkit.importers.source import Source
from contextkit.importers.spans import Counts
from contextkit.importers.transcript import dollars, plausible, recorded_id
from contextkit.ledger.calls import ModelCall, Record

_NAMES = ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens")


def is_cline_session(head: bytes) -> bool:
    """Return whether a file that starts like this is a session.

    >>> is_cline_session(b'{"version":1,"updated_at":"2026-08-01","agent":"lead","sessionId":"s","messages":[]}')
    True
    >>> is_cline_session(b'{"version":1,"sessionId":"s","messages":[]}')
    False
    """
    start = bare(head)[:1024]
    return start.startswith(b"{") and all(name in start for name in (b'"updated_at"', b'"agent"', b'"sessionId"'))


def read(source: Source) -> Iterator[Record]:
    """The calls of a session in their order."""
    calls = SessionCalls(source, "cline session")
    for number, row in rows(source):
        messages = row.get("messages")
        if not isinstance(messages, list):
            source.fault(number, "no session with a list of messages; passed over")
            continue
        session, agent = str(row.get("sessionId") or source.label), str(row.get("agent") or "lead")
        for place, message in enumerate(messages):
            if isinstance(message, dict):
                yield from _records(calls, number, place, message, session, "main" if agent == "lead" else agent)
    calls.finish()


def _records(
    calls: SessionCalls, number: int, place: int, message: dict[str, Any], session: str, lane: str
) -> Iterator[Record]:
    now, said = plausible(message.get("ts")), table(message.get("metrics"))
    name = recorded_id(message.get("id")) or f"{session}/{place}"
    if message.get("role") == "user":
        calls.put(now)
    elif not said:
        calls.n_unbilled += message.get("role") == "assistant"
    elif calls.is_new(f"{name} {message.get('ts')}"):
        info = table(message.get("modelInfo"))
        provider, model = provider_and_model(str(info.get("provider") or ""), str(info.get("id") or ""))
        counts = Counts(*(calls.source.count(number, said.get(one)) for one in _NAMES))
        usage = calls.usage(number, provider, counts, "inclusive")
        row = ModelCall(
            id=name,
            session=session,
            provider=provider,
            model=model,
            usage=usage,
            ended_at=now,
            lane=lane,
            billed_usd=dollars(said.get("cost")),
        )
        yield from calls.call(number, row)
