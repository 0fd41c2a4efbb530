"""The analytics log of aider (`aider --analytics-log FILE`): what each message cost.

Takes a source, gives one call for each event `message_send`. What was read from a cache is in no event.

* `prompt_tokens` is what aider counted as sent: with what was written and without what was read where a host says
  either. So neither is known; `completion_tokens` and `cost`, which aider works out itself, are.
* A message that the model was asked to finish, or to mend, is one event for several calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from contextkit.importers.field_maps import FieldMap, text_at
from contextkit.importers.format import first_line
from contextkit.importers.session_calls import SessionCalls
from contextkit.importers.source import Source
from contextkit.importers.transcript import parsed, plausible
from contextkit.ledger.calls import Record

FIELDS = FieldMap(
    ended_at="time",
    model="properties.main_model",
    output="properties.completion_tokens",
    billed_usd="properties.cost",
)
_EVENT = re.compile(rb'\{\s*"event"\s*:\s*"[\w ./-]+"\s*,\s*"properties"\s*:\s*\{')


def is_aider(head: bytes) -> bool:
    """Return whether a file that starts like this is such a log.

    >>> is_aider(b'{"event":"launched","properties":{},"user_id":"u","time":1}'), is_aider(b'{"event":"launched"}')
    (True, False)
    """
    line = first_line(head)
    return _EVENT.match(line) is not None and b'"user_id"' in line


def read(source: Source) -> Iterator[Record]:
    """The messages of a log in its order; each launch is a session."""
    calls, session = SessionCalls(source, "aider"), source.label
    for number, line in source.lines():
        event = parsed(source, number, line)
        if event is None:
            continue
        said, kind = event.get("properties"), event.get("event")
        if not isinstance(said, dict) or not isinstance(kind, str):
            source.fault(number, "no event of aider; passed over")
        elif kind == "launched":
            session = f"{source.label} {event.get('time')}"
        elif kind == "message_send_starting":
            calls.put(plausible(event.get("time")))
        elif kind == "message_send" and calls.is_new(
            f"{event.get('user_id')} {event.get('time')} {sorted(said.items())}"
        ):
            model = text_at(event, FIELDS.model).replace("None", "")  # as aider writes that there is none
            name = f"{session}/{number}"
            call = FIELDS.call(source, number, event, names=("", model), id=name, session=session)
            yield from calls.call(number, call)
    calls.finish()
